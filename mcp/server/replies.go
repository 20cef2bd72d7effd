package server

import "sync"

// replies are the calls that are being answered: their channels are closed when the answer is out.
type replies struct {
	mu   sync.Mutex
	open map[replyKey]chan struct{}
}

// replyKey names a request by its session and its id.
type replyKey struct{ session, request string }

// register notes a call and returns how to end that.
func (r *replies) register(session, request string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[replyKey]chan struct{}{}
	}
	key, out := replyKey{session, request}, make(chan struct{})
	r.open[key] = out
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.open[key] == out {
			delete(r.open, key)
		}
		close(out)
	}
}

// done returns the channel of a call, nil when it is answered.
func (r *replies) done(session, request string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out, ok := r.open[replyKey{session, request}]; ok {
		return out
	}
	return nil
}
