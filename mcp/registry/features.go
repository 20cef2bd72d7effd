package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
)

const (
	// maxFeatureBytes is the most bytes of a list of resources or prompts, and of the content of one resource or prompt.
	maxFeatureBytes = 4 << 20
	// maxFeatures is the most entries of a list of resources or prompts.
	maxFeatures = 10_000
)

// Resources returns the resources that a server lists, none if it does not have the capability. More than 10,000 resources, or
// 4 MiB, are an error. Errors are those of Call.
func (r *Registry) Resources(ctx context.Context, server string) ([]json.RawMessage, error) {
	return r.list(ctx, server, "resources/list", "resources", hasResources)
}

// ResourceTemplates returns the resource templates of a server, like Resources.
func (r *Registry) ResourceTemplates(ctx context.Context, server string) ([]json.RawMessage, error) {
	return r.list(ctx, server, "resources/templates/list", "resourceTemplates", hasResources)
}

// Prompts returns the prompts of a server, like Resources.
func (r *Registry) Prompts(ctx context.Context, server string) ([]json.RawMessage, error) {
	return r.list(ctx, server, "prompts/list", "prompts", hasPrompts)
}

// ReadResource returns the ReadResourceResult of a server, at most 4 MiB. Errors are those of Call, and NOT_FOUND if
// the server reports that the resource does not exist.
func (r *Registry) ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error) {
	return r.get(ctx, server, "resources/read", uri, object{"uri": uri})
}

// GetPrompt returns the GetPromptResult of a server, at most 4 MiB. Errors are those of Call.
func (r *Registry) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	fields := object{"name": name}
	if len(args) > 0 {
		fields["arguments"] = args
	}
	return r.get(ctx, server, "prompts/get", name, fields)
}

func hasResources(c *mcp.ServerCapabilities) bool { return c.Resources != nil }

func hasPrompts(c *mcp.ServerCapabilities) bool { return c.Prompts != nil }

// list reads a list if the server has the capability for it.
func (r *Registry) list(ctx context.Context, server, method, key string, has func(*mcp.ServerCapabilities) bool) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	err := r.withConnection(ctx, server, method, func(ctx context.Context, a *activeSession) error {
		caps := a.conn.session.InitializeResult().Capabilities
		if caps == nil || !has(caps) {
			return nil
		}
		var err error
		all, err = a.conn.list(ctx, method, key, listLimits{count: maxFeatures, bytes: maxFeatureBytes})
		if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok && rpcErr.Code == jsonrpc.CodeMethodNotFound { // such as a server without templates
			all, err = []json.RawMessage{}, nil
		}
		return err
	})
	return all, err
}

// get reads one resource or prompt. The request counts as a call for the limits of the server.
func (r *Registry) get(ctx context.Context, server, method, name string, fields object) (json.RawMessage, error) {
	leave, err := r.acquireLimits(ctx, server)
	if err != nil {
		return nil, err
	}
	defer leave()
	var raw json.RawMessage
	err = r.withConnection(ctx, server, method, func(ctx context.Context, a *activeSession) error {
		var err error
		if raw, err = a.conn.request(ctx, method, &rawParams{fields: fields}, requestMeta{name: name}); err != nil {
			return err
		}
		var r struct {
			ResultType string `json:"resultType"`
		}
		switch {
		case len(raw) > maxFeatureBytes:
			return fmt.Errorf("the answer has more than %d MiB", maxFeatureBytes>>20)
		case json.Unmarshal(raw, &r) == nil && r.ResultType == "input_required":
			return errors.New("the server asks something first, which only calls of tools can answer")
		}
		raw = a.redact(raw)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// acquireLimits waits until the limits of a server permit another request. The caller must call leave after the request.
// acquireLimits returns RATE_LIMITED, CANCELLED, or the error of a server that cannot be called.
func (r *Registry) acquireLimits(ctx context.Context, name string) (leave func(), err error) {
	if err := r.checkUsable(); err != nil {
		return nil, err
	}
	s, ok := r.server(name)
	if !ok {
		return nil, notFound(name)
	}
	s.mu.Lock()
	err, l, timeout := s.unavailable(), s.limits, s.def.timeout()
	s.mu.Unlock()
	if err == nil {
		err = l.waitRate(ctx, name, timeout)
	}
	if err != nil {
		return nil, err
	}
	if err := l.gate.acquire(ctx); err != nil {
		return nil, fault.From(err)
	}
	return l.gate.release, nil
}

// withConnection calls fn with the connection of a server, bounded by the timeout of the server. Error messages contain method.
func (r *Registry) withConnection(ctx context.Context, name, method string, fn func(context.Context, *activeSession) error) error {
	if err := r.checkUsable(); err != nil {
		return err
	}
	s, ok := r.server(name)
	if !ok {
		return notFound(name)
	}
	a, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release(a)
	bounded, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := fn(bounded, a); err != nil {
		if bounded.Err() != nil && ctx.Err() == nil {
			err = errOvertime
		}
		return s.callError(ctx, a, method+" of "+name, err)
	}
	return nil
}
