package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/patch"
	"github.com/orch-dev/orch/tools"
)

// DefinitionStatus is how the definition of a tool stands.
type DefinitionStatus string

// The statuses.
const (
	// Accepted definitions count.
	Accepted DefinitionStatus = "accepted"
	// Changed definitions are others than those that were accepted; calls are refused.
	Changed DefinitionStatus = "changed"
	// Unaccepted definitions are new ones that hold hidden characters, or whose record was lost; calls are refused.
	Unaccepted DefinitionStatus = "unaccepted"
)

// Definition tells how the definition of a tool stands. Its texts come from the server: escape them.
type Definition struct {
	Server string           `json:"server"`
	Tool   string           `json:"tool"`
	Status DefinitionStatus `json:"standing"`
	// Why says what is wrong with a definition that is not accepted.
	Why string `json:"why,omitempty"`
	// SHA256 is the digest of what the server says now, AcceptedSHA256 that of what counts.
	SHA256         string `json:"sha256"`
	AcceptedSHA256 string `json:"accepted_sha256,omitempty"`
	// Diff is a unified diff from what counts to what the server says now, both as JSON; empty for an accepted one.
	Diff string `json:"diff,omitempty"`
	// At and By say when the definition that counts was accepted, and by whom.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
}

// observe takes over what a server offers now: name → definition. It reports whether anything is new.
func (rec *serverRecord) observe(offered map[string]json.RawMessage, now time.Time) bool {
	changed := false
	twins := map[string]*toolRecord{}
	for _, name := range slices.Sorted(maps.Keys(rec.Tools)) {
		twins[tools.OutsideName("", name)] = rec.Tools[name]
	}
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if p := rec.Tools[name]; p != nil {
			changed = p.observe(offered[name]) || changed
			continue
		}
		p := rec.first(twins[tools.OutsideName("", name)], offered[name], now)
		rec.Tools[name], twins[tools.OutsideName("", name)], changed = p, p, true
	}
	for name, p := range rec.Tools {
		if _, there := offered[name]; !there && !p.Gone {
			p.Gone, changed = true, true
		}
	}
	return changed
}

// concerns counts the tools of a record, and those that wait for somebody once more.
func (rec *serverRecord) concerns() int {
	n := len(rec.Tools)
	for _, p := range rec.Tools {
		if p.Seen != nil && !p.Gone {
			n++
		}
	}
	return n
}

// first is the record of a tool that was not known before; twin is that of another one with the same name in the
// catalogue, by which people and rules know it: it becomes a change of that.
func (rec *serverRecord) first(twin *toolRecord, d json.RawMessage, now time.Time) *toolRecord {
	switch {
	case twin != nil && twin.Accepted != nil:
		return &toolRecord{Accepted: twin.Accepted, Seen: d, At: twin.At, By: twin.By}
	case rec.broken || suspicious(d) != "":
		return &toolRecord{Seen: d}
	default:
		return &toolRecord{Accepted: d, At: now, By: firstUse}
	}
}

func (p *toolRecord) observe(d json.RawMessage) bool {
	before := *p
	p.Gone, p.Seen = false, d
	if bytes.Equal(d, p.Accepted) {
		p.Seen = nil
	}
	return p.Gone != before.Gone || !bytes.Equal(p.Seen, before.Seen)
}

// status says whether calls are let through, and why not.
func (p *toolRecord) status() (DefinitionStatus, string) {
	switch {
	case p.Seen == nil:
		return Accepted, ""
	case p.Accepted != nil:
		return Changed, "its definition is another one than that which was accepted"
	}
	if why := suspicious(p.Seen); why != "" {
		return Unaccepted, why
	}
	return Unaccepted, "the record of what was accepted is lost"
}

// Definitions tells how the tools of a server stand, or those of all servers for "", in order.
func (r Records) Definitions(server string) []Definition {
	list := []Definition{}
	for _, name := range r.servers() {
		if server != "" && name != server {
			continue
		}
		rec := r.read(name)
		for _, tool := range slices.Sorted(maps.Keys(rec.Tools)) {
			if p := rec.Tools[tool]; !p.Gone {
				list = append(list, p.describe(name, tool))
			}
		}
	}
	return list
}

func (p *toolRecord) describe(server, tool string) Definition {
	d := Definition{Server: server, Tool: tool, SHA256: digest(p.current()), AcceptedSHA256: digest(p.Accepted), At: p.At, By: p.By}
	if d.Status, d.Why = p.status(); d.Status != Accepted {
		d.Diff = patch.Between(server+"__"+tool, pretty(p.Accepted), pretty(p.Seen))
	}
	return d
}

// Accept lets the definitions of tools count that a server has sent last: tool → SHA256 of what the person has seen,
// "" for whatever it is; nil for all that wait. It returns those that were accepted. NOT_FOUND for a server or tool
// without a record, CONFLICT when a definition has changed again.
func (r Records) Accept(server string, wanted map[string]string, by string, now time.Time) ([]Definition, error) {
	if !slices.Contains(r.servers(), server) {
		return nil, fault.New(fault.NotFound, "no tool of the server %q was ever seen", plain(server, maxTitle)).WithHint("orch mcp list")
	}
	var refused error
	accepted := []Definition{}
	_, err := r.update(server, func(rec *serverRecord) bool {
		if refused = rec.mayAccept(server, wanted); refused != nil {
			return false
		}
		for _, tool := range slices.Sorted(maps.Keys(rec.Tools)) {
			p := rec.Tools[tool]
			if _, named := wanted[tool]; p.Seen == nil || p.Gone || wanted != nil && !named {
				continue
			}
			p.Accepted, p.Seen, p.At, p.By = p.Seen, nil, now, by
			accepted = append(accepted, p.describe(server, tool))
		}
		return len(accepted) > 0
	})
	if refused != nil {
		return nil, refused
	}
	return accepted, err
}

func (rec *serverRecord) mayAccept(server string, wanted map[string]string) error {
	for tool, sum := range wanted {
		p := rec.Tools[tool]
		switch {
		case p == nil || p.Gone:
			return fault.New(fault.NotFound, "%s has no tool %q", server, plain(tool, maxTitle)).WithHint("orch mcp accept")
		case sum != "" && sum != digest(p.current()):
			return fault.New(fault.Conflict, "the definition of %s of %s has changed again", plain(tool, maxTitle), server).
				WithHint("look at it again: orch mcp accept %s", server)
		}
	}
	return nil
}
