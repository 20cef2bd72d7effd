package orchestrator

// ioLock is a lock that is held while something is read or written, so that others may wait long for it. In a test with a clock of
// its own, a goroutine that waits for it counts as one that waits, unlike for a sync.Mutex.
type ioLock chan struct{}

func newIOLock() ioLock { return make(ioLock, 1) }

// Lock implements sync.Locker.
func (l ioLock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l ioLock) Unlock() { <-l }
