// Package server is the MCP face of orch: every tool call of a client becomes a task in the log, so that it is
// gated, durable and replayable, and tasks/* are views of that log.
//
// One server speaks both generations of the protocol: 2025-11-25 with sessions, and 2026-07-28 without. Over HTTP
// a router (versionrouter.go) sends each request to the half that understands it; over stdio one connection carries both.
// Nothing that a client must be able to rely on is kept in memory here: a handle that was given out is a task
// whose submission the log has acknowledged, and a session that a restart has ended is opened again under its id.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Catalogue finds tools by name.
type Catalogue interface {
	Get(name string) (tools.Tool, bool)
	Names() []string
	// Refused are the names of tools whose calls are refused for now; they stand in no list.
	Refused() []string
	// Replaced is closed when there are other tools.
	Replaced() <-chan struct{}
}

// Config says what a server works with. API and Catalogue are required.
type Config struct {
	API       api.API
	Catalogue Catalogue
	// Local is who speaks over stdio. Over HTTP the bearer token says it.
	Local Identity
	// Tokens knows the bearer tokens; it is required for Handler.
	Tokens Tokens
	// Sessions keeps what a session needs to be opened again after a restart. Nil keeps nothing.
	Sessions Sessions
	// Show selects the tools that clients see. The zero value shows all.
	Show Selection
	// SyncWait is how long a plain tools/call waits before it hands a task back. Default 20 s.
	SyncWait time.Duration
	// DefaultTTL and MaxTTL are how long a task is visible to MCP clients after its submission, when a client
	// does not say and at most (S2-068). Default 24 h and 30 days.
	DefaultTTL, MaxTTL time.Duration
	// SessionTimeout ends a session over HTTP that sends no request for this long. Default 1 h.
	SessionTimeout time.Duration
	// OutsideApprovals demands that a person outside of the client decides about approvals: none are asked for
	// by elicitation.
	OutsideApprovals bool
	// Outputs gives access to the files that tasks hand over. Nil shows none.
	Outputs Outputs
	// Outside gives access to the resources and prompts of outside servers. Nil offers none.
	Outside Outside
	// Inboxes has the messages that wait for identities. Nil offers no inbox.
	Inboxes Inboxes
	// Unlogged calls a tool outside of the log, with checked arguments: one whose contract says so, when the log takes
	// nothing. Nil calls none.
	Unlogged func(ctx context.Context, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// ShareOf returns the identity in whose share another one counts, such as the one that has registered an agent; "" for its own. Nil is
	// its own for everybody.
	ShareOf func(who string) string
	// Direct calls a tool of Spec.Direct for an identity, with checked arguments. Nil refuses such calls.
	Direct func(ctx context.Context, who Identity, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// Refused is told of calls that are refused before the API hears of them: whose, of which tool, with what, and why. It
	// returns soon. Default: nobody is told.
	Refused func(who, tool string, args json.RawMessage, why error)
	// Writes says how sessions write in the project: policy.WritesAsk, WritesSession or WritesAllow. Identities that decide nothing
	// always ask. Default: ask.
	Writes string
	// Profile is that of clients that name none: one of Profiles. Empty is ProfileAll.
	Profile string
	// PortableNames shows the names of tools with underscores in place of dots, to clients that take no dots. Both
	// names can be called.
	PortableNames bool
	// Subscriptions keeps what tools have subscribed sessions to. Nil lets no tool subscribe.
	Subscriptions Subscriptions
	// Complete adds completions; nil values let the server find its own.
	Complete func(*mcp.CompleteParams) []string
	// Reveal puts what the log does not hold into the result of a call, for the one identity that may see it. Default:
	// results are as they are in the log.
	Reveal func(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage
	// Root is the root that tools are confined to, for the instructions.
	Root    string
	Version string
	Logger  *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Key signs what clients carry between two rounds of a call; empty means a new one for each process.
	Key []byte
	// Origins are web origins beside that of the server itself whose pages may use it.
	Origins []string
	// ResourceMetadata is the URL that tells clients how to get a token (RFC 9728).
	ResourceMetadata string
	// Extend adds further features to the server of the SDK, such as those of the conformance suite.
	Extend func(*mcp.Server)
}

func (c Config) withDefaults() Config {
	if c.SyncWait == 0 {
		c.SyncWait = 20 * time.Second
	}
	if c.DefaultTTL == 0 {
		c.DefaultTTL = 24 * time.Hour
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = 30 * 24 * time.Hour
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Refused == nil {
		c.Refused = func(string, string, json.RawMessage, error) {}
	}
	if c.ShareOf == nil {
		c.ShareOf = func(string) string { return "" }
	}
	if c.Reveal == nil {
		c.Reveal = func(_ context.Context, _ events.TaskID, _ string, result json.RawMessage) json.RawMessage {
			return result
		}
	}
	if c.Local.Name == "" {
		c.Local = Identity{Name: "user:local", Role: Operator}
	}
	return c
}

// pollInterval is how often clients are told to ask for a task.
const pollInterval = time.Second

// Server is the MCP face of one node.
type Server struct {
	cfg Config
	sdk *mcp.Server
	// sdkLogger is the log of the SDK.
	sdkLogger *slog.Logger
	// seal signs what clients carry between two rounds of a call.
	seal sealer
	// life ends with the server; work that outlives a request hangs on it.
	life context.Context //nolint:containedctx // the life of the server, which requests do not end
	stop context.CancelFunc
	// group counts the goroutines that outlive their request.
	group    sync.WaitGroup
	sessions sessionTable
	contexts contexts
	streams  streams
	fresh    sessionIDs
	meter    meter
	// offered are the tools of the catalogue that the SDK knows, by name, as they are described. Only followTools and
	// New use it.
	offered      map[string]string
	descriptions descriptions
	// published and watched are the resources that are listed, and those that are subscribed to.
	published       published
	watched         watched
	outsideFeatures outsideFeatures
	// feeds bring sessions what they have subscribed to, behind the answers that replies knows of.
	feeds   feeds
	replies replies
	// rooms bounds the memory of large answers.
	rooms *rooms
	// listeners are the subscriptions of clients without a session.
	listeners listeners
}

// share returns the identity in whose share one counts.
func (c *Config) share(who string) string { return cmp.Or(c.ShareOf(who), who) }

// New returns a server. VALIDATION_ERROR when the configuration lacks something.
func New(cfg Config) (*Server, error) {
	if cfg.API == nil || cfg.Catalogue == nil {
		return nil, fault.New(fault.ValidationError, "a server needs an API and a catalogue")
	}
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, sdkLogger: slog.New(debugHandler{cfg.Logger.Handler()}), seal: newSealer(cfg.Key), rooms: newRooms(), contexts: newContexts()}
	s.meter.share, s.rooms.share = cfg.share, cfg.share
	s.life, s.stop = context.WithCancel(context.Background())
	s.sdk = mcp.NewServer(&mcp.Implementation{Name: "orch", Title: "orch", Version: cfg.Version}, s.options())
	replaced := s.cfg.Catalogue.Replaced()
	s.offerTools()
	s.addOwnTools()
	s.addResources()
	s.addPlanSchema()
	s.addInbox()
	s.addPrompts()
	if err := s.addTaskMethods(); err != nil {
		return nil, err
	}
	if cfg.Outside != nil {
		changed := cfg.Outside.FeaturesReplaced()
		s.offerOutside()
		s.background(func(ctx context.Context) { s.followOutside(ctx, changed) })
	}
	if cfg.Extend != nil {
		cfg.Extend(s.sdk)
	}
	s.sdk.AddReceivingMiddleware(s.route)
	s.background(s.tidy)
	s.background(func(ctx context.Context) { s.followTools(ctx, replaced) })
	return s, nil
}

// Close ends the open sessions, which clients can go on with at another server, and what goes on in the background.
func (s *Server) Close() {
	s.endProcess()
	s.stop()
	for session := range s.sdk.Sessions() {
		_ = session.Close()
	}
	s.group.Wait()
}

// tidy forgets the sessions that nobody has used for long; they can be opened again.
func (s *Server) tidy(ctx context.Context) {
	tick := time.NewTicker(s.cfg.SessionTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			live := map[string]bool{}
			for session := range s.sdk.Sessions() {
				live[session.ID()] = true
			}
			s.sessions.drop(s.cfg.Now().Add(-2*s.cfg.SessionTimeout), live)
		}
	}
}

// background runs fn until the server closes, apart from the request that caused it.
func (s *Server) background(fn func(ctx context.Context)) {
	if s.life.Err() != nil {
		return
	}
	s.group.Go(func() { fn(s.life) })
}

func (s *Server) options() *mcp.ServerOptions {
	return &mcp.ServerOptions{
		Instructions: s.instructions(s.cfg.Profile),
		Logger:       s.sdkLogger,
		PageSize:     pageSize,
		Capabilities: capabilities(),
		GetSessionID: s.fresh.id,
		SetCacheable: cacheable,

		SubscribeHandler: s.subscribe, UnsubscribeHandler: s.unsubscribe, CompletionHandler: s.complete,
		RootsListChangedHandler: s.newRoots,
	}
}

// pageSize is the number of items on a page of a list (S2-020).
const pageSize = 100

// capabilities are those of the server beside what follows from its features (S2-006).
func capabilities() *mcp.ServerCapabilities {
	c := &mcp.ServerCapabilities{
		Tools:   &mcp.ToolCapabilities{ListChanged: true},
		Prompts: &mcp.PromptCapabilities{ListChanged: true},
		Logging: &mcp.LoggingCapabilities{},
	}
	c.AddExtension(tasksExtension, nil)
	c.AddExtension(eventsExtension, nil)
	return c
}

// cacheable lets no answer be shared between clients: what they see depends on who they are.
func cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.TTLMs, c.CacheScope = 0, "private"
}

// instructions tell a client how to work with the tools of its profile, under the names that they have there.
func (s *Server) instructions(profile string) string {
	text := "Every call of a tool is a durable task: it survives restarts, may wait for the approval of a person, and stays in an audit log. " +
		"A call that takes long answers with handed_back and a task id, and goes on: do not repeat it"
	if name := nameIn(profile, toolResult); name != "" {
		text += ", " + name + " waits for its end"
	}
	text += "."
	if name := nameIn(profile, toolSubmit); name != "" {
		text += " " + name + " runs a plan of many calls."
	}
	switch {
	case s.cfg.Root == "":
	case narrowed(profile) != nil:
		text += " Paths are relative to " + s.cfg.Root + ", or absolute and lie below it."
	default:
		text += " Paths are absolute and lie below " + s.cfg.Root + "."
	}
	return text
}

// taskOf reads a task that the identity may see. NOT_FOUND for all others, as for those that do not exist (S2-071).
func (s *Server) taskOf(ctx context.Context, who Identity, text string) (api.TaskView, error) {
	id, err := events.ParseTaskID(text)
	if err != nil {
		return api.TaskView{}, unknownTask(text)
	}
	t, err := s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if fault.Has(err, fault.NotFound) || err == nil && s.hidden(ctx, who, t) {
		return api.TaskView{}, unknownTask(text)
	}
	return t, err
}

func unknownTask(text string) error {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return fault.New(fault.NotFound, "there is no task %q", text).WithField("taskId")
}

// hidden reports whether a task is somebody else's, or no longer shown to MCP clients.
func (s *Server) hidden(ctx context.Context, who Identity, t api.TaskView) bool {
	if end := until(t); !end.IsZero() && s.cfg.Now().After(end) {
		return true
	}
	return !who.Role.seesAll() && s.ownerOf(ctx, t) != who.Name
}

// until is when a task stops being shown to clients; zero for one that always is.
func until(t api.TaskView) time.Time {
	ttl, ok := ttlOf(t.Labels)
	if !ok {
		return time.Time{}
	}
	return t.CreatedAt.Add(ttl)
}

// maxDepth bounds the way from a part of a task to who submitted the whole.
const maxDepth = 16

// ownerOf is who submitted a task, or the one of which it is a part.
func (s *Server) ownerOf(ctx context.Context, t api.TaskView) string {
	for range maxDepth {
		if t.Parent == "" || !strings.HasPrefix(t.Requestor, "task:") { // what an agent delegates is its own
			return t.Requestor
		}
		parent, err := s.cfg.API.Get(ctx, api.GetRequest{ID: t.Parent})
		if err != nil {
			return ""
		}
		t = parent
	}
	return ""
}

// object is JSON that is made here rather than by the SDK.
type object = map[string]any

// fieldsOf are the fields of an object as they are: their numbers keep all digits.
func fieldsOf(v any) object {
	var raw map[string]json.RawMessage
	decode(mustJSON(v), &raw)
	fields := make(object, len(raw))
	for name, value := range raw {
		fields[name] = value
	}
	return fields
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package
	}
	return raw
}
