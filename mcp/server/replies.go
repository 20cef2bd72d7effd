package server

import "sync"

// replies are the calls that have not been answered.
type replies struct {
	mu sync.Mutex
	// pending contains a channel for each call, which is closed after the answer was sent.
	pending map[replyKey]chan struct{}
}

// replyKey identifies a request by its session and its id.
type replyKey struct{ session, request string }

// register registers a call and returns the function to call after its answer was sent.
func (r *replies) register(session, request string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[replyKey]chan struct{}{}
	}
	key, out := replyKey{session, request}, make(chan struct{})
	r.pending[key] = out
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.pending[key] == out {
			delete(r.pending, key)
		}
		close(out)
	}
}

// done returns a channel that is closed after a call was answered; nil if the call is unknown or answered already.
func (r *replies) done(session, request string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out, ok := r.pending[replyKey{session, request}]; ok {
		return out
	}
	return nil
}
