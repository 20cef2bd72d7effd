package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// followTools offers the tools that are there now, and clients hear that the list has changed (S1-037).
func (s *Server) followTools(ctx context.Context, replaced <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-replaced:
		}
		replaced = s.cfg.Catalogue.Replaced()
		s.offerTools()
	}
}

// offerTools brings the SDK up to the catalogue (S2-020, S2-021). Tools that stand in no list can be called, so that who
// calls them hears why that is refused.
func (s *Server) offerTools() {
	offered := map[string]string{}
	for _, name := range slices.Concat(s.cfg.Catalogue.Names(), s.cfg.Catalogue.Refused()) {
		t, ok := s.cfg.Catalogue.Get(name)
		if !ok || !s.cfg.Show.shows(t) {
			continue
		}
		described := toolOf(t)
		offered[name] = string(mustJSON(described)) + strconv.FormatBool(t.Spec().Unlisted)
		if s.offered[name] != offered[name] {
			s.sdk.AddTool(described, s.callTool)
		}
	}
	s.sdk.RemoveTools(keysGone(s.offered, offered)...)
	s.offered = offered
	s.descriptions.forget()
}

// descriptions are those of tools as lists have them, so that each is encoded once and not for everybody who asks.
type descriptions struct {
	mu     sync.Mutex
	byTool map[descriptionKey]json.RawMessage
}

// descriptionKey is all that a description follows from. The SDK keeps one definition until another one is offered.
type descriptionKey struct {
	tool    *mcp.Tool
	name    string
	support tools.TaskMode
}

// of encodes a tool. It has no task support where that is empty.
func (d *descriptions) of(key descriptionKey) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byTool[key]; ok {
		return known
	}
	fields := object{}
	decode(mustJSON(key.tool), &fields)
	fields["name"] = key.name
	if key.support != "" {
		fields["execution"] = object{"taskSupport": key.support}
	}
	if d.byTool == nil {
		d.byTool = map[descriptionKey]json.RawMessage{}
	}
	d.byTool[key] = mustJSON(fields)
	return d.byTool[key]
}

// forget drops the descriptions of tools that may be offered no more.
func (d *descriptions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byTool = nil
}

// toolOf describes a tool as MCP does, with the hints that follow from its contract (S0-010).
func toolOf(t tools.Tool) *mcp.Tool {
	spec := t.Spec()
	hints := tools.Annotate(spec)
	m := &mcp.Tool{
		Name: spec.Name, Title: spec.Title, Description: spec.Purpose, InputSchema: t.InputSchema(),
		Annotations: &mcp.ToolAnnotations{
			Title: hints.Title, ReadOnlyHint: hints.ReadOnlyHint, IdempotentHint: hints.IdempotentHint,
			DestructiveHint: &hints.DestructiveHint, OpenWorldHint: &hints.OpenWorldHint,
		},
	}
	if _, whole := t.(tools.Replier); !whole {
		m.OutputSchema = openOutput(t.OutputSchema())
	}
	return m
}

// listTools adds the task support of 2025-11-25, and leaves out what the identity does not see.
func (s *Server) listTools(c client, list *mcp.ListToolsResult) mcp.Result {
	var shown [][]byte
	names := s.portableNames()
	list, narrow := s.profileList(c, list)
	for _, t := range list.Tools {
		if narrow {
			shown = append(shown, terseJSON(t))
			continue
		}
		tool, ok := s.cfg.Catalogue.Get(t.Name)
		if ok && (tool.Spec().Unlisted || !c.who.sees(tool)) || !ok && !c.who.Show.showsOwn(t.Name) {
			continue
		}
		key := descriptionKey{tool: t, name: shownName(t.Name, names)}
		if !c.modern {
			key.support = support(tool)
		}
		shown = append(shown, s.descriptions.of(key))
	}
	whole, rest := object{}, *list
	rest.Tools = nil
	decode(mustJSON(&rest), &whole)
	whole["tools"] = c.room.value(slices.Concat([]byte("["), bytes.Join(shown, []byte(",")), []byte("]")))
	if c.modern {
		whole["resultType"] = "complete"
	}
	return &reply{fields: whole}
}

// support is the taskSupport of a tool (S2-026): the tools that only ask about tasks are not tasks themselves.
func support(t tools.Tool) tools.TaskMode {
	if t == nil {
		return tools.NoTask
	}
	switch mode := t.Spec().Tasks; mode {
	case tools.NoTask, tools.OnlyTask:
		return mode
	default:
		return "optional"
	}
}

