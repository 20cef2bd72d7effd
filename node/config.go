package node

import (
	"log/slog"
	"time"

	"github.com/orch-dev/orch/bus"
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
	// Guest is the command, such as "orch submit", of a node that hands the embedded server's directory over to a permanent
	// node; empty for a permanent node. HandedOver is called when it has done so.
	Guest      string
	HandedOver func()
	// Paused starts the node with all dispatch paused.
	Paused bool
	// Tools are the settings of the families of tools.
	Tools config.Tools
	// NotifyOn lists the kinds of notices that the node sends by itself: failed, blocked, approval. NotifyTo lists the channels
	// for them. If either is empty, it sends none.
	NotifyOn, NotifyTo []string
	Logger             *slog.Logger
	Version            string
	// Agents are the agents that are run as commands, by type.
	Agents map[string]agent.Command
	// User is the operating system user who runs the node. The first start writes a token for that identity into the data
	// directory, see bus.LocalToken; empty for none.
	User string
	// Operator is the identity, such as user:ada, whose calls see the workspaces of all tasks. Holders of the operator's
	// credential act as it. If it is empty, nobody sees all workspaces, and they act as the owner of the data directory.
	Operator string
	// Token is the secret of the token that Dial uses; empty for the operator.
	Token string
	// Realtime and Firestore are the databases of the firebase tools; nil means the embedded ones.
	Realtime, Firestore firebase.Backend
	// Extra adds tools to the built-in ones, for benchmarks and tests.
	Extra []tools.Tool
	// Wall is the clock from which the node sets its own clock at the start; default time.Now.
	Wall func() time.Time

	// broker receives the messages of calls.
	broker messages.Broker[messages.Call]
	// lease is the lease of the active node of a cluster. A node on an external server without one acquires its own. front is
	// the HTTP listener of a member of a cluster.
	lease bus.Lease
	front *front
}

// Storage configures where and how the log is stored.
type Storage struct {
	// NATSURL is an external server or cluster; empty means the embedded one. CredsFile is its credential.
	NATSURL, CredsFile string
	// Replicas is the number of servers in a cluster that store the streams; 0 means 1.
	Replicas int
	// Durability is fsync (default) or relaxed.
	Durability string
	// Host and Port are the address of the embedded server; default loopback and a free port.
	Host string
	Port int
	// MaxStore is the size in bytes at which the embedded store refuses appends, 0 for none. MinFree is the free disk space
	// below which it does, 0 for the default of bus.
	MaxStore, MinFree int64
	// ReadNewer allows a read-only node on a store that a newer orch has written.
	ReadNewer bool
}

// Limits bound what the orchestrator holds in memory and how long it waits; 0 means the default.
type Limits struct {
	// Lease is the time without a heartbeat after which a call is lost; 0 means the default of the orchestrator.
	Lease time.Duration
	// Overrun is how long after its time limit the call of a lost worker may still run; 0 means the default of the
	// orchestrator.
	Overrun time.Duration
	// MaxDeliveries, MaxSpawned, MaxOpen and MaxOpenEach are limits of the orchestrator; 0 means its defaults.
	MaxDeliveries, MaxSpawned, MaxOpen, MaxOpenEach int
	// ArchiveAfter is how long after their end tasks move to the archive; 0 means the default.
	ArchiveAfter time.Duration
	// Retention is how long archived tasks and their workspaces are retained; the zero value removes none.
	Retention Retention
}

// Confinement configures what calls may do.
type Confinement struct {
	// Policy is the path of the policy file; empty means none.
	Policy string
	// FourEyes keeps people from deciding about approvals of their own tasks.
	FourEyes bool
	// ReadOnly refuses every call that changes something.
	ReadOnly bool
	// Sandbox confines child processes: enforce (default), best-effort or off. SandboxRead and SandboxWrite are further
	// absolute paths that they may read, or may write if they may write at all.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are absolute folders that are searched for programs before those of the system. None may be where tasks can
	// write.
	ProgramPath []string
}

// Faces configures how clients reach the node, and which external MCP servers it offers.
type Faces struct {
	// HTTP is the address at which the MCP face listens; empty for none. HTTPOptional lets the node start without HTTP if the
	// address is in use.
	HTTP         string
	HTTPOptional bool
	// HTTPLimits are the time limits for HTTP clients to send and to read.
	HTTPLimits httplimit.Limits
	// SyncWait is how long a plain call of a tool waits before it is answered with a task; 0 means the default.
	SyncWait time.Duration
	// RPCWait is how long a request of /rpc waits for the end of its call; 0 means the default.
	RPCWait time.Duration
	// PortableNames shows tool names without dots to MCP clients.
	PortableNames bool
	// Writes is the rule for writes of MCP client sessions in the root: ask, session or allow. Empty is ask.
	Writes string
	// OutsideApprovals keeps MCP clients from asking their users for approvals.
	OutsideApprovals bool
	// Tokens verifies the bearer tokens of HTTP. Default: those of the store.
	Tokens server.Tokens
	// Servers are the external MCP servers.
	Servers Servers
	// Face modifies the configuration of the MCP face, for the conformance suite and tests.
	Face func(*server.Config)
}

// Worker configures the node's own worker.
type Worker struct {
	// Concurrency is the number of calls that the node's own worker runs at the same time; 0 means its default, -1 no worker.
	Concurrency int
	// OwnTools gives a node without a worker one for tools that only the node can run.
	OwnTools bool
	// Queues are the queues that the worker serves; empty means "default".
	Queues []string
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
