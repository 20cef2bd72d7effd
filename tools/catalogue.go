package tools

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orch-dev/orch/fault"
)

// Catalogue is the set of tools of a node, by name: its own, which stay, and those of outside servers, which come and
// go. It is safe for concurrent use.
type Catalogue struct {
	own     map[string]Tool
	offer   sync.Mutex // orders offers
	present atomic.Pointer[selection]
}

// selection is what a catalogue holds at a time. It never changes.
type selection struct {
	tools map[string]Tool
	// names are those that stand in lists, refused those of unlisted tools.
	names, refused []string
	// replaced is closed when there is another selection.
	replaced chan struct{}
}

// New returns a catalogue of the tools. VALIDATION_ERROR for a name outside of 1 to 128 characters
// [A-Za-z0-9_.-] (S2-021), CONFLICT for a name that stands twice.
func New(all ...Tool) (*Catalogue, error) {
	c := &Catalogue{own: make(map[string]Tool, len(all))}
	if err := collect(c.own, all); err != nil {
		return nil, err
	}
	c.present.Store(selectionOf(c.own))
	return c, nil
}

// collect adds tools to those of a map.
func collect(into map[string]Tool, all []Tool) error {
	form := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	for _, t := range all {
		name := t.Spec().Name
		if !form.MatchString(name) {
			return fault.New(fault.ValidationError, "%q is no name for a tool", echo(name)).
				WithHint("use 1 to 128 of the characters A-Z a-z 0-9 _ . -")
		}
		if into[name] != nil {
			return fault.New(fault.Conflict, "there are two tools with the name %s", name)
		}
		into[name] = t
	}
	return nil
}

func selectionOf(all map[string]Tool) *selection {
	s := &selection{tools: all, replaced: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch spec := all[name].Spec(); {
		case spec.Internal:
		case spec.Unlisted:
			s.refused = append(s.refused, name)
		default:
			s.names = append(s.names, name)
		}
	}
	return s
}

// Offer replaces the tools of outside servers. The errors are those of New, and change nothing.
func (c *Catalogue) Offer(outside []Tool) error {
	c.offer.Lock()
	defer c.offer.Unlock()
	all := maps.Clone(c.own)
	if err := collect(all, outside); err != nil {
		return err
	}
	close(c.present.Swap(selectionOf(all)).replaced)
	return nil
}

// Replaced returns a channel that is closed with the next Offer.
func (c *Catalogue) Replaced() <-chan struct{} { return c.present.Load().replaced }

// Get returns the tool with exactly this name, or the tool of an outside server that is written server.tool; the name
// in its Spec is the one that counts.
func (c *Catalogue) Get(name string) (Tool, bool) {
	all := c.present.Load().tools
	t, ok := all[name]
	if ok {
		return t, true
	}
	if server, tool, dotted := strings.Cut(name, "."); dotted {
		t, ok = all[OutsideName(server, tool)]
	}
	return t, ok
}

// OutsideName is the name of a tool of an outside server in a catalogue. No name of a server has an underscore, so
// that no two pairs have the same one, but for tools whose names differ in characters that no catalogue permits.
func OutsideName(server, tool string) string {
	return server + "__" + strings.ReplaceAll(tool, "/", "-")
}

// Names returns the names of all tools in order, but for internal and unlisted ones.
func (c *Catalogue) Names() []string { return slices.Clone(c.present.Load().names) }

// Refused returns the names of all unlisted tools in order.
func (c *Catalogue) Refused() []string { return slices.Clone(c.present.Load().refused) }

// Suggest returns the name that an unknown name was probably meant to be, or "".
func (c *Catalogue) Suggest(name string) string { return nearest(name, c.present.Load().names) }
