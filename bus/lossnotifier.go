package bus

import "sync"

// lossNotifier calls functions when the connection is lost, for callers that wait for a reply.
type lossNotifier struct {
	mu      sync.Mutex
	last    int
	waiting map[int]func()
}

// onLoss calls f at the next loss of the connection, unless stop is called first.
func (l *lossNotifier) onLoss(f func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[int]func(){}
	}
	l.last++
	id := l.last
	l.waiting[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, id)
	}
}

// lost calls and removes all registered functions.
func (l *lossNotifier) lost() {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, f := range waiting {
		f()
	}
}
