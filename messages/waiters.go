package messages

// waiters maps identities to the readers that wait for messages. A woken reader reads again, so a slow reader blocks
// nothing.
type waiters map[string]*waiter

type waiter struct {
	arrived chan struct{}
	// count is the number of waiting readers.
	count int
}

// add registers a reader and returns a waiter. The channel arrived is closed at the next message. The reader must call
// remove.
func (w waiters) add(who string) *waiter {
	if w[who] == nil {
		w[who] = &waiter{arrived: make(chan struct{})}
	}
	w[who].count++
	return w[who]
}

func (w waiters) remove(who string, entry *waiter) {
	if entry.count--; entry.count == 0 && w[who] == entry {
		delete(w, who)
	}
}

// wake wakes all readers that a message may be for. They check their memberships themselves.
func (w waiters) wake(m *Message) {
	if m.onlyDirect() {
		for _, who := range m.To {
			w.wakeOne(who)
		}
		return
	}
	for who := range w {
		if m.IsFor(who, func(string) bool { return true }) {
			w.wakeOne(who)
		}
	}
}

func (w waiters) wakeOne(who string) {
	if entry := w[who]; entry != nil {
		close(entry.arrived)
		delete(w, who)
	}
}
