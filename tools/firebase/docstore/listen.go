package docstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/grpc"
	"github.com/orch-dev/orch/tools/firebase/wire"
)

const (
	// target is the id of the target of a listener. Each listener has a separate call, so all can use the same id.
	target = 1
	// firstRest and longestRest are the minimum and the maximum of the pause between two calls of a listener.
	firstRest   = time.Second
	longestRest = time.Minute
)

// listener receives the changes of a document, or of the documents of a collection. When a call ends, the listener makes
// another call that resumes at the same point, so that changes are neither lost nor reported twice.
type listener struct {
	client  *Client
	target  wire.Target
	answers *grpc.Answers // nil between two calls
	// failures is the number of calls that have failed since the last progress.
	failures int
	// current is true when the server has sent the complete initial state. It sends only changes after that.
	current bool
	// told is true when next has returned a state. documents are the documents of that state by their full names. changed are
	// the documents that differ in the next state; a removed document is nil.
	told               bool
	documents, changed map[string]*wire.Document
	at                 time.Time // the time of the next state
}

func newListener(c *Client, at document.Path) *listener {
	l := &listener{client: c, target: wire.Target{ID: target}, documents: map[string]*wire.Document{}}
	if at.IsDocument() {
		l.target.Document = c.documentName(at)
	} else {
		l.target.Query = wire.Query{Parent: c.documentName(at.Parent()), Collection: at.ID()}
	}
	return l
}

// stop ends the call.
func (l *listener) stop() {
	if l.answers != nil {
		l.answers.Close()
		l.answers = nil
	}
}

// next waits for the next state and returns the changes since the previous state. For the first state it also returns if
// there are no changes.
func (l *listener) next(ctx context.Context) ([]change, error) {
	for {
		whole, err := l.hear(ctx)
		if err != nil {
			return nil, err
		}
		if !whole {
			continue
		}
		if changes := l.settle(); len(changes) > 0 || !l.told {
			l.told = true
			return changes, nil
		}
	}
}

// hear processes one answer. It reports whether the next state is complete.
func (l *listener) hear(ctx context.Context) (whole bool, err error) {
	answer, err := l.answer(ctx)
	if err != nil {
		if permanent(err) {
			return false, err
		}
		return false, l.rest(ctx, err)
	}
	news, err := wire.ReadNews(answer, target)
	switch {
	case err != nil:
		return false, err
	case news.Target != nil:
		return l.turn(news.Target)
	case news.Changed != nil:
		l.changed[news.Changed.Name] = news.Changed
	case news.Gone != "":
		l.changed[news.Gone] = nil
	case news.Count != nil && *news.Count != l.size():
		// Changes were missed: the next call must send the complete state again.
		l.target.Resume = nil
		l.stop()
	}
	return false, nil
}

// answer returns the next answer of the call. It makes a call if there is none.
func (l *listener) answer(ctx context.Context) ([]byte, error) {
	if l.answers == nil {
		call := l.client.call("Listen", "database", l.client.databaseName(), wire.Listen(l.client.databaseName(), l.target))
		call.Open = true
		answers, err := l.client.conn.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		l.answers = answers
		l.begin()
	}
	return l.answers.Next()
}

// begin prepares for the answers of another call. Without a resume token the server sends the complete state, and any
// document that it does not send was removed.
func (l *listener) begin() {
	l.current, l.changed = false, map[string]*wire.Document{}
	if len(l.target.Resume) == 0 {
		for name := range l.documents {
			l.changed[name] = nil
		}
	}
}

// rest ends the failed call and waits before another call.
func (l *listener) rest(ctx context.Context, err error) error {
	l.stop()
	wait := pause.Backoff(firstRest, longestRest, l.failures)
	if grpc.CodeOf(err) == grpc.ResourceExhausted {
		wait = longestRest
	}
	l.failures++
	return pause.For(ctx, wait)
}

// permanent reports whether another call would fail as well.
func permanent(err error) bool {
	if errors.Is(err, io.EOF) {
		return false
	}
	switch grpc.CodeOf(err) {
	case grpc.Unknown, grpc.DeadlineExceeded, grpc.ResourceExhausted, grpc.Internal, grpc.Unavailable, grpc.Unauthenticated:
		return false
	default:
		return true
	}
}

// turn processes a change of the target. It reports whether the next state is complete.
func (l *listener) turn(c *wire.TargetChange) (whole bool, err error) {
	switch c.State {
	case wire.NoChange:
		if c.All && !c.At.IsZero() && l.current {
			l.at, l.target.Resume, l.failures = c.At, c.Resume, 0
			return true, nil
		}
	case wire.Added:
		if !c.Ours {
			return false, errAnswer
		}
	case wire.Removed:
		if c.Code != uint32(grpc.OK) {
			return false, &grpc.Error{Code: grpc.Code(c.Code), Message: c.Message}
		}
		return false, &grpc.Error{Code: grpc.Internal, Message: "the server listens no longer"}
	case wire.Current:
		l.current = true
	case wire.Reset:
		l.target.Resume = nil
		l.begin()
	default:
		return false, fmt.Errorf("the server says something unknown about the target: %d", c.State)
	}
	if len(c.Resume) > 0 && (c.All || c.Ours) {
		l.failures = 0
	}
	return false, nil
}

// size returns the number of documents in the next state.
func (l *listener) size() int {
	n := len(l.documents)
	for name, now := range l.changed {
		_, was := l.documents[name]
		switch {
		case was && now == nil:
			n--
		case !was && now != nil:
			n++
		}
	}
	return n
}

// settle makes the next state the current one, and returns the changes between the two: removed, then added, then modified
// documents, each in the order of ids.
func (l *listener) settle() []change {
	var gone, added, modified []change
	for _, name := range slices.Sorted(maps.Keys(l.changed)) {
		before, now := l.documents[name], l.changed[name]
		c := change{id: idOf(name), before: fieldsOf(before), now: fieldsOf(now), at: l.at}
		switch {
		case before == nil && now == nil:
			continue
		case now == nil:
			gone = append(gone, c)
			delete(l.documents, name)
			continue
		case before == nil:
			added = append(added, c)
		case !now.Updated.Equal(before.Updated):
			modified = append(modified, c)
		default:
			continue
		}
		l.documents[name] = now
	}
	l.changed = map[string]*wire.Document{}
	return slices.Concat(gone, added, modified)
}
