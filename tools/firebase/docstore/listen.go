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
	// wrong is the number of counts that differed since the last one that agreed.
	wrong int
	// current is true when the server has sent the complete initial state. It sends only changes after that.
	current bool
	// told is true when next has returned a state. documents are the documents of that state by their full names. changed are
	// the documents that differ in the next state; a removed document is nil.
	told               bool
	documents, changed map[string]*wire.Document
	pending            int       // size of what is in changed, in bytes
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
		return false, l.rest(ctx, &grpc.Error{Code: grpc.Internal, Message: err.Error()})
	case news.Target != nil:
		return l.turn(news.Target)
	case news.Changed != nil:
		return false, l.change(news.Changed.Name, news.Changed)
	case news.Gone != "":
		return false, l.change(news.Gone, nil)
	case news.Count != nil:
		return false, l.count(ctx, *news.Count)
	default:
		return false, nil
	}
}

// change records the new state of a document, nil for a removed one. It returns QUOTA_EXCEEDED when the next state exceeds the
// size limit of a watch.
func (l *listener) change(name string, now *wire.Document) error {
	l.pending += sizeOf(now) - sizeOf(l.changed[name])
	l.changed[name] = now
	if _, was := l.documents[name]; !was && now == nil {
		delete(l.changed, name)
	}
	if l.pending > l.client.cfg.MaxAnswer {
		return tooLarge(l.client.cfg.MaxAnswer)
	}
	return nil
}

// count compares the document count of the server with the documents known here. If they differ, changes were missed: after a
// pause, the next call requests the complete state again.
func (l *listener) count(ctx context.Context, documents int) error {
	if documents == l.size() {
		l.wrong = 0
		return nil
	}
	l.target.Resume, l.failures = nil, max(l.failures, l.wrong)
	l.wrong++
	return l.rest(ctx, errCount)
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
	l.current, l.changed, l.pending = false, map[string]*wire.Document{}, 0
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
	l.changed, l.pending = map[string]*wire.Document{}, 0
	return slices.Concat(gone, added, modified)
}
