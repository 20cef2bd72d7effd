package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/tools"
)

// addTools offers the tools of the catalogue (S2-020, S2-021).
func (s *Server) addTools() {
	for _, name := range s.cfg.Catalogue.Names() {
		if t, ok := s.cfg.Catalogue.Get(name); ok && s.cfg.Show.shows(t) {
			s.sdk.AddTool(toolOf(t), s.callTool)
		}
	}
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
		m.OutputSchema = t.OutputSchema()
	}
	return m
}

// listTools adds the task support of 2025-11-25, and leaves out what the identity does not see.
func (s *Server) listTools(c client, list *mcp.ListToolsResult) mcp.Result {
	shown := []object{}
	for _, t := range list.Tools {
		tool, ok := s.cfg.Catalogue.Get(t.Name)
		if ok && !c.who.Show.shows(tool) || !ok && !c.who.Show.names(t.Name) {
			continue
		}
		fields := object{}
		decode(mustJSON(t), &fields)
		if !c.modern {
			fields["execution"] = object{"taskSupport": support(tool)}
		}
		shown = append(shown, fields)
	}
	whole := object{}
	decode(mustJSON(list), &whole)
	whole["tools"] = shown
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
		return tool, s.cfg.Show.shows(tool) && c.who.Show.shows(tool)
	}
	return nil, c.who.Show.names(name)
}

// route is what every request passes first: faults become errors of the protocol, a panic ends no process, and the
// end of the server ends what waits. The SDK would wait for it, also after the client is gone.
func (s *Server) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer s.recover(method, &err)
		c := s.clientOf(req)
		ctx, stop := context.WithCancel(context.WithValue(ctx, clientKey{}, &c))
		defer stop()
		defer context.AfterFunc(s.life, stop)()
		switch method {
		case "tools/call":
			result, err = s.routeCall(ctx, c, next, req)
		case "initialize":
			result, err = s.initialize(ctx, c, next, req)
		case "logging/setLevel":
			result, err = s.routeLevel(ctx, c, next, req)
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
		}
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
