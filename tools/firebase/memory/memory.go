// Package memory holds both databases of Firebase in memory: for tests, as the measure of what the other backends do,
// and as what the embedded databases are made of. Nothing outlives the process, unless Config.Keep sees to it.
package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Config is the configuration of a database. The zero value is valid.
type Config struct {
	// Backlog is how many events a watcher may be behind before it is cut off; 0 is backlog.Default.
	Backlog int
	// Held is how many bytes of data a watcher may be behind; 0 is backlog.MaxHeld.
	Held int
	// Most is how many bytes of data the database holds, about; more is refused with QUOTA_EXCEEDED. 0 is no bound.
	Most int
	// Keep makes a change durable before anybody sees it; writes wait for one another meanwhile, reads do not. An
	// error refuses the write. Nil keeps nothing.
	Keep func(context.Context, Change) error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// ErrOvertaken is what Config.Keep returns when others wrote first and Replay has brought their changes: the write is
// decided once more.
var ErrOvertaken = errors.New("others wrote first")

// Put is one place of a database and what stands there after a change; nil is nothing.
type Put struct {
	Path string `json:"path"`
	// Data is the fields of a document, or a node of a Realtime Database as tree.Node.Export returns it.
	Data any `json:"data"`
	// Revision is that of a document.
	Revision uint64 `json:"revision,omitempty"`
}

// Change is what one write makes of a database.
type Change struct {
	At   time.Time `json:"at"`
	Puts []Put     `json:"puts"`
}

// State is all that a database holds.
type State struct {
	Puts []Put `json:"puts"`
	// Revision is the newest one that any document had.
	Revision uint64 `json:"revision,omitempty"`
}

func (c Config) withDefaults() Config {
	if c.Keep == nil {
		c.Keep = func(context.Context, Change) error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// nextKey returns the next key of a push.
func nextKey(keys *tree.Keys, at time.Time) string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return keys.Next(at, random)
}

func changedMeanwhile() error {
	return refusal.New(refusal.Conflict, "somebody else wrote there meanwhile").WithField("path").
		WithHint("read again and decide again")
}

func noSuchEvents(events firebase.EventType, where string) error {
	return refusal.New(refusal.ValidationError, "%s has no events %q", where, events).WithField("eventType")
}

func noSuchOperation(operation firebase.Operation) error {
	return refusal.New(refusal.ValidationError, "there is no operation %q", operation).WithField("operation")
}

func unconditionalPush() error {
	return refusal.New(refusal.ValidationError, "a push depends on no version").WithField("operation")
}

// full refuses a write that makes a database larger than it may be.
func (c Config) full(before, after int) error {
	if c.Most == 0 || after <= c.Most || after <= before {
		return nil
	}
	return refusal.New(refusal.QuotaExceeded, "the database would hold %d bytes, at most %d", after, c.Most).
		WithHint("delete what nobody needs")
}

// untilDecided makes a write, anew after each time that others were first.
func untilDecided(write func() (firebase.Written, error)) (firebase.Written, error) {
	for {
		written, err := write()
		if !errors.Is(err, ErrOvertaken) {
			return written, err
		}
	}
}
