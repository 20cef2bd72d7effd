package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// route is the outermost middleware: it turns faults into protocol errors, recovers from panics, and cancels waiting requests
// when the server closes. Otherwise the SDK would wait for these requests, even after the client has disconnected.
func (s *Server) route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer s.recover(method, &err)
		c := s.clientOf(req)
		ctx = context.WithValue(ctx, clientKey{}, &c)
		ctx, stop := s.clients.requestContext(ctx, c)
		defer stop()
		switch method {
		case "tools/call":
			result, err = s.routeCall(ctx, c, next, req)
		case "initialize":
			result, err = s.initialize(ctx, c, next, req)
		case "logging/setLevel":
			result, err = s.clients.routeLevel(ctx, c, next, req)
		case "resources/templates/list":
			result, err = s.outside.listTemplates(ctx, c, next, req)
		case "tools/list", "tasks/get":
			result, err = withinMemory(ctx, c, func() (mcp.Result, error) { return next(ctx, method, req) })
		case "resources/read":
			result, err = s.resources.routeRead(ctx, c, next, req)
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
			result = s.tools.listTools(c, list)
		case *mcp.ListResourcesResult:
			s.resources.listResources(ctx, c, list)
		case *mcp.DiscoverResult:
			list.Instructions = s.tools.instructions(s.tools.profileOf(c))
		case *mcp.ListPromptsResult:
			s.outside.listPrompts(c, list)
			s.agentPrompts.listPrompts(c, list)
		}
		result = c.reservation.extract(result)
		c.reservation.doneMaking() // the answer is made; sending it may wait for the client
		return result, nil
	}
}

// routeCall passes a tools/call to its tool. It returns a task handle if the call continues as a task.
func (s *Server) routeCall(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	p, ok := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok {
		return nil, invalidParams("params are missing")
	}
	if c.badTask {
		return nil, invalidParams("task must be an object, such as {\"ttl\": 60000}; ttl is a number of milliseconds")
	}
	if err := s.tools.translate(c, p); err != nil {
		return nil, err
	}
	p.Name = s.tools.plainName(p.Name)
	tool, ok := s.tools.find(c, p.Name)
	if _, own := s.tools.ownTool(p.Name); !ok || tool == nil && !own {
		_ = s.reportRefusal(c, p.Name, p.Arguments, fault.New(fault.MethodNotFound, "there is no such tool for the client"))
		return nil, s.tools.unknownTool(c, p.Name)
	}
	if err := checkTaskMode(c, tool); err != nil {
		return nil, err
	}
	result, err := next(ctx, "tools/call", req)
	if h, ok := errors.AsType[*taskStartedError](err); ok {
		s.resources.publish(events.TaskID(h.status.id), p.Name)
		return h.status.handle(c.modern), nil
	}
	return result, err
}

// clientOf collects the properties of the client of a request.
func (s *Server) clientOf(req mcp.Request) client {
	c := client{who: s.identify(req), caps: &mcp.ClientCapabilities{}, note: func(string) string { return "" }}
	c.session, _ = req.GetSession().(*mcp.ServerSession)
	if extra := req.GetExtra(); extra != nil && extra.Header != nil {
		c.note = extra.Header.Get
		c.reservation = s.memory.attached(c.note(noteReservation))
		c.call = c.note(headerCall)
	}
	if c.session != nil {
		if p := c.session.InitializeParams(); p != nil {
			c.modern = p.ProtocolVersion >= firstStatelessVersion
			c.older = slices.Contains([]string{"2024-11-05", "2025-03-26", "2025-06-18"}, p.ProtocolVersion)
			c.program = programOf(p.ClientInfo)
			if p.Capabilities != nil {
				c.caps, c.roots = p.Capabilities, p.Capabilities.RootsV2 != nil
			}
		}
	}
	c.readMeta(req)
	if text := c.note(noteTask); text != "" && !c.modern && !c.older {
		c.task = &taskRequest{}
		c.badTask = text[0] != '{' || json.Unmarshal([]byte(text), c.task) != nil
	}
	return c
}

// identify returns the identity of a request.
func (s *Server) identify(req mcp.Request) Identity {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return s.cfg.Local
	}
	who, _ := extra.TokenInfo.Extra[identityKey].(Identity)
	return who
}
