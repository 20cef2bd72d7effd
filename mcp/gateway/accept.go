package gateway

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/patch"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// DefinitionStatus is the status of the definition of a tool.
type DefinitionStatus string

// The statuses.
const (
	// Accepted definitions are in use.
	Accepted DefinitionStatus = "accepted"
	// Changed definitions differ from the accepted definition of the tool; calls are refused.
	Changed DefinitionStatus = "changed"
	// Unaccepted definitions belong to tools without an accepted definition: they contain hidden characters, were added by a
	// known server, or their record was lost. Calls are refused.
	Unaccepted DefinitionStatus = "unaccepted"
)

// Definition is the state of the definition of a tool. Texts such as Tool and Diff come from the server and must be escaped.
type Definition struct {
	Server string           `json:"server"`
	Tool   string           `json:"tool"`
	Status DefinitionStatus `json:"standing"`
	// Why is the reason why the definition is not accepted.
	Why string `json:"why,omitempty"`
	// SHA256 is the digest of the present definition, AcceptedSHA256 that of the accepted one.
	SHA256         string `json:"sha256"`
	AcceptedSHA256 string `json:"accepted_sha256,omitempty"`
	// Diff is a unified diff from the accepted to the present definition, both as JSON. It is empty if Status is Accepted.
	Diff string `json:"diff,omitempty"`
	// At is when the accepted definition was accepted, By is the actor who accepted it.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
}

// observe records the tools that a server offers now: definitions by name. It reports whether the record has changed.
func (rec *serverRecord) observe(offered map[string]json.RawMessage, now time.Time) bool {
	changed, known := false, len(rec.Tools) > 0
	twins := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(rec.Tools)) {
		twins[foldName(name)] = name
	}
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if p := rec.Tools[name]; p != nil {
			changed = p.observe(offered[name]) || changed
			continue
		}
		rec.Tools[name], changed = rec.newToolRecord(name, twins[foldName(name)], offered[name], known, now), true
		twins[foldName(name)] = name
	}
	for name, p := range rec.Tools {
		if _, there := offered[name]; !there && !p.Gone {
			p.Gone, changed = true, true
		}
	}
	return changed
}

// countPending returns the number of tools in the record, plus the number of tools that a person must accept. It grows when a tool
// is added or must be accepted.
func (rec *serverRecord) countPending() int {
	n := len(rec.Tools)
	for _, p := range rec.Tools {
		if p.Seen != nil && !p.Gone {
			n++
		}
	}
	return n
}

// foldName returns the name of a tool in the catalogue, in lower case: it is equal for names that people may confuse. The registry
// permits only ASCII names.
func foldName(tool string) string { return strings.ToLower(tools.OutsideName("", tool)) }

// newToolRecord returns the record of a new tool with the definition d. twin is a known tool with the same folded name, "" for none:
// if the names differ by case, the new tool is treated as a change of the twin, because people and rules know the twin. known is set
// if the server had tools before; a person must then accept the new tool.
func (rec *serverRecord) newToolRecord(name, twin string, d json.RawMessage, known bool, now time.Time) *toolRecord {
	p := &toolRecord{Seen: d}
	if twin != "" && tools.OutsideName("", twin) != tools.OutsideName("", name) {
		p.Twin = twin
	}
	switch former := rec.Tools[twin]; {
	case former != nil && former.Accepted != nil:
		p.Accepted, p.At, p.By = former.Accepted, former.At, former.By
	case p.Twin != "" || rec.broken || suspicious(d) != "":
	case known:
		p.Added = true
	default:
		return &toolRecord{Accepted: d, At: now, By: firstUse}
	}
	return p
}

// complete upgrades a record of an earlier version, in which accepted definitions lack some properties: it adds them from the
// offered tools. It reports whether the record has changed.
func (rec *serverRecord) complete(offered []*registry.Tool) bool {
	if rec.Version == recordVersion {
		return false
	}
	rec.Version = recordVersion
	for _, t := range offered {
		if p := rec.Tools[t.Name]; p != nil && bytes.Equal(p.Accepted, pinnedPartV1(t)) {
			p.Accepted = pinnedPart(t)
		}
	}
	return true
}

