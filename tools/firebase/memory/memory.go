// Package memory holds both databases of Firebase in memory, for tests and as the measure of what the
// other backends do. Nothing outlives the process.
package memory

import (
	"crypto/rand"
	"time"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// DefaultBacklog is how many events a watcher may be behind.
const DefaultBacklog = 1024

// MaxHeld is how many bytes of data a watcher may be behind; one event of any size always fits.
const MaxHeld = 32 << 20

// Config is the configuration of a database. The zero value is valid.
type Config struct {
	// Backlog is how many events a watcher may be behind before it is cut off; 0 is DefaultBacklog.
	Backlog int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Backlog == 0 {
		c.Backlog = DefaultBacklog
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
