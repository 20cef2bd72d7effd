// Package node is the wired program: an embedded or an external NATS server, the store, the owner of
// tasks, its endpoints and a worker, started and stopped in the right order. The command line and the
// tests use the same one.
package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/internal/uptime"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/worker"
)

// Config says what to run. DataDir and Root are required, as absolute paths.
type Config struct {
	DataDir, Root string
	// NATSURL is an external server or cluster; empty means the embedded one. CredsFile goes with it.
	NATSURL, CredsFile string
	// Replicas is on how many servers of a cluster the streams are; 0 means 1.
	Replicas int
	// Durability is fsync (default) or relaxed.
	Durability string
	// Guest is the command, such as "orch submit", of a node that gives the embedded server's directory up for a node that
	// stays; empty for one that stays itself. HandedOver is told when it has done so.
	Guest      string
	HandedOver func()
	// Concurrency is the number of calls that the node's own worker runs at the same time; 0 means
	// its default, -1 no worker.
	Concurrency int
	// OwnTools gives a node without a worker one for the tools that only the node can run.
	OwnTools bool
	// Queues are those that the worker serves; empty means "default".
	Queues []string
	// Paused starts with all dispatch held; ReadOnly refuses every call that changes something.
	Paused, ReadOnly bool
	// ReadNewer allows a node that only reads, on a store that a newer orch has written.
	ReadNewer bool
	// Policy is the path of the policy file; empty means none.
	Policy string
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// Lease is the life of a call without a heartbeat; 0 means the default of the orchestrator.
	Lease time.Duration
	// Overrun is for how long after its time limit the call of a lost worker may still run; 0 means the default of the
	// orchestrator.
	Overrun time.Duration
	// MaxDeliveries, MaxSpawned, MaxOpen and MaxOpenEach are limits of the orchestrator; 0 means its defaults.
	MaxDeliveries, MaxSpawned, MaxOpen, MaxOpenEach int
	// Host and Port are where the embedded server listens; default loopback and a free port.
	Host string
	Port int
	// MaxStore is the size in bytes from which on the embedded store refuses appends, 0 for none; MinFree
	// is the free space below which it does, 0 for the default of bus.
	MaxStore, MinFree int64
	// ArchiveAfter is when finished tasks move to the archive; 0 means the default.
	ArchiveAfter time.Duration
	// Sandbox confines child processes: enforce (default), best-effort or off. SandboxRead and
	// SandboxWrite are further absolute paths that they may read, or write when they may write anything.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are absolute folders in which programs are looked up before those of the system. None may lie where tasks write.
	ProgramPath []string
	// Tools are the settings of the families of tools.
	Tools config.Tools
	// NotifyOn is what the node notifies of by itself: failed, blocked, approval. NotifyTo are the channels for
	// that; none of either is nothing.
	NotifyOn, NotifyTo []string
	Logger             *slog.Logger
	Version            string
	// Agents are the agents that are commands, by type.
	Agents map[string]agent.Command
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
	// User is the user of the operating system who runs the node. The first start writes a token for that identity
	// into the data directory, see bus.LocalToken; empty makes none.
	User string
	// Operator is the identity, such as user:ada, whose calls see the workspaces of all tasks; empty for none. Whoever holds
	// the credential of the operator speaks as it; when it is empty, as the owner of the data directory.
	Operator string
	// Token is the secret of the token as whose identity Dial speaks; empty for the operator.
	Token string
	// Tokens knows the bearer tokens of HTTP. Default: those of the store.
	Tokens server.Tokens
	// Face changes the configuration of the MCP face, for the conformance suite and tests.
	Face func(*server.Config)
	// Servers are the MCP servers of others.
	Servers Servers
	// Realtime and Firestore are the databases of the firebase tools; nil means those beside the log.
	Realtime, Firestore firebase.Backend
	// Extra adds tools to the built-in ones, for benchmarks and tests.
	Extra []tools.Tool

	// Retention says how long archived tasks and their workspaces are kept; the zero value removes none.
	Retention Retention
	// Wall is the clock that the node is set by when it starts; default time.Now.
	Wall func() time.Time

	// broker takes the messages of calls.
	broker messages.Broker[messages.Call]
	// lease is that of the active node of a cluster; without one a node on an external server takes one. front is where a
	// member of a cluster listens for HTTP.
	lease bus.Lease
	front *front
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

// Node is a running node.
type Node struct {
	cfg      Config
	server   *bus.Server // nil with an external one
	store    *bus.Store
	orch     *orchestrator.Orchestrator
	executor *executor
	stats    *stats.Projector
	tokens   *bus.Tokens
	// agents knows the registered agents, agentDispatcher hands out work to them.
	agents          *agents.Registry
	agentDispatcher *agents.Dispatcher
	// known is tokens once they are read; messages are asked before that.
	known    atomic.Pointer[bus.Tokens]
	messages *bus.Messages
	// messageMethods answers requests about messages.
	messageMethods map[string]bus.Method
	// faceKey signs what MCP clients carry between two rounds.
	faceKey []byte
	// meter counts the requests of all faces.
	meter atomic.Pointer[server.Server]
	// origin is where HTTP is served, without a path; nil before, and when it is not.
	origin atomic.Pointer[string]
	// requests is the connection for what is asked and told, notices is nil when nothing is told.
	requests *bus.Conn
	notices  *noticeQueue
	// serverMethods answers requests about MCP servers, sessions those about sessions with subscriptions.
	serverMethods, sessions localMethods
	// hub keeps what sessions with subscriptions have not heard.
	hub       *firebase.Hub
	databases firebase.Config
	// changes are those of MCP servers that the journal has yet to note.
	changes chan registry.Change
	// refusals are refused calls that the journal has yet to note.
	refusals chan Refusal
	// calls is the owner that the worker of a node speaks to that may give way; nil for a node that stays.
	calls *callsOwner
	// elected is the lease that the node has taken itself; nil for one that has its own server or was given one.
	elected    *election.Lease
	handedOver atomic.Bool
	// clock is that of all deadlines of tasks.
	clock func() time.Time
	// endYielding ends the look for nodes that wait for the data directory; nil when nobody looks.
	endYielding func()
	// ends undo what Start did.
	ends  ends
	began time.Time
	once  sync.Once
	done  chan struct{}
	err   error
}

// Start brings a node up and returns when it takes tasks. Errors: CONFLICT when another node runs on
// the data directory, DATA_LOSS, DISK_FULL, UNAVAILABLE, VALIDATION_ERROR.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, began: time.Now().UTC().Truncate(time.Millisecond), done: make(chan struct{}), changes: make(chan registry.Change, maxChanges), refusals: make(chan Refusal, maxRefusals)}
	for _, step := range []func(context.Context) error{
		n.openBus, n.elect, n.openStore, n.openDatabases, n.openRequests, n.openMessages, n.openExecutor, n.openNotices, n.openStats, n.startOwner, n.publishInfo, n.startTokens, n.startAgents, n.serveAgentDispatcher, n.serveServers, n.serveMessages, n.serveDatabases, n.startRefusals, n.serveAlone, n.serve, n.takeOver, n.startWorker, n.startFace, n.startJournal, n.startChores, n.startTidying, n.endWaits, n.startRetention, n.startYielding,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
		}
	}
	return n, nil
}

