package audit

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Anchor is where a part of the audit stream begins: the number of its first entry, and the digest of the entry before it.
type Anchor struct {
	First uint64 `json:"first"`
	Prev  string `json:"prev,omitempty"`
}

// Broken is the reason of the errors about a broken chain.
const Broken = "CHAIN_BROKEN"

// Verifier checks a chain entry by entry.
type Verifier struct {
	next    uint64
	prev    string
	open    map[uint64]bool
	entries int
	at      time.Time
	// wanted is a digest to look for, found the number of the entry that has it.
	wanted string
	found  uint64
}

// NewVerifier returns a verifier of the entries from an anchor on. The zero Anchor is the beginning of the stream.
func NewVerifier(from Anchor) *Verifier {
	return &Verifier{next: max(from.First, 1), prev: from.Prev, open: map[uint64]bool{}}
}

// LookFor lets the verifier look for the entry with a digest, which Verified.Contains then names.
func (v *Verifier) LookFor(digest string) { v.wanted = digest }

// Add checks the next entry. It returns DATA_LOSS with the number of the entry if the chain is broken there.
func (v *Verifier) Add(encoded []byte) (Entry, error) {
	e, err := Decode(encoded)
	switch {
	case err != nil:
		return e, v.broken("entry %d cannot be read", v.next)
	case e.Number > v.next:
		return e, v.broken("entry %d is missing: the next one is %d", v.next, e.Number)
	case e.Number < v.next:
		return e, v.broken("entry %d is in the place of entry %d", e.Number, v.next)
	case e.Prev != v.prev:
		return e, v.broken("entry %d does not continue the chain: it or the entry before it was changed", e.Number)
	case e.Outcome == Begun:
		v.open[e.Number] = true
	case e.Of != 0:
		delete(v.open, e.Of)
	}
	v.next, v.prev, v.at = v.next+1, Hash(encoded), e.At
	v.entries++
	if v.prev == v.wanted {
		v.found = e.Number
	}
	return e, nil
}

func (v *Verifier) broken(format string, args ...any) error {
	return fault.New(fault.DataLoss, "the chain of the audit stream is broken: "+format, args...).WithReason(Broken).
		WithHint("compare with an earlier export or a backup")
}

// Verified is the result of a check without errors.
type Verified struct {
	Anchor

	// Entries is the number of entries, Last the number of the newest one, and Head its digest.
	Entries int    `json:"entries"`
	Last    uint64 `json:"last"`
	Head    string `json:"head"`
	// EndedAt is the time of the newest entry. An export does not show whether there were others after it.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Contains is the number of the entry with the digest that was looked for; 0 for none.
	Contains uint64 `json:"contains,omitempty"`
	// Unknown is the number of acts without a result.
	Unknown int `json:"unknown"`
}

// Result returns what was checked so far.
func (v *Verifier) Result(from Anchor) Verified {
	from.First = max(from.First, 1)
	return Verified{Anchor: from, Entries: v.entries, Last: v.next - 1, Head: v.prev, EndedAt: v.at, Contains: v.found, Unknown: len(v.open)}
}

// Check verifies entries that follow an anchor.
func Check(from Anchor, entries []json.RawMessage) (Verified, error) {
	v := NewVerifier(from)
	for _, one := range entries {
		if _, err := v.Add(one); err != nil {
			return v.Result(from), err
		}
	}
	return v.Result(from), nil
}
