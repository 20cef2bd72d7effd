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

// Catalogue is the set of tools, by name.
type Catalogue interface {
	Get(name string) (tools.Tool, bool)
	Names() []string
	// Refused returns the names of tools whose calls are refused at present. Names does not return them.
	Refused() []string
	// Replaced returns a channel that is closed when the tools change.
	Replaced() <-chan struct{}
}

// Config configures a Server. API and Catalogue are required.
type Config struct {
	API       api.API
	Catalogue Catalogue
	// Local is the identity of the client over stdio. Over HTTP the bearer token determines the identity.
	Local   Identity
	Stores  Stores
	Hooks   Hooks
	Limits  Limits
	Offer   Offer
	Consent Consent
	HTTP    HTTP
	// Root is the directory that tools are confined to. The instructions for clients name it.
	Root    string
	Version string
	Logger  *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Key signs the state that clients carry between two rounds of a call; empty means a new key for each process.
	Key []byte
}

// Stores contain the data of the server that is not in the log. A nil store disables its feature.
type Stores struct {
	// Sessions stores sessions so that they can be reopened after a restart.
	Sessions Sessions
	// Outputs gives access to the output files of tasks.
	Outputs Outputs
	// Outside gives access to the resources and prompts of external MCP servers.
	Outside Outside
	// Agents lists the agents that files describe.
	Agents Agents
	// Inboxes gives access to the messages for identities.
	Inboxes Inboxes
	// Subscriptions stores the messages of subscriptions that tools have made.
	Subscriptions Subscriptions
}

// Hooks connect the server to its node. Each may be nil.
type Hooks struct {
	// Unlogged calls a tool with checked arguments, without recording the call. It is used for tools with Spec.Unlogged while
	// the log accepts no commits. With nil these calls fail.
	Unlogged func(ctx context.Context, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// Direct calls a tool with Spec.Direct for an identity, with checked arguments. With nil these calls are refused.
	Direct func(ctx context.Context, who Identity, tool tools.Tool, args json.RawMessage) (json.RawMessage, error)
	// Refused is called for each call refused before it reaches the API, with the identity, the tool, the arguments and the
	// reason. It must return soon.
	Refused func(who, tool string, args json.RawMessage, why error)
	// ShareOf returns the identity that the requests of who count against, such as the registrar of an agent. If it returns "",
	// or is nil, they count against who itself.
	ShareOf func(who string) string
	// Complete returns completions; if it returns nil, the server uses its own.
	Complete func(*mcp.CompleteParams) []string
	// Reveal returns the result of a call as the identity who may see it. It may add data that the log does not contain.
	// With nil, results are as in the log.
	Reveal func(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage
	// Extend adds features to the SDK's server, such as those that the conformance suite tests.
	Extend func(*mcp.Server)
}

// Limits are durations. 0 selects the default.
type Limits struct {
	// SyncWait is how long a plain tools/call waits for its result before it returns a task. Default 20 s.
	SyncWait time.Duration
	// DefaultTTL and MaxTTL are the default and the longest time that MCP clients see a task after its submission (S2-068).
	// Default 24 h and 30 days.
	DefaultTTL, MaxTTL time.Duration
	// SessionTimeout is the time without requests after which an HTTP session ends. Default 1 h.
	SessionTimeout time.Duration
}

// Offer selects the tools that clients see, and their names.
type Offer struct {
	// Show selects the tools that clients see. The zero value shows all.
	Show Selection
	// Profile is the default profile: one of Profiles, or empty for ProfileAll. A client may request a different one.
	Profile string
	// PortableNames shows the names of tools with underscores instead of dots, for clients that do not accept dots.
	// Calls may use both names.
	PortableNames bool
}

// Consent sets what needs the consent of a person, and where the person is asked.
type Consent struct {
	// Writes sets when a write in the project needs consent: policy.WritesAsk, WritesSession or WritesAllow. For identities
	// that may not decide approvals it is always WritesAsk, the default.
	Writes string
	// OutsideApprovals requires that approvals are decided outside of the client: the server sends no elicitation for them.
	OutsideApprovals bool
	// ApprovalPage returns the URL of the web page for an approval; empty if nothing serves it. Clients with url-mode elicitation
	// are sent there for approvals that they may not decide themselves. Default: no page.
	ApprovalPage func(id string) string
}

// HTTP configures Handler.
type HTTP struct {
	// Tokens verifies bearer tokens; it is required for Handler.
	Tokens Tokens
	// Origins are additional web origins; their pages may use the server.
	Origins []string
	// ResourceMetadata is the URL of the metadata that describes how to get a token (RFC 9728).
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
	if c.Consent.ApprovalPage == nil {
		c.Consent.ApprovalPage = func(string) string { return "" }
	}
	if c.Local.Name == "" {
		c.Local = Identity{Name: "user:local", Role: Operator}
	}
	return c
}

// share returns the identity that the requests of who count against.
func (c *Config) share(who string) string { return cmp.Or(c.Hooks.ShareOf(who), who) }

// pollInterval is the interval at which clients should poll a task.
const pollInterval = time.Second

// pageSize is the number of items on a page of a list (S2-020).
const pageSize = 100