// removed reports whether the server does not offer the tool at present. p may be nil.
func (p *toolRecord) removed() bool { return p == nil || p.Gone }

// observe records that the server offers the tool with the definition d. It reports whether the record has changed.
func (p *toolRecord) observe(d json.RawMessage) bool {
	before := *p
	p.Gone, p.Seen = false, d
	if bytes.Equal(d, p.Accepted) {
		p.Seen = nil
	}
	return p.Gone != before.Gone || !bytes.Equal(p.Seen, before.Seen)
}

// status returns the status of the present definition, and the reason why it is not accepted.
func (p *toolRecord) status() (DefinitionStatus, string) {
	switch {
	case p.Seen == nil:
		return Accepted, ""
	case p.Twin != "":
		return Changed, "its name differs from that of the known tool " + p.Twin + " only by case"
	case p.Accepted != nil:
		return Changed, "its definition is another one than that which was accepted"
	}
	if why := suspicious(p.Seen); why != "" {
		return Unaccepted, why
	}
	if p.Added {
		return Unaccepted, "the server has added it since it was used first, and nobody has accepted it yet"
	}
	return Unaccepted, "the record of what was accepted is lost"
}

// Definitions returns the definitions of the tools of a server, or of all servers for "", sorted.
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

// Accept accepts the present definitions of tools of a server, and returns them. wanted maps each tool to accept to the SHA256 of
// the definition that the person has seen, or to "" for any; a nil map accepts all definitions that are not accepted. Accept
// returns NOT_FOUND for a server or tool without a record, and CONFLICT if a definition has changed since, or if the tool and its
// twin (toolRecord.Twin) are both offered.
func (r Records) Accept(server string, wanted map[string]string, by string, now time.Time) ([]Definition, error) {
	if !slices.Contains(r.servers(), server) {
		return nil, fault.New(fault.NotFound, "no tool of the server %q was ever seen", escape(server, maxTitle)).WithHint("orch mcp list")
	}
	var refused error
	accepted := []Definition{}
	_, err := r.update(server, func(rec *serverRecord) bool {
		if refused = rec.mayAccept(server, wanted); refused != nil {
			return false
		}
		for _, tool := range slices.Sorted(maps.Keys(rec.Tools)) {
			p := rec.Tools[tool]
			if _, named := wanted[tool]; p == nil || p.Seen == nil || p.Gone || wanted != nil && !named || p.Twin != "" && !rec.Tools[p.Twin].removed() {
				continue
			}
			delete(rec.Tools, p.Twin) // if the server offers the twin again, the twin is the new tool
			p.Accepted, p.Seen, p.At, p.By, p.Added, p.Twin = p.Seen, nil, now, by, false, ""
			accepted = append(accepted, p.describe(server, tool))
		}
		return len(accepted) > 0
	})
	if refused != nil {
		return nil, refused
	}
	return accepted, err
}

// mayAccept returns the error of Accept for the wanted tools, nil if they can be accepted.
func (rec *serverRecord) mayAccept(server string, wanted map[string]string) error {
	for tool, sum := range wanted {
		p := rec.Tools[tool]
		switch {
		case p == nil || p.Gone:
			return fault.New(fault.NotFound, "%s has no tool %q", server, escape(tool, maxTitle)).WithHint("orch mcp accept")
		case p.Twin != "" && !rec.Tools[p.Twin].removed():
			return fault.New(fault.Conflict, "%s of %s has the name of its tool %s but for case, and both are there", escape(tool, maxTitle), server, p.Twin).
				WithHint("ask whoever makes the server to take one of them out")
		case sum != "" && sum != digest(p.current()):
			return fault.New(fault.Conflict, "the definition of %s of %s has changed again", escape(tool, maxTitle), server).
				WithHint("look at it again: orch mcp accept %s", server)
		}
	}
	return nil
}
