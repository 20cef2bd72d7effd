package rest

import (
	"context"
	"time"

	"github.com/orch-dev/orch/api"
)

// Listen listens to a feed, for tests. read returns the batches of events that wait, and whether changes are missing.
func Listen(f *Feed) (read func() (batches []string, gap bool), end func()) {
	l, end := f.listen("")
	return func() ([]string, bool) {
		batches, gap := l.take()
		texts := make([]string, len(batches))
		for i, b := range batches {
			texts[i] = string(b)
		}
		return texts, gap
	}, end
}

// CountInbox counts what waits for people, for tests.
func CountInbox(ctx context.Context, a api.API) (Inbox, error) { return countInbox(ctx, a) }

// Position returns the time of the position of a feed, and whether it is known, for tests.
func Position(f *Feed) (time.Time, bool) {
	p, known := f.position()
	return time.UnixMicro(p.micros), known
}
