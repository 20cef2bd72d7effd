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

// Catalogue is the set of tools of a node, by name. The built-in tools are fixed; Offer replaces the tools of external
// MCP servers. It is safe for concurrent use.
type Catalogue struct {
	builtin map[string]Tool
	mu      sync.Mutex // serializes Offer
	current atomic.Pointer[selection]
}

// selection is the content of a catalogue at one moment. It is immutable.
type selection struct {
	tools map[string]Tool
	specs map[string]*Spec
	// names are the listed tools, unlisted those with Spec.Unlisted; both are sorted.
	names, unlisted []string
	// replaced is closed when Offer replaces the selection.
	replaced chan struct{}
}

// New returns a catalogue of the tools. It fails with VALIDATION_ERROR for a name that is not 1 to 128 characters of
// [A-Za-z0-9_.-] (S2-021), and with CONFLICT for a duplicate name.
func New(all ...Tool) (*Catalogue, error) {
	c := &Catalogue{builtin: make(map[string]Tool, len(all))}
	if err := collect(c.builtin, all); err != nil {
		return nil, err
	}
	c.current.Store(selectionOf(c.builtin))
	return c, nil
}

// collect adds the tools to the map. It fails like New.
func collect(into map[string]Tool, all []Tool) error {
	valid := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	for _, t := range all {
		name := t.Spec().Name
		if !valid.MatchString(name) {
			return fault.New(fault.ValidationError, "%q is not a valid tool name", echo(name)).
				WithHint("use 1 to 128 of the characters A-Z a-z 0-9 _ . -")
		}
		if into[name] != nil {
			return fault.New(fault.Conflict, "there are two tools with the name %s", name)
		}
		into[name] = t
	}
	return nil
}

// selectionOf returns the selection of a set of tools.
func selectionOf(all map[string]Tool) *selection {
	s := &selection{tools: all, specs: make(map[string]*Spec, len(all)), replaced: make(chan struct{})}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec := all[name].Spec()
		s.specs[name] = &spec
		switch {
		case spec.Internal:
		case spec.Unlisted:
			s.unlisted = append(s.unlisted, name)
		default:
			s.names = append(s.names, name)
		}
	}
	return s
}

// Offer replaces the tools of external MCP servers. It fails like New; then the catalogue is unchanged.
func (c *Catalogue) Offer(outside []Tool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.builtin)
	if err := collect(all, outside); err != nil {
		return err
	}
	close(c.current.Swap(selectionOf(all)).replaced)
	return nil
}

// Replaced returns a channel that is closed by the next Offer.
func (c *Catalogue) Replaced() <-chan struct{} { return c.current.Load().replaced }

// Get returns the tool with exactly this name. It also accepts SERVER.TOOL for a tool of an external MCP server, for
// which the canonical name is the one in its Spec.
func (c *Catalogue) Get(name string) (Tool, bool) {
	t, _ := c.Lookup(name)
	return t, t != nil
}

// Lookup is Get with the contract of the tool, which the caller must not change. Both are nil if there is no such tool.
func (c *Catalogue) Lookup(name string) (Tool, *Spec) {
	all := c.current.Load()
	if t := all.tools[name]; t != nil {
		return t, all.specs[name]
	}
	if server, tool, dotted := strings.Cut(name, "."); dotted {
		name = OutsideName(server, tool)
		return all.tools[name], all.specs[name]
	}
	return nil, nil
}

// OutsideName returns the name in a catalogue of a tool of an external MCP server. Names of servers contain no
// underscore, so tools of different servers have different names. Tools of one server get the same name only if their
// names differ just in "/" and "-".
func OutsideName(server, tool string) string {
	return server + "__" + strings.ReplaceAll(tool, "/", "-")
}

// Names returns the sorted names of all tools except internal and unlisted ones.
func (c *Catalogue) Names() []string { return slices.Clone(c.current.Load().names) }

// Refused returns the sorted names of all unlisted tools.
func (c *Catalogue) Refused() []string { return slices.Clone(c.current.Load().unlisted) }

// Suggest returns the listed name closest to an unknown name, or "" when none is close.
func (c *Catalogue) Suggest(name string) string { return nearest(name, c.current.Load().names) }
