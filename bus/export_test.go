package bus

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }
