package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
)

// Outside gives access to the resources and prompts of external MCP servers.
type Outside interface {
	// Features returns the resources, templates and prompts of the connected servers.
	Features() []gateway.Feature
	// FeaturesReplaced returns a channel that is closed when the features change.
	FeaturesReplaced() <-chan struct{}
	// ReadResource returns a ReadResourceResult of MCP. uri is the URI at the server. It returns NOT_FOUND for an unknown
	// server or resource.
	ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error)
	// GetPrompt returns a GetPromptResult of MCP. name is the name at the server. It returns NOT_FOUND for an unknown server
	// or prompt.
	GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error)
}

// outsideTemplate matches all resources of external MCP servers. It is the only template of these servers that is registered
// with the SDK, which otherwise would try every template of every server at each read. Clients do not see it in lists.
const outsideTemplate = gateway.URIPrefix + "{server}/{+uri}"

// outsideFeatures are the offered features of external MCP servers.
type outsideFeatures struct {
	// resources and prompts are registered with the SDK: definitions by URI or name. Only offerOutside uses these fields.
	resources, prompts map[string]string

	mu sync.Mutex // guards the fields below
	// templates are sorted by URI template; shown is set once showTemplates was called.
	templates []*mcp.ResourceTemplate
	shown     bool
}

// followOutside calls offerOutside after each change of the features of external MCP servers. The SDK then notifies clients of
// changed lists.
func (ov *outsideView) followOutside(ctx context.Context, replaced <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-replaced:
		}
		replaced = ov.cfg.Stores.Outside.FeaturesReplaced()
		ov.offerOutside()
	}
}

// offerOutside registers the current features of external MCP servers with the SDK, and removes old ones. It skips invalid
// features, for which the SDK would panic.
func (ov *outsideView) offerOutside() {
	resources, prompts := map[string]string{}, map[string]string{}
	var templates []*mcp.ResourceTemplate
	for _, f := range ov.cfg.Stores.Outside.Features() {
		definition := string(f.Definition)
		switch f.Kind {
		case gateway.Resource:
			var r mcp.Resource
			if decode(f.Definition, &r); r.URI != gateway.OutsideURI(f.Server, f.Key) || !isURI(r.URI) {
				continue
			}
			if resources[r.URI] = definition; ov.features.resources[r.URI] != definition {
				ov.sdk.AddResource(&r, ov.readOutside)
			}
		case gateway.Template:
			t := &mcp.ResourceTemplate{}
			if decode(f.Definition, t); t.URITemplate == gateway.OutsideURI(f.Server, f.Key) {
				templates = append(templates, t)
			}
		case gateway.Prompt:
			var p mcp.Prompt
			if decode(f.Definition, &p); f.Key == "" || p.Name != gateway.OutsidePrompt(f.Server, f.Key) {
				continue
			}
			if prompts[p.Name] = definition; ov.features.prompts[p.Name] != definition {
				ov.sdk.AddPrompt(&p, ov.getOutside(f.Server, f.Key))
			}
		}
	}
	ov.showTemplates(templates)
	ov.sdk.RemoveResources(missingKeys(ov.features.resources, resources)...)
	ov.sdk.RemovePrompts(missingKeys(ov.features.prompts, prompts)...)
	ov.features.resources, ov.features.prompts = resources, prompts
}

// showTemplates sets the templates. If they have changed, it registers outsideTemplate again, so that the SDK notifies clients.
func (ov *outsideView) showTemplates(templates []*mcp.ResourceTemplate) {
	slices.SortFunc(templates, func(a, b *mcp.ResourceTemplate) int { return strings.Compare(a.URITemplate, b.URITemplate) })
	o := &ov.features
	o.mu.Lock()
	same := o.shown && string(mustJSON(o.templates)) == string(mustJSON(templates))
	o.templates, o.shown = templates, true
	o.mu.Unlock()
	if !same {
		ov.sdk.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: outsideTemplate, Name: "outside"}, ov.readOutside)
	}
}

// missingKeys returns the keys of from that are not in the map in.
func missingKeys(from, in map[string]string) []string {
	var keys []string
	for key := range from {
		if _, there := in[key]; !there {
			keys = append(keys, key)
		}
	}
	return keys
}

func isURI(text string) bool {
	_, err := url.Parse(text)
	return err == nil
}

