package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/firebase"
)

// Config configures a Node. DataDir and Root are required, as absolute paths.
type Config struct {
	DataDir, Root string
	Storage       Storage
	Limits        Limits
	Confinement   Confinement
	Faces         Faces
	Worker        Worker
	// Guest is the command, such as "orch submit", that runs a temporary node. A temporary node hands its data directory over to
	// a permanent node that waits for it, and then calls HandedOver. Guest is empty for a permanent node.
	Guest      string
	HandedOver func()
	// Paused starts the node with all dispatch paused.
	Paused bool
	// Tools are the settings of the families of tools.
	Tools config.Tools
	// NotifyOn lists the kinds of notices that the node sends automatically: failed, blocked, approval. NotifyTo lists the
	// channels that it sends them to. If either is empty, the node sends none.
	NotifyOn, NotifyTo []string
	Logger             *slog.Logger
	Version            string
	// Agents maps the type of an agent to the command that runs it.
	Agents map[string]agent.Command
	// Models are the language models that agent steps can ask.
	Models config.Models
	// CallLimits bound how many calls start in a time or run at the same time.
	CallLimits []config.CallLimit
	// Traces says where the spans of tasks go.
	Traces config.Traces
	// User is the operating system user who runs the node. The first start writes a token for the user into the data directory,
	// see bus.LocalToken. If User is empty, it writes none.
	User string
	// Operator is the identity, such as user:ada, that holders of the operator's credential act as. Calls of that identity see
	// the workspaces of all tasks. If Operator is empty, no identity sees all workspaces, and holders of the operator's
	// credential act as the owner of the data directory.
	Operator string
	// Token is the secret of the token that Dial uses. If it is empty, Dial uses the operator's credential.
	Token string
	// Realtime and Firestore are the databases of the firebase tools; nil means the embedded ones.
	Realtime, Firestore firebase.Backend
	// Extra adds tools to the built-in ones, for benchmarks and tests.
	Extra []tools.Tool
	// Wall is the clock from which the node sets its own clock at the start; default time.Now.
	Wall func() time.Time

	// broker sends and receives messages for calls.
	broker messages.Broker[messages.Call]
	// lease is the lease of the active node of a cluster. If it is nil and the NATS server is external, the node acquires a
	// lease. front is the HTTP listener of a member of a cluster.
	lease bus.Lease
	// members lists the nodes of the cluster; nil without one.
	members func(ctx context.Context) ([]election.View, error)
	front   *front
}

// Storage configures where and how the log is stored.
type Storage struct {
	// NATSURL is the URL of an external NATS server or cluster; empty means the embedded server. CredsFile is the file with the
	// credential for the external server.
	NATSURL, CredsFile string
	// Replicas is the number of NATS servers that store each stream; 0 means 1.
	Replicas int
	// Durability is fsync (default) or relaxed.
	Durability string
	// Host and Port are the address of the embedded server; default loopback and a free port.
	Host string
	Port int
	// MaxStore is the size in bytes at which the embedded store refuses appends; 0 means no limit. MinFree is the free disk
	// space in bytes below which it refuses them; 0 means the default of package bus.
	MaxStore, MinFree int64
	// ReadNewer lets the node open, for reading only, a store that a newer version of orch has written.
	ReadNewer bool
}

// Limits bound what the orchestrator holds in memory and how long it waits; 0 means the default.
type Limits struct {
	// Lease is the time without a heartbeat after which a call is lost.
	Lease time.Duration
	// Overrun is the time that the call of a lost worker may continue to run after its time limit.
	Overrun time.Duration
	// MaxDeliveries, MaxSpawned, MaxOpen and MaxOpenEach are described at orchestrator.Limits.
	MaxDeliveries, MaxSpawned, MaxOpen, MaxOpenEach int
	// ArchiveAfter is the time between the end of a task and its move to the archive.
	ArchiveAfter time.Duration
	// Retention determines when archived tasks and their workspaces are removed; the zero value retains them forever.
	Retention Retention
}

// Confinement configures what calls may do.
type Confinement struct {
	// Policy is the path of the policy file; empty means none.
	Policy string
	// FourEyes forbids people to decide about approvals of their own tasks.
	FourEyes bool
	// ReadOnly refuses every call that changes something.
	ReadOnly bool
	// Sandbox confines child processes: enforce (default), best-effort or off. SandboxRead and SandboxWrite are additional
	// absolute paths that child processes may read, or write if their call may write.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are absolute paths of folders that are searched for programs before those of the system. Tasks must not be
	// able to write to them.
	ProgramPath []string
}

// Faces configures the interfaces for clients ("faces": MCP and HTTP), and the external MCP servers that the node offers.
type Faces struct {
	// HTTP is the address of the HTTP server, which serves MCP and /rpc; empty for none. HTTPOptional lets the node start
	// without it if the address is in use.
	HTTP         string
	HTTPOptional bool
	// HTTPLimits are the time limits for HTTP clients to send and to read.
	HTTPLimits httplimit.Limits
	// PublicURL is the address at which people reach the HTTP server, such as https://orch.example.com; empty for its own.
	PublicURL string
	// SyncWait is how long an MCP tool call waits for its result. After that it is answered with a task. 0 means the default.
	SyncWait time.Duration
	// RPCWait is how long a request of /rpc waits for the end of its call; 0 means the default.
	RPCWait time.Duration
	// PortableNames shows tool names without dots to MCP clients.
	PortableNames bool
	// Writes is the rule for writes of MCP client sessions in the root: ask (default), session or allow.
	Writes string
	// OutsideApprovals forbids MCP clients to ask their users for approvals.
	OutsideApprovals bool
	// Tokens verifies the bearer tokens of HTTP requests. Default: the tokens in the store.
	Tokens server.Tokens
	// Servers are the external MCP servers.
	Servers Servers
	// Face modifies the configuration of the MCP server, for the conformance suite and tests.
	Face func(*server.Config)
}

// limits returns the limits of the HTTP server, which refuses with errors of the HTTP API.
func (f Faces) limits() httplimit.Limits {
	l := f.HTTPLimits
	if l.Refuse == nil {
		l.Refuse = rest.Refuse
	}
	return l
}

// Worker configures the node's own worker.
type Worker struct {
	// Concurrency is the number of calls that the worker runs at the same time; 0 means its default, -1 no worker.
	Concurrency int
	// OwnTools gives a node without a worker a small one that runs only the tools that must run in the node's process.
	OwnTools bool
	// Queues are the queues that the worker serves; empty means "default".
	Queues []string
	// Metrics is the address at loopback at which a worker in a process of its own serves its metrics; empty for none.
	Metrics string
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
