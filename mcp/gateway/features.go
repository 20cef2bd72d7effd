package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

// maxFeatures is the most features of one kind of one server that are offered.
const maxFeatures = 1000

const (
	// collectDelay is the delay before changed features are read, because a server may report changes in quick succession.
	collectDelay = 250 * time.Millisecond
	// retryAfter is the delay before the next attempt to read features that could not be read.
	retryAfter = time.Minute
)

// features are the features of the connected servers.
type features struct {
	mu       sync.Mutex
	byServer map[string]*serverFeatures
	// replaced is closed and replaced when the features change.
	replaced chan struct{}
}

// serverFeatures are the features of one connected server.
type serverFeatures struct {
	stop context.CancelFunc
	// changed signals that the server's features may have changed.
	changed chan struct{}
	// features.mu guards lists.
	lists map[Kind][]Feature
	// logged are the problems that were logged, so that each is logged once; only gather uses it.
	logged map[string]bool
}

// Features returns the known resources, templates and prompts of the connected servers, sorted by server and kind. Features of one
// kind are in the order of the server.
func (g *Gateway) Features() []Feature {
	f := &g.features
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []Feature{}
	for _, server := range slices.Sorted(maps.Keys(f.byServer)) {
		for _, kind := range []Kind{Resource, Template, Prompt} {
			all = append(all, f.byServer[server].lists[kind]...)
		}
	}
	return all
}

// FeaturesReplaced returns a channel that is closed when the result of Features changes.
func (g *Gateway) FeaturesReplaced() <-chan struct{} {
	g.features.mu.Lock()
	defer g.features.mu.Unlock()
	return g.features.replaced
}

// notify signals that the features have changed. f.mu must be held.
func (f *features) notify() {
	close(f.replaced)
	f.replaced = make(chan struct{})
}

// set replaces the features of one kind, unless s is no longer the state of the server or nothing has changed.
func (f *features) set(server string, s *serverFeatures, kind Kind, list []Feature) {
	f.mu.Lock()
	defer f.mu.Unlock()
	same := func(a, b Feature) bool { return a.Key == b.Key && bytes.Equal(a.Definition, b.Definition) }
	if f.byServer[server] != s || slices.EqualFunc(s.lists[kind], list, same) {
		return
	}
	s.lists[kind] = list
	f.notify()
}

// followFeatures starts reading the features of newly connected servers, and removes the features of disconnected servers. changed
// are the servers that may have changed their features.
func (g *Gateway) followFeatures(defined map[string]registry.Defined, changed map[string]bool) {
	f := &g.features
	f.mu.Lock()
	defer f.mu.Unlock()
	for server, s := range f.byServer {
		if defined[server].Tools != nil {
			continue
		}
		s.stop()
		delete(f.byServer, server)
		if len(s.lists[Resource])+len(s.lists[Template])+len(s.lists[Prompt]) > 0 {
			f.notify()
		}
	}
	for server, d := range defined {
		s := f.byServer[server]
		switch {
		case d.Tools == nil:
		case s == nil:
			ctx, stop := context.WithCancel(g.life)
			s = &serverFeatures{stop: stop, changed: make(chan struct{}, 1), lists: map[Kind][]Feature{}, logged: map[string]bool{}}
			f.byServer[server] = s
			g.group.Go(func() { g.gather(ctx, server, s) })
		case changed[server]:
			signal(s.changed)
		}
	}
}

// signal sends to a channel of capacity one, unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gather reads the features of a server at once, after each change, and again after a failure. It returns when ctx ends.
func (g *Gateway) gather(ctx context.Context, server string, s *serverFeatures) {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Stop()
		if !g.collect(ctx, server, s) {
			timer.Reset(retryAfter)
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-s.changed:
		}
		timer.Reset(collectDelay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// collect reads all features of a server. It returns false if it could not read a kind of features; that kind remains unchanged.
func (g *Gateway) collect(ctx context.Context, server string, s *serverFeatures) bool {
	whole := true
	for _, part := range []struct {
		kind Kind
		list func(context.Context, string) ([]json.RawMessage, error)
	}{{Prompt, g.servers.Prompts}, {Resource, g.servers.Resources}, {Template, g.servers.ResourceTemplates}} {
		raw, err := part.list(ctx, server)
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			whole = false
			if why := escape(fault.From(err).Message, maxDescription); s.firstTime(string(part.kind), why) {
				g.log.WarnContext(ctx, "mcp_features_unreadable", slog.String("server", server), slog.String("kind", string(part.kind)), slog.String("error", why))
			}
			continue
		}
		g.features.set(server, s, part.kind, g.usable(server, s, part.kind, raw))
	}
	return whole
}

// usable returns those features of a list that can be offered. It logs one entry for all features that cannot.
func (g *Gateway) usable(server string, s *serverFeatures, kind Kind, raw []json.RawMessage) []Feature {
	list := []Feature{}
	known := map[string]bool{}
	omitted, first := 0, ""
	leaveOut := func(n int, why string) {
		if omitted += n; first == "" {
			first = why
		}
	}
	for i, definition := range raw {
		if len(list) == maxFeatures {
			leaveOut(len(raw)-i, "there are more than 1000")
			break
		}
		f, err := featureOf(server, kind, definition)
		switch {
		case err != nil:
			leaveOut(1, escape(f.Key, maxTitle)+": "+fault.From(err).Message)
		case known[f.Key]:
			leaveOut(1, f.Key+": another one is called that")
		default:
			known[f.Key] = true
			list = append(list, f)
		}
	}
	if omitted > 0 && s.firstTime(string(kind), strconv.Itoa(omitted), first) {
		g.log.Warn("mcp_features_left_out", slog.String("server", server), slog.String("kind", string(kind)), slog.Int("count", omitted), slog.String("first", first))
	}
	return list
}

// maxLogged is the most logged problems remembered for a server.
const maxLogged = 100

// firstTime reports whether to log a problem: it was not logged before, and fewer than maxLogged were.
func (s *serverFeatures) firstTime(problem ...string) bool {
	key := strings.Join(problem, " ")
	if s.logged[key] || len(s.logged) == maxLogged {
		return false
	}
	s.logged[key] = true
	return true
}

// ReadResource reads a resource of a server; uri is the URI at the server. It returns a ReadResourceResult of MCP of at most 4 MiB,
// in which URIs are those of orch (OutsideURI). It returns NOT_FOUND for an unknown server or resource; its other errors are those
// of registry.Registry.ReadResource.
func (g *Gateway) ReadResource(ctx context.Context, server, uri string) (json.RawMessage, error) {
	if err := g.Ready(ctx); err != nil {
		return nil, err
	}
	raw, err := g.servers.ReadResource(ctx, server, uri)
	switch {
	case fault.Has(err, fault.InvalidParams): // the URI is the only parameter
		return nil, fault.New(fault.NotFound, "%s has no resource %q", server, escape(uri, maxTitle)).WithField("uri")
	case err != nil:
		return nil, escapeFault(err)
	}
	return contentsOf(server, uri, raw)
}

// GetPrompt gets a prompt of a server; name is the name at the server. It returns a GetPromptResult of MCP of at most 4 MiB, in which
// URIs are those of orch (OutsideURI). Errors are those of registry.Registry.GetPrompt.
func (g *Gateway) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	if err := g.Ready(ctx); err != nil {
		return nil, err
	}
	raw, err := g.servers.GetPrompt(ctx, server, name, args)
	if err != nil {
		return nil, escapeFault(err)
	}
	return messagesOf(server, raw)
}
