// Package memory implements both Firebase databases in memory. It serves tests as the reference for other backends, and
// is the basis of package embedded. The data is lost when the process ends, unless Config.Persist stores it.
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

// Config configures a database. The zero value is valid.
type Config struct {
	// Backlog is how many events a watcher may be behind before its watch ends; 0 means backlog.Default.
	Backlog int
	// Held is how many bytes of data a watcher may be behind; 0 means backlog.MaxHeld.
	Held int
	// Most is the approximate maximum size of the data in bytes. Writes that exceed it fail with QUOTA_EXCEEDED. 0 means
	// no limit.
	Most int
	// Persist makes a change durable before the change becomes visible. Writes wait for Persist, reads do not. If it
	// returns an error, the write fails. nil means that nothing is persisted.
	Persist func(context.Context, Change) error
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// ErrOvertaken is the error with which Config.Persist reports that other processes have written first, and that their
// changes were applied with Replay. The write is then computed again.
var ErrOvertaken = errors.New("others wrote first")

// Assignment sets the data at a path of a database; nil data removes the path.
type Assignment struct {
	Path string `json:"path"`
	// Data is the fields of a document, or a node of a Realtime Database as returned by tree.Node.Export.
	Data any `json:"data"`
	// Revision is the revision of a document.
	Revision uint64 `json:"revision,omitempty"`
}

// Change is the effect of one write.
type Change struct {
	At          time.Time    `json:"at"`
	Assignments []Assignment `json:"puts"`
}

// State is the complete content of a database.
type State struct {
	Assignments []Assignment `json:"puts"`
	// Revision is the latest revision of any document.
	Revision uint64 `json:"revision,omitempty"`
}

func (c Config) withDefaults() Config {
	if c.Persist == nil {
		c.Persist = func(context.Context, Change) error { return nil }
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

func conflictError() error {
	return refusal.New(refusal.Conflict, "another writer has changed the data meanwhile").WithField("path").
		WithHint("read again and decide again")
}

func unsupportedEvents(events firebase.EventType, where string) error {
	return refusal.New(refusal.ValidationError, "%s has no events %q", where, events).WithField("eventType")
}

func unknownOperation(operation firebase.Operation) error {
	return refusal.New(refusal.ValidationError, "there is no operation %q", operation).WithField("operation")
}

func conditionalPush() error {
	return refusal.New(refusal.ValidationError, "a push cannot depend on a version").WithField("operation")
}

// checkSize returns QUOTA_EXCEEDED for a write that grows a database beyond Config.Most.
func (c Config) checkSize(before, after int) error {
	if c.Most == 0 || after <= c.Most || after <= before {
		return nil
	}
	return refusal.New(refusal.QuotaExceeded, "the database would hold %d bytes, at most %d", after, c.Most).
		WithHint("delete data that is not needed")
}

// retryIfOvertaken calls write until it returns a result that is not ErrOvertaken.
func retryIfOvertaken(write func() (firebase.Written, error)) (firebase.Written, error) {
	for {
		written, err := write()
		if !errors.Is(err, ErrOvertaken) {
			return written, err
		}
	}
}
