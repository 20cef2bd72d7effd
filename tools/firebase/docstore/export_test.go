package docstore

// OpenAt returns a client of a server at host:port in place of Google's.
func OpenAt(cfg Config, server string) (*Client, error) { return openAt(cfg, server) }