// seesOutside returns a function that reports whether a client sees the resources and prompts of a server. A client sees them
// if its role may submit calls and it sees a tool of the server.
func (ov *outsideView) seesOutside(c client) func(server string) bool {
	if ov.cfg.Stores.Outside == nil || !c.who.Role.submits() {
		return func(string) bool { return false }
	}
	if len(ov.cfg.Offer.Show.Tools) == 0 && len(c.who.Show.Tools) == 0 {
		return func(string) bool { return true }
	}
	seen := map[string]bool{}
	for _, name := range ov.cfg.Catalogue.Names() {
		if server, _, outside := strings.Cut(name, "__"); outside && ov.cfg.Offer.Show.names(name) && c.who.Show.names(name) {
			seen[server] = true
		}
	}
	return func(server string) bool { return seen[server] }
}

// outsideOf splits the URI of a resource of an external MCP server into the server and the URI there.
func outsideOf(uri string) (server, serverURI string, ok bool) {
	rest, ok := strings.CutPrefix(uri, gateway.URIPrefix)
	if ok {
		server, serverURI, ok = strings.Cut(rest, "/")
	}
	return server, serverURI, ok
}

// readOutside reads a resource of an external MCP server, listed or not: the server decides whether it exists.
func (ov *outsideView) readOutside(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	server, serverURI, ok := outsideOf(uri)
	if !ok || serverURI == "" || !ov.seesOutside(clientFrom(ctx))(server) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	raw, err := ov.cfg.Stores.Outside.ReadResource(ctx, server, serverURI)
	if fault.Has(err, fault.NotFound) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	result := &mcp.ReadResourceResult{}
	if err == nil {
		err = json.Unmarshal(raw, result)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// getOutside returns the handler of a prompt of an external MCP server.
func (ov *outsideView) getOutside(server, name string) mcp.PromptHandler {
	return func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if !ov.seesOutside(clientFrom(ctx))(server) {
			return nil, invalidParams(fmt.Sprintf("unknown prompt %q", req.Params.Name))
		}
		raw, err := ov.cfg.Stores.Outside.GetPrompt(ctx, server, name, req.Params.Arguments)
		result := &mcp.GetPromptResult{}
		if err == nil {
			err = json.Unmarshal(raw, result)
		}
		if err != nil {
			return nil, err
		}
		return result, nil
	}
}

// promptOf returns the server of a prompt of an external MCP server. Only the names of these prompts contain two underscores.
func (ov *outsideView) promptOf(name string) (server string, ok bool) {
	server, _, ok = strings.Cut(name, "__")
	return server, ok && ov.cfg.Stores.Outside != nil
}

// listPrompts removes the prompts of external MCP servers that the identity does not see.
func (ov *outsideView) listPrompts(c client, list *mcp.ListPromptsResult) {
	sees := ov.seesOutside(c)
	list.Prompts = slices.DeleteFunc(list.Prompts, func(p *mcp.Prompt) bool {
		server, outside := ov.promptOf(p.Name)
		return outside && !sees(server)
	})
}

// outsideCursor is the prefix of the cursors for pages with templates of external MCP servers. It is followed by the last
// template of the previous page. Cursors without it are the SDK's.
const outsideCursor = "after "

// listTemplates lists the server's own templates, and then those templates of external MCP servers that the identity sees.
func (ov *outsideView) listTemplates(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	after, external := "", false
	if p, ok := req.GetParams().(*mcp.ListResourceTemplatesParams); ok && p != nil {
		if after, external = strings.CutPrefix(p.Cursor, outsideCursor); external {
			p.Cursor = ""
		}
	}
	result, err := next(ctx, "resources/templates/list", req)
	list, ok := result.(*mcp.ListResourceTemplatesResult)
	if err != nil || !ok {
		return result, err
	}
	list.ResourceTemplates = slices.DeleteFunc(list.ResourceTemplates, func(t *mcp.ResourceTemplate) bool { return t.URITemplate == outsideTemplate })
	switch {
	case external:
		list.ResourceTemplates, list.NextCursor = []*mcp.ResourceTemplate{}, ""
	case list.NextCursor != "":
		return list, nil
	default:
		after = ""
	}
	ov.addOutside(c, list, after)
	return list, nil
}

// addOutside appends to a page the templates of external MCP servers that follow the template after.
func (ov *outsideView) addOutside(c client, list *mcp.ListResourceTemplatesResult, after string) {
	sees := ov.seesOutside(c)
	ov.features.mu.Lock()
	defer ov.features.mu.Unlock()
	for _, t := range ov.features.templates {
		server, _, _ := outsideOf(t.URITemplate)
		if t.URITemplate <= after || !sees(server) {
			continue
		}
		if len(list.ResourceTemplates) >= pageSize {
			list.NextCursor = outsideCursor + after
			return
		}
		list.ResourceTemplates = append(list.ResourceTemplates, t)
		after = t.URITemplate
	}
}

// outsideView offers the resources and prompts of external MCP servers.
type outsideView struct {
	*core

	features outsideFeatures
}
