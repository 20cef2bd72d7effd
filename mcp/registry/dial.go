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

// session is a connection together with the tools of the server.
type session struct {
	conn *connection
	// tools are the tools that the server offers, traits their properties by name.
	tools  []*Tool
	traits map[string]trait
	// missing are the required capabilities that the server does not offer.
	missing []string
	// def is the definition with which the session was opened, digest its digest.
	def    MCPConfig
	digest string
	// latency is the duration of the handshake.
	latency time.Duration
	// conceal and guard hide secrets, see expandedConfig.
	conceal, guard func(string) string
}

func (s *session) close() { s.conn.close() }

// missingText names the missing capabilities; "" if there are none.
func (s *session) missingText() string {
	if len(s.missing) == 0 {
		return ""
	}
	return "the definition promises what the server does not offer: " + strings.Join(s.missing, ", ")
}

// dialOptions configures how a session is opened.
type dialOptions struct {
	// onStage is called after each stage (Stage); may be nil.
	onStage func(name string, took time.Duration, err error)
	// onChange is called when the server's tools, resources or prompts change; may be nil.
	onChange func(ChangeKind)
	// onAmbiguous is called for a request of the server that may belong to several calls; may be nil.
	onAmbiguous func(method string)
	// retry is set after the first attempt, which has logged the unset variables.
	retry bool
	// onStderr is called with the stderr of a process if the session cannot be opened; may be nil.
	onStderr func(string)
}

// dial opens a session with the server of a definition, within its timeout. It returns ErrHandshakeFailed, without secrets in its
// text.
func (r *Registry) dial(ctx context.Context, def definition, d dialOptions) (*session, error) {
	if d.onStage == nil {
		d.onStage = func(string, time.Duration, error) {}
	}
	release, err := r.acquireSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	begin := time.Now()
	e, err := expand(def.MCPConfig, r.variable)
	d.onStage("config", time.Since(begin), err)
	if err != nil {
		return nil, handshakeFailed(def.Name, fault.From(err).Message)
	}
	if d.retry {
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

// reasonOf returns the text of an error for people.
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

// variable returns the value of an environment variable, or of a variable that MCP clients define, such as workspaceFolder.
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

// open connects the server and lists its tools.
func (r *Registry) open(ctx context.Context, e expandedConfig, d dialOptions) (*session, error) {
	var (
		last     link
		starting time.Duration
	)
	fs := r.pendingCalls(e, d)
	begin := time.Now()
	conn, err := connect(ctx, e.timeout(), connectOptions{
		options:      options(fs, d.onChange),
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
	d.reportConnect(last, starting, latency, err)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, latency: latency, conceal: e.conceal, guard: e.guard}
	begin = time.Now()
	s.tools, s.traits, err = conn.tools(ctx, r.logRefused(ctx, e.Name, e.conceal))
	d.onStage("tools", time.Since(begin), err)
	if err != nil {
		conn.close()
		return nil, err
	}
	s.missing = missingCapabilities(e.MCPConfig, conn.session.InitializeResult().Capabilities, s.tools)
	return s, nil
}

// pendingCalls returns the pending calls of a new connection.
func (r *Registry) pendingCalls(e expandedConfig, d dialOptions) *pendingCalls {
	fs := newPendingCalls(e.timeout())
	fs.onUnowned = func(method string) {
		r.log.Warn("mcp_request_refused", slog.String("server", e.Name), slog.String("method", method),
			slog.String("reason", "it belongs to no call"))
	}
	if d.onAmbiguous != nil {
		fs.onAmbiguous = d.onAmbiguous
	}
	return fs
}

// logRefused returns a function that logs an omitted tool with the reason.
func (r *Registry) logRefused(ctx context.Context, server string, conceal func(string) string) func(tool, reason string) {
	return func(tool, reason string) {
		r.log.WarnContext(ctx, "mcp_tool_refused", slog.String("server", server), slog.String("tool", conceal(tool)), slog.String("reason", reason))
	}
}

// reportConnect reports the stages connect and initialize.
func (d dialOptions) reportConnect(l link, starting, both time.Duration, err error) {
	if l == nil {
		d.onStage("connect", starting, err)
		return
	}
	d.onStage("connect", starting, nil)
	d.onStage("initialize", both-starting, err)
	if err != nil && d.onStderr != nil {
		d.onStderr(l.stderrTail())
	}
}

// link returns the link to the server of a definition.
func (r *Registry) link(e expandedConfig) (link, error) {
	if e.Transport == TransportHTTP {
		return newRemote(e)
	}
	return spawn(r.services, e, r.dir, r.getenv)
}

// missingCapabilities returns the required capabilities that a server does not offer (S1-073).
func missingCapabilities(c MCPConfig, has *mcp.ServerCapabilities, tools []*Tool) []string {
	offered := map[string]bool{}
	if has != nil {
		offered["tools"], offered["resources"], offered["prompts"] = has.Tools != nil, has.Resources != nil, has.Prompts != nil
		offered["logging"], offered["completions"] = has.Logging != nil, has.Completions != nil
	}
	for _, tool := range tools {
		offered[normalizeName(tool.Name)] = true
		offered[normalizeName(c.Name)+"-"+normalizeName(tool.Name)] = true
	}
	var lacking []string
	for _, capability := range c.Capabilities {
		if !offered[normalizeName(capability)] {
			lacking = append(lacking, capability)
		}
	}
	return lacking
}

// normalizeName makes tool names comparable with capabilities: lower case, with hyphens for all but letters and digits.
func normalizeName(name string) string {
	return regexp.MustCompile(`[^a-z0-9]`).ReplaceAllString(strings.ToLower(name), "-")
}

// acquireSlot waits for one of maxDials slots for opening sessions, because many at the same time slow each other down. The
// returned function releases the slot. It is released after a second anyway, so that silent servers do not delay other servers
// (S1-007).
func (r *Registry) acquireSlot(ctx context.Context) (func(), error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.From(ctx.Err())
	}
	release := sync.OnceFunc(func() { <-r.slots })
	timer := time.AfterFunc(time.Second, release)
	return func() { timer.Stop(); release() }, nil
}
