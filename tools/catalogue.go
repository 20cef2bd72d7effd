package tools

import (
	"maps"
	"regexp"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// Catalogue is the fixed set of tools of a node, by name. It is safe for concurrent use.
type Catalogue struct {
	tools map[string]Tool
	names []string
}

// New returns a catalogue of the tools. VALIDATION_ERROR for a name outside of 1 to 128 characters
// [A-Za-z0-9_.-] (S2-021), CONFLICT for a name that stands twice.
func New(all ...Tool) (*Catalogue, error) {
	form := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	c := &Catalogue{tools: make(map[string]Tool, len(all))}
	for _, t := range all {
		name := t.Spec().Name
		if !form.MatchString(name) {
			return nil, fault.New(fault.ValidationError, "%q is no name for a tool", echo(name)).
				WithHint("use 1 to 128 of the characters A-Z a-z 0-9 _ . -")
		}
		if c.tools[name] != nil {
			return nil, fault.New(fault.Conflict, "there are two tools with the name %s", name)
		}
		c.tools[name] = t
	}
	c.names = slices.DeleteFunc(slices.Sorted(maps.Keys(c.tools)), func(name string) bool { return c.tools[name].Spec().Internal })
	return c, nil
}

// Get returns the tool with exactly this name.
func (c *Catalogue) Get(name string) (Tool, bool) {
	t, ok := c.tools[name]
	return t, ok
}

// Names returns the names of all tools in order, but for internal ones.
func (c *Catalogue) Names() []string { return slices.Clone(c.names) }

// Suggest returns the name that an unknown name was probably meant to be, or "".
func (c *Catalogue) Suggest(name string) string { return nearest(name, c.names) }
