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

// Config says what to run. DataDir and Root are required, as absolute paths.
type Config struct {
	DataDir, Root string
	Storage       Storage
	Limits        Limits
	Confinement   Confinement
	Faces         Faces
	Worker        Worker
	// Guest is the command, such as "orch submit", of a node that gives the embedded server's directory up for a node that
	// stays; empty for one that stays itself. HandedOver is told when it has done so.
	Guest      string
	HandedOver func()
	// Paused starts with all dispatch held.
	Paused bool
	// Tools are the settings of the families of tools.
	Tools config.Tools
	// NotifyOn is what the node notifies of by itself: failed, blocked, approval. NotifyTo are the channels for
	// that; none of either is nothing.
	NotifyOn, NotifyTo []string
	Logger             *slog.Logger
	Version            string
	// Agents are the agents that are commands, by type.
	Agents map[string]agent.Command
	// User is the user of the operating system who runs the node. The first start writes a token for that identity
	// into the data directory, see bus.LocalToken; empty makes none.
	User string
	// Operator is the identity, such as user:ada, whose calls see the workspaces of all tasks; empty for none. Whoever holds
	// the credential of the operator speaks as it; when it is empty, as the owner of the data directory.
	Operator string
	// Token is the secret of the token as whose identity Dial speaks; empty for the operator.
	Token string
	// Realtime and Firestore are the databases of the firebase tools; nil means those beside the log.
	Realtime, Firestore firebase.Backend
	// Extra adds tools to the built-in ones, for benchmarks and tests.
	Extra []tools.Tool
	// Wall is the clock that the node is set by when it starts; default time.Now.
	Wall func() time.Time

	// broker takes the messages of calls.
	broker messages.Broker[messages.Call]
	// lease is that of the active node of a cluster; without one a node on an external server takes one. front is where a
	// member of a cluster listens for HTTP.
	lease bus.Lease
	front *front
}

// Storage says where the log is, and how it is kept.
type Storage struct {
	// NATSURL is an external server or cluster; empty means the embedded one. CredsFile goes with it.
	NATSURL, CredsFile string
	// Replicas is on how many servers of a cluster the streams are; 0 means 1.
	Replicas int
	// Durability is fsync (default) or relaxed.
	Durability string
	// Host and Port are where the embedded server listens; default loopback and a free port.
	Host string
	Port int
	// MaxStore is the size in bytes from which on the embedded store refuses appends, 0 for none; MinFree
	// is the free space below which it does, 0 for the default of bus.
	MaxStore, MinFree int64
	// ReadNewer allows a node that only reads, on a store that a newer orch has written.
	ReadNewer bool
}

// Limits bound what the owner of tasks holds and how long it waits; 0 is the default of each.
type Limits struct {
	// Lease is the life of a call without a heartbeat; 0 means the default of the orchestrator.
	Lease time.Duration
	// Overrun is for how long after its time limit the call of a lost worker may still run; 0 means the default of the
	// orchestrator.
	Overrun time.Duration
	// MaxDeliveries, MaxSpawned, MaxOpen and MaxOpenEach are limits of the orchestrator; 0 means its defaults.
	MaxDeliveries, MaxSpawned, MaxOpen, MaxOpenEach int
	// ArchiveAfter is when finished tasks move to the archive; 0 means the default.
	ArchiveAfter time.Duration
	// Retention says how long archived tasks and their workspaces are kept; the zero value removes none.
	Retention Retention
}

// Confinement says what calls may do.
type Confinement struct {
	// Policy is the path of the policy file; empty means none.
	Policy string
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// ReadOnly refuses every call that changes something.
	ReadOnly bool
	// Sandbox confines child processes: enforce (default), best-effort or off. SandboxRead and
	// SandboxWrite are further absolute paths that they may read, or write when they may write anything.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are absolute folders in which programs are looked up before those of the system. None may lie where tasks write.
	ProgramPath []string
}

// Faces says how clients reach the node, and which MCP servers of others it offers.
type Faces struct {
	// HTTP is the address at which the MCP face listens; empty means nowhere. HTTPOptional lets the node start
	// without when something else listens there.
	HTTP         string
	HTTPOptional bool
	// HTTPLimits are the times that clients of HTTP have to send and to read.
	HTTPLimits httplimit.Limits
	// SyncWait is how long a plain call of a tool waits before it is handed back as a task; 0 means the default.
	SyncWait time.Duration
	// RPCWait is how long a request of /rpc waits for the end of its call; 0 means the default.
	RPCWait time.Duration
	// PortableNames shows MCP clients names of tools without dots.
	PortableNames bool
	// Writes says how sessions of MCP clients write in the root: ask, session or allow. Empty is ask.
	Writes string
	// OutsideApprovals keeps MCP clients from asking their users for approvals.
	OutsideApprovals bool
	// Tokens knows the bearer tokens of HTTP. Default: those of the store.
	Tokens server.Tokens
	// Servers are the MCP servers of others.
	Servers Servers
	// Face changes the configuration of the MCP face, for the conformance suite and tests.
	Face func(*server.Config)
}

// Worker is the node's own.
type Worker struct {
	// Concurrency is the number of calls that the node's own worker runs at the same time; 0 means
	// its default, -1 no worker.
	Concurrency int
	// OwnTools gives a node without a worker one for the tools that only the node can run.
	OwnTools bool
	// Queues are those that the worker serves; empty means "default".
	Queues []string
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}
