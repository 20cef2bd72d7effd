package rest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

const (
	// overlap is how much of the past a resumed stream repeats: the time between the decision about a change and its commit.
	overlap = 2 * time.Second
	// maxReplayed is the most tasks that a resumed stream repeats. A client that has missed more starts over.
	maxReplayed = 1000
)

// position is a place in the stream of the node: a client with a position has every change before a time. Lines of lists have that
// time, but no sequence number of all tasks that would survive the archive, so positions are times.
type position struct {
	micros int64
	// feed identifies the feed, whose clock the time is of.
	feed string
}

// newPosition returns the first position of a new feed.
func newPosition(now time.Time) position {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return position{now.UnixMicro(), hex.EncodeToString(b[:])}
}

// at returns the position of the same feed at a time.
func (p position) at(t time.Time) position { return position{t.UnixMicro(), p.feed} }

// String returns the position as the id of an event.
func (p position) String() string { return strconv.FormatInt(p.micros, 10) + "-" + p.feed }

// parsePosition reads the id of an event; false if it is not one of a position.
func parsePosition(id string) (position, bool) {
	text, feed, found := strings.Cut(id, "-")
	micros, err := strconv.ParseInt(text, 10, 64)
	return position{micros, feed}, found && err == nil && micros > 0
}

// resumesAt reports whether the feed can resume at a position. The position of an earlier feed must be older than this feed: else a
// clock was set back, and changes after the position may have earlier times.
func (f *Feed) resumesAt(p position) bool {
	return p.feed == f.start.feed || p.micros <= f.start.micros
}

// eventsOf is the request of GET /events.
type eventsOf struct {
	// After is the id of the last event that the client has; the header Last-Event-ID precedes it.
	After string `json:"after,omitempty"`
}

// lastEvent returns the id of the last event that a client has; empty for none.
func lastEvent(r *http.Request, in any) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	if request, ok := in.(*eventsOf); ok {
		return request.After
	}
	return ""
}

// resume adds what has changed since the event with an id to a listener, or says that changes are missing. The listener must listen
// already.
func (s *Server) resume(ctx context.Context, a api.API, to *listener, id string) {
	p, ok := parsePosition(id)
	if !ok || !s.cfg.Feed.resumesAt(p) {
		to.reset()
		return
	}
	if err := replay(ctx, a, to, time.UnixMicro(p.micros)); err != nil {
		to.reset()
	}
}

// replay adds the tasks that have changed since a time to a listener. It returns QUOTA_EXCEEDED if there are too many.
func replay(ctx context.Context, a api.API, to *listener, since time.Time) error {
	list, err := a.List(ctx, api.ListRequest{ChangedSince: since, Limit: maxReplayed})
	if err != nil {
		return err
	}
	if list.Next != "" {
		return fault.New(fault.QuotaExceeded, "more than %d tasks have changed", maxReplayed)
	}
	b := newBatch(list.Tasks, false)
	if b.lost {
		return fault.New(fault.Internal, "a task cannot be encoded")
	}
	to.addOlder(b.all, len(b.changes))
	return nil
}
