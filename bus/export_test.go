package bus

// Restart starts the server anew in its place, as a full disk makes it do.
func (s *Server) Restart() error { return s.restart() }

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }
