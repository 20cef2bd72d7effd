package bus

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// maxIdleInboxes is the number of inboxes that a connection keeps for later pages. Each has a queue of 32 KB.
const maxIdleInboxes = 16

// inboxes keeps the inboxes of readers for the next page: most pages are short, and then a new subscription would cost more than
// the page.
type inboxes struct {
	mu   sync.Mutex
	idle []*nats.Subscription
}

// take returns an inbox without messages.
func (in *inboxes) take(nc *nats.Conn) (*nats.Subscription, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := len(in.idle)
	if n == 0 {
		return nc.SubscribeSync(nc.NewInbox())
	}
	sub := in.idle[n-1]
	in.idle = in.idle[:n-1]
	return sub, nil
}

// put keeps an inbox to which no more messages can come.
func (in *inboxes) put(sub *nats.Subscription) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.idle) == maxIdleInboxes {
		discard(sub)
		return
	}
	in.idle = append(in.idle, sub)
}

// discard ends an inbox to which more messages may come.
func discard(sub *nats.Subscription) { _ = sub.Unsubscribe() } // only fails on a closed connection
