package server

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
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

// descriptions are those of tools as lists have them, so that each is encoded once and not for everybody who asks. There are at most as
// many as tools in each profile.
type descriptions struct {
	mu     sync.Mutex
	byTool map[descriptionKey]json.RawMessage
	// names are those of withoutDots.
	names map[string]string
}

// descriptionKey is all that a description follows from. The SDK keeps one definition until another one is offered.
type descriptionKey struct {
	// tool is nil for one in the words of its profile, profile empty for all tools.
	tool          *mcp.Tool
	profile, name string
	support       tools.TaskMode
}

// of is a description, which is made if need be; nil when there is none.
func (d *descriptions) of(key descriptionKey, describe func() json.RawMessage) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byTool[key]; ok {
		return known
	}
	if d.byTool == nil {
		d.byTool = map[descriptionKey]json.RawMessage{}
	}
	d.byTool[key] = describe()
	return d.byTool[key]
}

// namesOf are the names without dots, which are found if need be.
func (d *descriptions) namesOf(find func() map[string]string) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names = find()
	}
	return d.names
}

// describeWhole encodes a tool under a name. It has no task support where that is empty.
func describeWhole(tool *mcp.Tool, name string, support tools.TaskMode) json.RawMessage {
	fields := object{}
	decode(mustJSON(tool), &fields)
	fields["name"] = name
	if support != "" {
		fields["execution"] = object{"taskSupport": support}
	}
	return mustJSON(fields)
}

// forget drops the descriptions of tools that may be offered no more.
func (d *descriptions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byTool, d.names = nil, nil
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

// listTools is a list as a client sees it: in its profile, without what its identity does not see, with the task support of 2025-11-25.
func (s *Server) listTools(c client, list *mcp.ListToolsResult) mcp.Result {
	whole, rest := object{}, *list
	rest.Tools = nil
	var shown []json.RawMessage
	switch profile := s.profileOf(c); {
	case narrowed(profile) != nil:
		shown, rest.NextCursor = s.listNarrowed(c, profile), ""
	case patternsOf(profile) != nil:
		shown = s.listSelected(c, profile, list)
	default:
		shown = s.listAll(c, list)
	}
	decode(mustJSON(&rest), &whole)
	whole["tools"] = c.room.value(jsonList(shown))
	if c.modern {
		whole["resultType"] = "complete"
	}
	return &reply{fields: whole}
}

// jsonList is a list of values.
func jsonList(items []json.RawMessage) json.RawMessage {
	size := len("[]") + len(items)
	for _, item := range items {
		size += len(item)
	}
	list := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	return append(list, ']')
}

// listAll are the tools of a list that a client sees, as the catalogue describes them.
func (s *Server) listAll(c client, list *mcp.ListToolsResult) (shown []json.RawMessage) {
	names := s.portableNames()
	for _, t := range list.Tools {
		tool, ok := s.cfg.Catalogue.Get(t.Name)
		if ok && (tool.Spec().Unlisted || !c.who.sees(tool)) || !ok && !c.who.Show.showsOwn(t.Name) {
			continue
		}
		key := descriptionKey{tool: t, name: shownName(t.Name, names)}
		if !c.modern {
			key.support = support(tool)
		}
		shown = append(shown, s.descriptions.of(key, func() json.RawMessage { return describeWhole(t, key.name, key.support) }))
	}
	return shown
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
func (s *Server) bound(c client, r *api.SubmitRequest) error {
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
