package messages

// waiters are those who wait for messages, by identity. A reader that is stuck holds nothing: it asks again.
type waiters map[string]*waiter

type waiter struct {
	arrived chan struct{}
	// count is how many wait.
	count int
}

// join returns what is closed at the next message. It has to be followed by leave.
func (w waiters) join(who string) *waiter {
	if w[who] == nil {
		w[who] = &waiter{arrived: make(chan struct{})}
	}
	w[who].count++
	return w[who]
}

func (w waiters) leave(who string, one *waiter) {
	if one.count--; one.count == 0 && w[who] == one {
		delete(w, who)
	}
}

// wake tells all whom a message may be for. Who is in which group they see themselves.
func (w waiters) wake(m *Message) {
	if m.onlyDirect() {
		for _, who := range m.To {
			w.call(who)
		}
		return
	}
	for who := range w {
		if m.Addresses(who, func(string) bool { return true }) {
			w.call(who)
		}
	}
}

func (w waiters) call(who string) {
	if one := w[who]; one != nil {
		close(one.arrived)
		delete(w, who)
	}
}
