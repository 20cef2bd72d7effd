// Package events defines the content of the log: commits of events, their payloads and their wire form. It also defines
// the interfaces of the log and of the stores beside it.
//
// A commit contains all events of one decision about one task. It is one message, so the log contains it as a whole or
// not at all. Every commit contains the hash of the task's previous commit, so that a change of a history is detected.
package events

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Version is the wire version of commits that this package writes.
const Version = 1

// Commit is one decision about one task.
type Commit struct {
	Task TaskID
	// Rev counts the commits of the task from 1 without a gap.
	Rev uint64
	// At is when the owner decided, in UTC with microseconds.
	At time.Time
	// Actor is the identity that caused the commit: "user:<name>", "worker:<name>", "node" or "task:<id>".
	Actor string
	// Cause is the id of the request that caused the commit; "" if no request did.
	Cause string
	// Prev is the Hash of the task's previous commit, "" for the first.
	Prev string
	// Events is never empty.
	Events []Event
}

// Event is one fact.
type Event struct {
	Kind Kind
	Data Payload
}

// hashSize is the length of the result of Hash.
const hashSize = (sha256.Size*8 + 5) / 6

// Hash returns the link of the hash chain for an encoded commit: SHA-256 in unpadded base64url.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	var text [hashSize]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return string(text[:])
}

func isHash(s string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return err == nil && len(raw) == sha256.Size && !strings.ContainsAny(s, "\r\n")
}

// Time returns t in the precision of the log: UTC, microseconds, no monotonic part.
func Time(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// CheckLink returns DATA_LOSS unless c follows a commit with revision rev and hash prev (I4, I11).
func (c *Commit) CheckLink(rev uint64, prev string) error {
	if c.Rev != rev+1 {
		return fault.New(fault.DataLoss, "task %s: revision %d follows %d", c.Task, c.Rev, rev)
	}
	if c.Prev != prev {
		return fault.New(fault.DataLoss, "task %s: the hash chain breaks at revision %d", c.Task, c.Rev)
	}
	return nil
}