// serves reports whether a client may call a tool by name; tool is nil for one of the face itself.
func (s *Server) serves(c client, name string) (tool tools.Tool, ok bool) {
	if tool, ok = s.cfg.Catalogue.Get(name); ok {
		return tool, s.cfg.Show.shows(tool) && c.who.sees(tool)
	}
	return nil, c.who.Show.showsOwn(name)
}

// nearestTool is the tool that a client probably means by a name, as it is shown to it; empty for none.
func (s *Server) nearestTool(c client, name string) string {
	var names []string
	shown := s.portableNames()
	for _, known := range s.cfg.Catalogue.Names() {
		if _, ok := s.serves(c, known); ok {
			names = append(names, shownName(known, shown))
		}
	}
	for _, own := range s.ownTools() {
		if s.cfg.Show.showsOwn(own.name) && c.who.Show.showsOwn(own.name) {
			names = append(names, own.name)
		}
	}
	return spell.Nearest(name, names)
}

// unknownTool refuses a call of a tool that is not there for a client.
func (s *Server) unknownTool(c client, name string) error {
	text := "unknown tool " + quoted(name)
	if near := s.nearestTool(c, name); near != "" {
		text += "; did you mean " + near + "?"
	}
	return invalidParams(text)
}

// bound narrows a submission to what the client may reach: no plan, and no child of a call, calls a tool that the
// client may not call itself, what a program says that decides about nothing opens nothing, and who sees its own tasks
// alone neither meets nor takes the idempotency keys of others.
func (s *Server) bound(c client, r *orchestrator.SubmitRequest) error {
	if !c.who.Role.decides() {
		r.Within = []events.Allow{{}}
	}
	if !c.who.Role.seesAll() {
		r.KeysOf = c.who.Name
	}
	if isSession := r.ID != "" && r.ID == r.Session; c.call != "" && !isSession {
		ref, err := work.ParseRef(c.call)
		if err != nil {
			return fault.From(err).WithField(metaCall)
		}
		r.For = &ref
	}
	if !s.narrowed(c) {
		return nil
	}
	r.Tools = slices.DeleteFunc(slices.Clone(s.cfg.Catalogue.Names()), func(name string) bool {
		_, ok := s.serves(c, name)
		return !ok
	})
	if len(r.Tools) == 0 {
		return fault.New(fault.Forbidden, "%s may call no tool of the catalogue", c.who.Name)
	}
	return nil
}

// narrowed reports whether there are tools that the client may not call.
func (s *Server) narrowed(c client) bool { return !s.cfg.Show.all() || !c.who.Show.all() }

// route is what every request passes first: faults become errors of the protocol, a panic ends no process, and the
// end of the server ends what waits. The SDK would wait for it, also after the client is gone.
func (s *Server) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer s.recover(method, &err)
		c := s.clientOf(req)
		ctx = context.WithValue(ctx, clientKey{}, &c)
		ctx, stop := s.within(ctx, c)
		defer stop()
		switch method {
		case "tools/call":
			result, err = s.routeCall(ctx, c, next, req)
		case "initialize":
			result, err = s.initialize(ctx, c, next, req)
		case "logging/setLevel":
			result, err = s.routeLevel(ctx, c, next, req)
		case "resources/templates/list":
			result, err = s.listTemplates(ctx, c, next, req)
		case "tools/list", "tasks/get":
			result, err = inRoom(ctx, c, func() (mcp.Result, error) { return next(ctx, method, req) })
		case "resources/read":
			result, err = s.routeRead(ctx, c, next, req)
		default:
			result, err = next(ctx, method, req)
		}
		if method == "resources/read" {
			err = noResource(c, err)
		}
		if err != nil {
			return nil, wireError(err)
		}
		switch list := result.(type) {
		case *mcp.ListToolsResult:
			result = s.listTools(c, list)
		case *mcp.ListResourcesResult:
			s.listResources(ctx, c, list)
		case *mcp.DiscoverResult:
			list.Instructions = s.instructions(s.profileOf(c))
		case *mcp.ListPromptsResult:
			s.listPrompts(c, list)
		}
		result = c.room.spare(result)
		c.room.made() // before anything waits for the client
		return result, nil
	}
}

// clientKey finds the client of a request in its context.
type clientKey struct{}

func clientFrom(ctx context.Context) client {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		return *c
	}
	return client{note: func(string) string { return "" }, caps: &mcp.ClientCapabilities{}}
}
