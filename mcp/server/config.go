package server

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
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

// share returns the identity in whose share one counts.
func (c *Config) share(who string) string { return cmp.Or(c.ShareOf(who), who) }

// pollInterval is how often clients are told to ask for a task.
const pollInterval = time.Second

// pageSize is the number of items on a page of a list (S2-020).
const pageSize = 100