func (n *Node) onStop(fn func(context.Context) error) { n.ends.add(untilHandover, fn) }

// openBus starts the NATS server, unless there is an external one: then the data directory has what is this node's alone.
func (n *Node) openBus(ctx context.Context) error {
	if n.cfg.NATSURL != "" {
		return bus.OpenDataDir(n.cfg.DataDir)
	}
	var err error
	n.server, err = bus.StartServer(ctx, bus.ServerConfig{
		DataDir: n.cfg.DataDir, Guest: n.cfg.Guest, Durability: bus.Durability(n.cfg.Durability), Logger: n.cfg.logger(),
		Host: n.cfg.Host, Port: n.cfg.Port, ReadNewer: n.cfg.ReadNewer, MaxStore: n.cfg.MaxStore, MinFree: n.cfg.MinFree,
	})
	if err == nil {
		n.onStop(n.server.Close)
	}
	return err
}

// connect opens one more connection; each kind of traffic has its own.
func (n *Node) connect(ctx context.Context, name string) (*bus.Conn, error) {
	var c *bus.Conn
	var err error
	if n.server != nil {
		c, err = n.server.Connect(ctx)
	} else {
		c, err = bus.Dial(ctx, bus.DialConfig{URL: n.cfg.NATSURL, CredsFile: n.cfg.CredsFile, Name: "orch " + name, Lease: n.cfg.lease, Logger: n.cfg.logger()})
	}
	if err == nil {
		n.onStop(func(context.Context) error { c.Close(); return nil })
	}
	return c, err
}

