package server

import "sync"

// replies are the calls in progress: their channels are closed when the answer was sent.
type replies struct {
	mu   sync.Mutex
	open map[replyKey]chan struct{}
}

// replyKey identifies a request by its session and its id.
type replyKey struct{ session, request string }

// register registers a call and returns the function to call after its answer was sent.
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

// done returns the channel of a call, nil if it is answered.
func (r *replies) done(session, request string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out, ok := r.open[replyKey{session, request}]; ok {
		return out
	}
	return nil
}
