package registry

import (
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool that a server offers.
type Tool struct {
	mcp.Tool

	// Raw is the whole definition from the server, as JSON.
	Raw json.RawMessage
}

// Defined is a server with a definition, and the tools that it offers.
type Defined struct {
	// Enabled is false for a disabled server.
	Enabled bool
	// Tools are all tools that the server offers; nil while it is not connected.
	Tools []*Tool

	config MCPConfig
}

// Offers reports whether the definition permits a tool.
func (d Defined) Offers(tool string) bool { return d.config.offers(tool) }

// Effect returns the effect that the definition declares for a tool: read, idempotent, write or destructive; "" if it declares
// none.
func (d Defined) Effect(tool string) string { return d.config.effectOf(tool) }

// Defined returns the servers with definitions, by name. Before Init it reads the definitions without connecting the servers.
// Errors are those of Init.
func (r *Registry) Defined() (map[string]Defined, error) {
	all := map[string]Defined{}
	if r.off {
		return all, nil
	}
	if r.currentState() == stateNew {
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
	silent := slog.New(slog.DiscardHandler) // Init reports the problems
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

// defined returns the server with the definition that calls use. That is the previous definition until a changed definition has a
// connection.
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
