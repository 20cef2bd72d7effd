package bus

// Restart starts the server anew in its place, as a full disk makes it do.
func (s *Server) Restart() error { return s.restart() }
