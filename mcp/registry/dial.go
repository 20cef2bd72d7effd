package registry

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
)

// session is a connection whose tools are known.
type session struct {
	conn *connection
	// tools are those that the server offers, missing the capabilities of the definition that it does not.
	tools   []*Tool
	traits  map[string]trait
	missing []string
	// def is the definition that it was opened with.
	def MCPConfig
	// latency is the time from the beginning to the end of the handshake.
	latency time.Duration
	digest  string
	// conceal and guard are those of the expansion.
	conceal, guard func(string) string
}

func (s *session) close() { s.conn.close() }

// lack says what is missing; "" when nothing is.
func (s *session) lack() string {
	if len(s.missing) == 0 {
		return ""
	}
	return "the definition promises what the server does not offer: " + strings.Join(s.missing, ", ")
}

// dialOptions is how a session is opened.
type dialOptions struct {
	// stage is told of each step; nil when nobody asks.
	stage func(name string, took time.Duration, err error)
	// changed is told that the server offers something else; nil when nobody asks.
	changed func(ChangeKind)
	// confused is told that the server asks something that may belong to several calls; nil when nobody calls.
	confused func(method string)
	// again is an attempt after one that failed: what the definition lacks has been told.
	again bool
	// tail is told what a process wrote to stderr, when the session cannot be opened; nil when nobody asks.
	tail func(string)
}

// dial opens a session with the server of a definition, within its timeout. ErrHandshakeFailed; its text holds no
// secrets.
func (r *Registry) dial(ctx context.Context, def definition, d dialOptions) (*session, error) {
	if d.stage == nil {
		d.stage = func(string, time.Duration, error) {}
	}
	release, err := r.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	begin := time.Now()
	e, err := expand(def.MCPConfig, r.variable)
	d.stage("config", time.Since(begin), err)
	if err != nil {
		return nil, handshakeFailed(def.Name, fault.From(err).Message)
	}
	if d.again {
		e.unset = nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(e.unset))) {
		r.log.WarnContext(ctx, "mcp_variable_unset", slog.String("server", def.Name), slog.String("variable", name))
	}
	e = r.withLogin(e)
	ctx, cancel := context.WithTimeout(ctx, def.timeout())
	defer cancel()
	s, err := r.open(ctx, e, d)
	if errors.Is(err, oauth.ErrLogin) {
		return nil, fault.Wrap(fault.ToolUnavailable, errors.Join(ErrHandshakeFailed, oauth.ErrLogin), reasonOf(err)).
			WithHint("orch mcp login %s", def.Name)
	}
	if err != nil {
		return nil, handshakeFailed(def.Name, e.conceal(reasonOf(err)))
	}
	s.digest, s.def = def.digest, def.MCPConfig
	return s, nil
}

// reasonOf is the text of an error for people.
func reasonOf(err error) string {
	if coded, ok := errors.AsType[*fault.Error](err); ok {
		return coded.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return strings.ReplaceAll(err.Error(), context.DeadlineExceeded.Error(), "no answer in time")
	}
	return err.Error()
}

func handshakeFailed(name, reason string) error {
	reason = strings.ReplaceAll(reason, "\n", ": ")
	return fault.Wrap(fault.ToolUnavailable, ErrHandshakeFailed, "the MCP server "+name+" cannot be used: "+reason).
		WithHint("orch mcp test %s", name)
}

// variable is a variable of the environment, or one of those that clients define themselves.
func (r *Registry) variable(name string) string {
	if value := r.getenv(name); value != "" {
		return value
	}
	switch name {
	case "workspaceFolder", "CLAUDE_PROJECT_DIR":
		return r.workspace
	case "userHome":
		return r.home
	default:
		return ""
	}
}

// open does the stages that need the server.
func (r *Registry) open(ctx context.Context, e expandedConfig, d dialOptions) (*session, error) {
	var (
		last     link
		starting time.Duration
	)
	fs := r.pendingCalls(e, d)
	begin := time.Now()
	conn, err := connect(ctx, e.timeout(), connectOptions{
		options:      options(fs, d.changed),
		pendingCalls: fs,
		open: func() (link, error) {
			from := time.Now()
			l, err := r.link(e)
			starting += time.Since(from)
			if err == nil {
				last = l
			}
			return l, err
		},
	})
	latency := time.Since(begin)
	d.begun(last, starting, latency, err)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, latency: latency, conceal: e.conceal, guard: e.guard}
	begin = time.Now()
	s.tools, s.traits, err = conn.tools(ctx, r.refusing(ctx, e.Name, e.conceal))
	d.stage("tools", time.Since(begin), err)
	if err != nil {
		conn.close()
		return nil, err
	}
	s.missing = missing(e.MCPConfig, conn.session.InitializeResult().Capabilities, s.tools)
	return s, nil
}

// pendingCalls returns those of a new connection.
func (r *Registry) pendingCalls(e expandedConfig, d dialOptions) *pendingCalls {
	fs := newPendingCalls(e.timeout())
	fs.unowned = func(method string) {
		r.log.Warn("mcp_request_refused", slog.String("server", e.Name), slog.String("method", method),
			slog.String("reason", "it belongs to no call"))
	}
	if d.confused != nil {
		fs.confused = d.confused
	}
	return fs
}

// refusing logs tools that are left out.
func (r *Registry) refusing(ctx context.Context, server string, conceal func(string) string) func(tool, reason string) {
	return func(tool, reason string) {
		r.log.WarnContext(ctx, "mcp_tool_refused", slog.String("server", server), slog.String("tool", conceal(tool)), slog.String("reason", reason))
	}
}

// begun tells of the stages connect and initialize.
func (d dialOptions) begun(l link, starting, both time.Duration, err error) {
	if l == nil {
		d.stage("connect", starting, err)
		return
	}
	d.stage("connect", starting, nil)
	d.stage("initialize", both-starting, err)
	if err != nil && d.tail != nil {
		d.tail(l.tail())
	}
}

// link returns the way to the server of a definition.
func (r *Registry) link(e expandedConfig) (link, error) {
	if e.Transport == TransportHTTP {
		return reach(e)
	}
	return spawn(r.services, e, r.dir, r.getenv)
}

// missing returns the capabilities of a definition that a server does not offer (S1-073).
func missing(c MCPConfig, has *mcp.ServerCapabilities, tools []*Tool) []string {
	offered := map[string]bool{}
	if has != nil {
		offered["tools"], offered["resources"], offered["prompts"] = has.Tools != nil, has.Resources != nil, has.Prompts != nil
		offered["logging"], offered["completions"] = has.Logging != nil, has.Completions != nil
	}
	for _, tool := range tools {
		offered[plainName(tool.Name)] = true
		offered[plainName(c.Name)+"-"+plainName(tool.Name)] = true
	}
	var lacking []string
	for _, capability := range c.Capabilities {
		if !offered[plainName(capability)] {
			lacking = append(lacking, capability)
		}
	}
	return lacking
}

// plainName makes names of tools comparable with capabilities: lower case, and hyphens for all but letters and digits.
func plainName(name string) string {
	return regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(strings.ToLower(name), "-")
}

// slot waits for the right to open a session: many at once would slow each other down. It is given back after a while
// even when the session still is not open, so that silent servers do not delay the others (S1-007).
func (r *Registry) slot(ctx context.Context) (func(), error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
	release := sync.OnceFunc(func() { <-r.slots })
	timer := time.AfterFunc(time.Second, release)
	return func() { timer.Stop(); release() }, nil
}