func (n *Node) openStore(ctx context.Context) error {
	c, err := n.connect(ctx, "store")
	if err != nil {
		return err
	}
	n.store, err = c.OpenStore(ctx, bus.StoreConfig{
		Durability: bus.Durability(n.cfg.Durability), Replicas: n.cfg.Replicas, Logger: n.cfg.logger(),
		ReadNewer: n.cfg.ReadNewer, Lease: n.cfg.lease,
	})
	if err == nil {
		n.onStop(n.store.Close)
	}
	return err
}

func (n *Node) openRequests(ctx context.Context) error {
	var err error
	n.requests, err = n.connect(ctx, "requests")
	return err
}

func (n *Node) openExecutor(ctx context.Context) error {
	var err error
	if n.executor, err = openExecutor(ctx, n.cfg, n.databases, n.requests, n.tellChange, n.isOver); err == nil {
		n.ends.add(untilStop, func(context.Context) error { return n.executor.close() })
	}
	return err
}

// startOwner runs the orchestrator and waits until it has read the log.
func (n *Node) startOwner(ctx context.Context) error {
	var err error
	n.clock = uptime.Steady(n.cfg.wall(), uptime.Now)
	if n.orch, err = orchestrator.New(n.ownerConfig()); err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- n.orch.Run(run) }()
	n.onStop(func(context.Context) error { stop(); return <-ended })
	select {
	case <-n.orch.Ready():
		return nil
	case err := <-ended:
		ended <- nil
		return err
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (n *Node) ownerConfig() orchestrator.Config {
	return orchestrator.Config{
		Log: n.store, Blobs: n.store, Checkpoints: n.store, Indexes: n.store, Catalogue: n.executor.catalogue,
		Logger: n.cfg.logger(), Lease: n.cfg.Lease, Overrun: n.cfg.Overrun, ArchiveAfter: n.cfg.ArchiveAfter, Retention: n.taskRetention(), Paused: n.cfg.Paused,
		MaxDeliveries: n.cfg.MaxDeliveries, MaxSpawned: n.cfg.MaxSpawned, MaxOpen: n.cfg.MaxOpen, MaxOpenEach: n.cfg.MaxOpenEach,
		Redact: n.executor.policy.Redact, FindSecret: n.executor.findSecret,
		Workspace: n.executor.tree.Path, Root: n.executor.root.Name(), Program: n.executor.program,
		Over: func(id events.TaskID) { n.executor.later(id, func() error { return n.executor.tree.RemoveTemp(id) }) },
		Archived: func(id events.TaskID, ok bool) {
			n.executor.later(id, func() error { return n.executor.tree.Archive(id, ok) })
		},
		Committed: n.stats.Committed, Clock: n.clock, Secrets: n.cfg.Tools.SecretsAllow,
		Gone: n.gone(), Describe: n.describe, Limited: n.executor.limited, ShareOf: n.shareOf, HandOn: n.executor.mayHandOn, Agents: n.roster, FourEyes: n.cfg.FourEyes, Notify: n.notify,
	}
}

// gone names the worker of the node that has run on the data directory before: it has ended with its process.
func (n *Node) gone() []string {
	if n.server == nil {
		return nil
	}
	if name := n.server.LastWorker(); name != "" {
		return []string{name}
	}
	return nil
}

// describe adds to the status what only the node knows.
func (n *Node) describe(r *api.StatusReply) {
	r.Version, r.Root = n.cfg.Version, n.executor.root.Name()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	s, err := n.store.Status(ctx)
	switch {
	case err != nil:
		r.Refuse(fault.From(err), time.Time{})
	case s.Refusing != nil:
		r.Refuse(s.Refusing, s.Since)
	}
	r.Durability, r.Syncing = string(s.Durability), string(s.Syncing)
}

// takeOver ends the requests to a node before this one, which has died without its server or stands still, and from then on
// those that were lost with a connection of this one. Who asks again finds this one, so it serves by now.
func (n *Node) takeOver(ctx context.Context) error {
	if n.server != nil {
		return nil
	}
	n.requests.TellReturns()
	return n.requests.TakeOver(ctx)
}

// serve answers faces and workers elsewhere. Clients take the node for ready from then on, so that what else they may ask
// for is there before.
func (n *Node) serve(context.Context) error {
	audited := auditedAPI{n.orch, n.refused}
	commands, err := bus.ServeAPI(n.requests, audited, n.store, n.forOperator())
	if err != nil {
		return err
	}
	n.onStop(closeSoon(commands))
	people, err := bus.ServeIdentities(n.requests, audited, n.tokens, bus.EndpointConfig{Logger: n.cfg.logger()})
	if err != nil {
		return err
	}
	n.onStop(closeSoon(people))
	owner, err := bus.ServeOwner(n.requests, n.orch, bus.EndpointConfig{Logger: n.cfg.logger()})
	if err != nil {
		return err
	}
	n.onStop(closeSoon(owner))
	return nil
}

// forOperator configures what takes the credential of the operator.
func (n *Node) forOperator() bus.EndpointConfig {
	return bus.EndpointConfig{Logger: n.cfg.logger(), Identity: n.Operator()}
}

// Operator returns the identity that the credential of the operator speaks as.
func (n *Node) Operator() string {
	return cmp.Or(n.cfg.Operator, bus.OwnerOf(n.cfg.DataDir))
}

// closeSoon closes an endpoint without waiting for parked polls to run out.
func closeSoon(e *bus.Endpoint) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		return e.Close(ctx)
	}
}

