package registry

import (
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool as a server offers it.
type Tool struct {
	mcp.Tool

	// Said is all that the server says of it, as JSON.
	Said json.RawMessage
}

// Defined is a server as its definition describes it, and what it offers.
type Defined struct {
	// Enabled is false for a server that is switched off.
	Enabled bool
	// Tools are all tools that the server offers; nil while it is not connected.
	Tools []*Tool

	config MCPConfig
}

// Offers reports whether the definition lets a tool be used.
func (d Defined) Offers(tool string) bool { return d.config.offers(tool) }

// Effect is what the definition says of the effect of a tool: read, idempotent, write or destructive; "" when it says
// nothing.
func (d Defined) Effect(tool string) string { return d.config.effectOf(tool) }

// Defined returns the servers that are defined, by name. Before Init it reads their definitions, and connects to none.
// The errors are those of Init.
func (r *Registry) Defined() (map[string]Defined, error) {
	all := map[string]Defined{}
	if r.off {
		return all, nil
	}
	if r.currentState() == fresh {
		return all, r.readDefined(all)
	}
	for _, s := range r.all() {
		all[s.name] = s.defined()
	}
	return all, nil
}

func (r *Registry) readDefined(all map[string]Defined) error {
	c, err := newChecker(r.schema)
	if err != nil {
		return err
	}
	dirs, err := Directories(r.dir, r.home, r.getenv)
	if err != nil {
		return err
	}
	silent := slog.New(slog.DiscardHandler) // Init tells what is wrong
	state := r.state.load(silent)
	for name, def := range c.scan(dirs, silent).servers {
		enabled := !def.Disabled
		if a, ok := state[name]; ok {
			enabled = a.Enabled
		}
		all[name] = Defined{Enabled: enabled, config: def.MCPConfig}
	}
	return nil
}

// defined tells what calls go by: while a changed definition has no connection yet, those of the former one.
func (s *server) defined() Defined {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Defined{Enabled: s.enabled, config: s.def.MCPConfig}
	if s.live != nil && s.enabled {
		d.Tools, d.config = s.live.tools, s.live.def
		if d.Tools == nil {
			d.Tools = []*Tool{}
		}
	}
	return d
}
