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
	// Refused returns the names of tools whose calls are refused at present; they are in no list.
	Refused() []string
	// Replaced returns a channel that is closed when the tools change.
	Replaced() <-chan struct{}
}

// Config configures a Server. API and Catalogue are required.
type Config struct {
	API       api.API
	Catalogue Catalogue
	// Local is the identity of the client over stdio. Over HTTP the bearer token decides.
	Local   Identity
	Stores  Stores
	Hooks   Hooks
	Limits  Limits
	Offer   Offer
	Consent Consent
	HTTP    HTTP
	// Root is the directory that tools are confined to, for the instructions.
	Root    string
	Version string
	Logger  *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Key signs the state that clients carry between two rounds of a call; empty means a new key for each process.
	Key []byte
}

// Stores are where the face reads and stores what is not in the log. A nil store offers nothing.
type Stores struct {
	// Sessions stores sessions so that they can be reopened after a restart. Nil stores nothing.
	Sessions Sessions
	// Outputs gives access to the output files of tasks. Nil shows none.
	Outputs Outputs
	// Outside gives access to the resources and prompts of outside servers. Nil offers none.
	Outside Outside
	// Inboxes gives access to the messages for identities. Nil offers no inbox.
	Inboxes Inboxes
	// Subscriptions stores the messages of subscriptions that tools have made. With nil no tool subscribes.
	Subscriptions Subscriptions
}

// Hooks connect the face to the node around it. Each may be nil.
type Hooks struct {
	// Unlogged calls a tool outside of the log, with checked arguments, if its contract allows that and the log accepts
	// nothing. Nil calls none.
	Unlogged func(ctx context.Context, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// Direct calls a tool with Spec.Direct for an identity, with checked arguments. Nil refuses such calls.
	Direct func(ctx context.Context, who Identity, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// Refused is called for each call refused before it reaches the API: the identity, the tool, the arguments, and the reason. It
	// must return soon. Default: none.
	Refused func(who, tool string, args json.RawMessage, why error)
	// ShareOf returns the identity whose share another one counts against, such as the registrar of an agent; "" for a share of its own. With nil
	// every identity has a share of its own.
	ShareOf func(who string) string
	// Complete adds completions; if it returns nil, the server uses its own.
	Complete func(*mcp.CompleteParams) []string
	// Reveal adds data that the log does not contain to the result of a call, for the one identity that may see it. Default:
	// results are as in the log.
	Reveal func(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage
	// Extend adds features to the SDK's server, such as those of the conformance suite.
	Extend func(*mcp.Server)
}

// Limits are times; 0 is the default of each.
type Limits struct {
	// SyncWait is how long a plain tools/call waits before it hands a task back. Default 20 s.
	SyncWait time.Duration
	// DefaultTTL and MaxTTL are how long a task is visible to MCP clients after its submission, by default
	// and at most (S2-068). Default 24 h and 30 days.
	DefaultTTL, MaxTTL time.Duration
	// SessionTimeout ends an HTTP session without requests after this time. Default 1 h.
	SessionTimeout time.Duration
}

// Offer says which tools clients see, and under which names.
type Offer struct {
	// Show selects the tools that clients see. The zero value shows all.
	Show Selection
	// Profile is the profile of clients that name none: one of Profiles. Empty is ProfileAll.
	Profile string
	// PortableNames shows the names of tools with underscores instead of dots, for clients that accept no dots. Both
	// names can be called.
	PortableNames bool
}

// Consent says what needs the consent of a person, and where it is given.
type Consent struct {
	// Writes is how sessions may write in the project: policy.WritesAsk, WritesSession or WritesAllow. Identities that may not decide
	// always ask. Default: ask.
	Writes string
	// OutsideApprovals requires that approvals are decided outside of the client: no elicitation
	// asks for them.
	OutsideApprovals bool
}

// HTTP configures Handler.
type HTTP struct {
	// Tokens verifies bearer tokens; it is required for Handler.
	Tokens Tokens
	// Origins are additional web origins whose pages may use the server.
	Origins []string
	// ResourceMetadata is the URL that tells clients how to get a token (RFC 9728).
	ResourceMetadata string
}

func (c Config) withDefaults() Config {
	if c.Limits.SyncWait == 0 {
		c.Limits.SyncWait = 20 * time.Second
	}
	if c.Limits.DefaultTTL == 0 {
		c.Limits.DefaultTTL = 24 * time.Hour
	}
	if c.Limits.MaxTTL == 0 {
		c.Limits.MaxTTL = 30 * 24 * time.Hour
	}
	if c.Limits.SessionTimeout == 0 {
		c.Limits.SessionTimeout = time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Hooks.Refused == nil {
		c.Hooks.Refused = func(string, string, json.RawMessage, error) {}
	}
	if c.Hooks.ShareOf == nil {
		c.Hooks.ShareOf = func(string) string { return "" }
	}
	if c.Hooks.Reveal == nil {
		c.Hooks.Reveal = func(_ context.Context, _ events.TaskID, _ string, result json.RawMessage) json.RawMessage {
			return result
		}
	}
	if c.Local.Name == "" {
		c.Local = Identity{Name: "user:local", Role: Operator}
	}
	return c
}

// share returns the identity that owns the share of who.
func (c *Config) share(who string) string { return cmp.Or(c.Hooks.ShareOf(who), who) }

// pollInterval is the interval at which clients are told to poll a task.
const pollInterval = time.Second

// pageSize is the number of items on a page of a list (S2-020).
const pageSize = 100
