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
	// target is the id of what a listener listens to; each has a call of its own.
	target = 1
	// firstRest and longestRest bound the pauses between two calls of a listener.
	firstRest   = time.Second
	longestRest = time.Minute
)

// listener hears what becomes of a document or of the documents of a collection. A call that ends is made again where it
// ended, so that changes are neither lost nor told twice.
type listener struct {
	client  *Client
	target  wire.Target
	answers *grpc.Answers // nil between two calls
	// failures is how many calls have ended since one was sound.
	failures int
	// current is true when the server has sent the whole state; what follows are changes.
	current bool
	// told is true when a state was returned, and documents are those in it by their full names. In changed are those that are
	// different in the next state; nil is one that is gone.
	told               bool
	documents, changed map[string]*wire.Document
	at                 time.Time // of the next state
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

// next waits for the next state, and returns how it differs from the one before. The first state is told even if it differs
// in nothing.
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

// hear takes one answer. It reports whether the state is whole.
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
		// Something was missed: the next call begins anew.
		l.target.Resume = nil
		l.stop()
	}
	return false, nil
}

// answer returns the next answer of the call, which it makes if there is none.
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

// begin makes ready for the answers of another call. Without a token the server sends the whole state: what it does not send
// is gone.
func (l *listener) begin() {
	l.current, l.changed = false, map[string]*wire.Document{}
	if len(l.target.Resume) == 0 {
		for name := range l.documents {
			l.changed[name] = nil
		}
	}
}

// rest waits before another call.
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

// turn takes what the server says about the target. It reports whether the state is whole.
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

// size is how many documents the next state has.
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

// settle makes the next state that of now, and returns how the two differ: what is gone, what was added, what was modified,
// each in the order of ids.
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