// startChores begins what a node does now and then.
func (n *Node) startChores(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	var chores sync.WaitGroup
	chores.Go(func() { keepSmall(run) })
	chores.Go(func() { n.watchClock(run) })
	n.onStop(func(context.Context) error { stop(); chores.Wait(); return nil })
	return nil
}

// API returns the node's commands, without a network in between.
func (n *Node) API() api.API { return n.orch }

// Owner returns the node's side of the protocol of workers.
func (n *Node) Owner() *orchestrator.Orchestrator { return n.orch }

// Store returns the node's store.
func (n *Node) Store() *bus.Store { return n.store }

// Address returns the URL at which CLI and workers find the node, as it may be shown.
func (n *Node) Address() string {
	if n.server == nil {
		return secrets.URL(n.cfg.NATSURL)
	}
	return n.server.Addr()
}

// Wait returns when the node has stopped.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// Stop ends the node: the worker drains, requests end, the store is closed. ctx limits the wait for
// running calls only as far as the worker's own drain time does. It is idempotent.
func (n *Node) Stop(ctx context.Context) error {
	n.once.Do(func() {
		if n.endYielding != nil {
			n.endYielding()
		}
		n.err = n.ends.runFor(ctx, untilStop)
		close(n.done)
	})
	return n.err
}

// RunWorker runs a worker of a node elsewhere until ctx ends and it has drained. It connects with the
// credential of workers, which permits nothing but their protocol.
func RunWorker(ctx context.Context, cfg Config) error {
	run, err := openWorker(ctx, cfg)
	if err != nil {
		return err
	}
	return run(ctx)
}

// openWorker makes a worker ready, which run runs, once.
func openWorker(ctx context.Context, cfg Config) (run func(context.Context) error, err error) {
	c, err := dial(ctx, cfg, bus.WorkerUser)
	if err != nil {
		return nil, err
	}
	cfg.broker = bus.RetryingBroker(bus.NewMessageClient[messages.Call](bus.NewRemote(c), bus.WorkMessagesPrefix))
	h, err := openExecutor(ctx, cfg, remoteDatabases(c), c, nil, nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	w, err := h.worker(bus.NewRemote(c), worker.Config{Queues: cfg.Queues})
	if err != nil {
		err = errors.Join(err, h.close())
		c.Close()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer c.Close()
		return errors.Join(w.Run(ctx), h.close())
	}, nil
}

// Dial connects to a running node: at a URL, or the one of the data directory. UNAVAILABLE when there
// is none.
func Dial(ctx context.Context, cfg Config) (*bus.Remote, error) {
	c, err := dial(ctx, cfg, bus.OperatorUser)
	if err != nil {
		return nil, err
	}
	remote := bus.NewRemote(c)
	ctx, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	if err := remote.Ready(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return remote, nil
}

// readyWithin is how long a client waits for a node that is still reading its log.
const readyWithin = 10 * time.Second

func dial(ctx context.Context, cfg Config, user string) (*bus.Conn, error) {
	d := bus.DialConfig{URL: cfg.NATSURL, CredsFile: cfg.CredsFile, Worker: user == bus.WorkerUser, Name: "orch " + user, Token: cfg.Token, Logger: cfg.logger()}
	if cfg.NATSURL == "" {
		d.DataDir, d.User = cfg.DataDir, user
	}
	return bus.Dial(ctx, d)
}
