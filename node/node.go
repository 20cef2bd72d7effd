// Package node assembles the program: an embedded or an external NATS server, the store, the orchestrator, its endpoints and a
// worker. It starts and stops them in the right order. The command line and the tests use it.
//
// A face is an interface for clients, such as MCP or HTTP. The owner is the orchestrator as workers see it (work.Owner). A
// member is a node that shares an external NATS server with other nodes; only one of them is active at a time.
package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/internal/uptime"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/worker"
)

// Node is a running node. Its parts are embedded, and all share host.
type Node struct {
	*host
	*credentials
	*mailroom
	*agentDesk
	*databaseHost
	*journal
	*chores
	*face

	// serverMethods serves requests about MCP servers.
	serverMethods localMethods
	// calls is the owner for the worker of a node that may hand over; nil for a node that never does.
	calls      *callsOwner
	handedOver atomic.Bool
	// endYielding ends the wait for a handover; nil for a node that never hands over.
	endYielding func()
	began       time.Time
	once        sync.Once
	done        chan struct{}
	err         error
}

func newNode(cfg Config) *Node {
	h := &host{cfg: cfg}
	cr := &credentials{host: h}
	ml := &mailroom{host: h, credentials: cr}
	n := &Node{
		host: h, credentials: cr, mailroom: ml,
		agentDesk:    &agentDesk{host: h, credentials: cr, mailroom: ml},
		databaseHost: &databaseHost{host: h, credentials: cr},
		journal:      &journal{host: h, changes: make(chan registry.Change, maxChanges)},
		chores:       &chores{host: h},
		began:        time.Now().UTC().Truncate(time.Millisecond), done: make(chan struct{}),
	}
	n.face = &face{host: h, credentials: cr, mailroom: ml, agentDesk: n.agentDesk, databaseHost: n.databaseHost, journal: n.journal, asker: n, logins: rest.NewLogins(nil), started: make(chan struct{})}
	return n
}

// Start starts a node and returns when it accepts tasks. Errors: CONFLICT if another node uses the data directory, DATA_LOSS,
// DISK_FULL, UNAVAILABLE, VALIDATION_ERROR.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := newNode(cfg)
	began := time.Now()
	var slow []any
	for _, step := range startSteps() {
		stepBegan := time.Now()
		if err := step.run(n, ctx); err != nil {
			return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
		}
		if took := time.Since(stepBegan); took >= slowStep {
			slow = append(slow, slog.Duration(step.name, took))
		}
	}
	n.cfg.logger().LogAttrs(ctx, slog.LevelInfo, "node_started", slog.Duration("took", time.Since(began)), slog.Group("steps", slow...))
	return n, nil
}

// slowStep is the duration from which a step of the start is logged.
const slowStep = 10 * time.Millisecond

func (n *Node) openExecutor(ctx context.Context) error {
	var err error
	if n.executor, err = openExecutor(ctx, n.cfg, n.databases, n.requests, n.queueChange, n.isOver); err == nil {
		n.cleanups.add(untilStop, func(context.Context) error { return n.executor.close() })
	}
	return err
}

// setClock sets the clock of the node.
func (n *Node) setClock(context.Context) error {
	n.clock = uptime.Steady(n.cfg.wall(), uptime.Now)
	return nil
}

// startOwner runs the orchestrator and waits until it has read the log.
func (n *Node) startOwner(ctx context.Context) error {
	var err error
	n.warnOfLimits()
	cfg := n.ownerConfig()
	if cfg.Hooks.Preserve, err = n.preserve(); err != nil {
		return err
	}
	if n.orch, err = orchestrator.New(cfg); err != nil {
		return err
	}
	n.scheduler, n.receiver = n.newScheduler(), n.newReceiver()
	if n.sender, err = n.newSender(); err != nil {
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

// openLists opens the index of lists. With an external server, other nodes may have written to the log since this one has saved an index, so it
// is in memory alone, and is read from the log again after each start. Without a log to write to, it contains open tasks alone.
func (n *Node) openLists(context.Context) error {
	path, log := n.store.ListsFile()
	if n.server != nil && path == "" {
		n.lists = index.NewOpen()
	} else {
		x := index.New(path, log)
		n.lists = x
		n.onStop(func(context.Context) error { x.Close(); return nil })
	}
	n.feedFromLists()
	return nil
}

func (n *Node) ownerConfig() orchestrator.Config {
	return orchestrator.Config{
		Log: n.store, Blobs: n.store, Checkpoints: n.store, Indexes: n.store, Lists: n.lists, Catalogue: n.executor.catalogue, Models: prices{n.executor.models}, Costs: n.stats, Budgets: n.cfg.budgets(), CallLimits: n.cfg.callLimits(),
		Logger: n.cfg.logger(), Clock: n.clock, Paused: n.cfg.Paused, Gone: n.endedWorkers(),
		Redact: n.executor.policy.Redact, FindSecret: n.executor.findSecret, Secrets: n.cfg.Tools.SecretsAllow, FourEyes: n.cfg.Confinement.FourEyes,
		Workspace: n.executor.workspace, Root: n.executor.root.Name(), Local: n.cfg.local(), Program: n.executor.program,
		Exports: n.exports(), Holds: n.holds,
		Limits: orchestrator.Limits{
			Lease: n.cfg.Limits.Lease, Overrun: n.cfg.Limits.Overrun, MaxDeliveries: n.cfg.Limits.MaxDeliveries, MaxSpawned: n.cfg.Limits.MaxSpawned,
			MaxOpen: n.cfg.Limits.MaxOpen, MaxOpenEach: n.cfg.Limits.MaxOpenEach, ArchiveAfter: n.cfg.Limits.ArchiveAfter, Retention: n.taskRetention(),
		},
		Hooks: n.ownerHooks(),
	}
}

func (n *Node) ownerHooks() orchestrator.Hooks {
	return orchestrator.Hooks{
		Over: func(id events.TaskID) {
			n.scheduler.TaskEnded(id)
			n.executor.inBackground(id, func() error { return n.executor.tree.RemoveTemp(id) })
		},
		Archived: func(id events.TaskID, ok bool) {
			n.executor.inBackground(id, func() error { return n.executor.tree.Archive(id, ok) })
		},
		Committed: n.stats.Committed, Describe: n.describe, Notify: n.notify, Limited: n.executor.limited, Removing: n.removing,
		ShareOf: n.shareOf, HandOn: n.executor.mayHandOn, Agents: n.roster,
	}
}

// endedWorkers returns the names of the workers of the previous node on the data directory. They have ended with its process. It
// returns nil if none are recorded.
func (n *Node) endedWorkers() []string {
	if n.server == nil {
		return nil
	}
	if name := n.server.LastWorker(); name != "" {
		return []string{name, modelWorker(name)}
	}
	return nil
}

// describe adds the fields to the status that the orchestrator does not know: version, root, the state of the store, and
// providers of models that fail.
func (n *Node) describe(r *api.StatusReply) {
	r.Version, r.Root = n.cfg.Version, n.executor.root.Name()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	s, err := n.store.Health(ctx)
	switch {
	case err != nil:
		r.SetRefusal(fault.From(err), time.Time{})
	case s.Refusing != nil:
		r.SetRefusal(s.Refusing, s.Since)
	}
	r.Durability, r.Syncing = string(s.Durability), string(s.Syncing)
	r.Providers = failing(n.executor.models.Breakers())
	r.Traces = n.tracesStatus()
}

// takeOver ends requests that a previous node on an external server will not answer, because it died or is stalled. It also
// ends, from then on, requests that are lost when a connection of this node breaks. Clients repeat ended requests, so this node
// must serve already.
func (n *Node) takeOver(ctx context.Context) error {
	if n.server != nil {
		return nil
	}
	n.requests.AnnounceReturns()
	return n.requests.AnnounceTakeover(ctx)
}

// serve starts the endpoints for clients and remote workers. From then on clients consider the node ready, so everything else
// that they may request must be available before.
func (n *Node) serve(context.Context) error {
	audited := n.audited(audit.FaceBus)
	commands, err := rpc.ServeAPI(n.requests, audited, auditedStore{n.store, n.host}, n.forCommands(n.Operator()))
	if err != nil {
		return err
	}
	n.onStop(closeSoon(commands))
	people, err := rpc.ServeIdentities(n.requests, audited, n.tokens, n.forCommands(""))
	if err != nil {
		return err
	}
	n.onStop(closeSoon(people))
	owner, err := rpc.ServeOwner(n.requests, n.orch, rpc.EndpointConfig{Logger: n.cfg.logger()})
	if err != nil {
		return err
	}
	n.onStop(closeSoon(owner))
	return nil
}

// startChores starts the periodic jobs of a node.
func (ch *chores) startChores(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	var chores sync.WaitGroup
	chores.Go(func() { limitMemory(run, nodeHeadroom, ch.orch.Shed) })
	chores.Go(func() { ch.watchClock(run) })
	ch.onStop(func(context.Context) error { stop(); chores.Wait(); return nil })
	return nil
}

// API returns the commands of the node. Calls do not use the network. Acts are recorded in the audit stream.
func (n *Node) API() api.API { return n.audited(audit.FaceProcess) }

// Store returns the node's store.
func (n *Node) Store() *bus.Store { return n.store }

// Wait blocks until the node has stopped, and returns the error of Stop.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// Stop stops the node: the worker drains, requests end, the store is closed. Running calls may finish until ctx ends or the
// worker's drain time is over, whichever is first. Stop is idempotent.
func (n *Node) Stop(ctx context.Context) error {
	n.once.Do(func() {
		if n.endYielding != nil {
			n.endYielding()
		}
		n.err = n.cleanups.runFor(ctx, untilStop)
		close(n.done)
	})
	return n.err
}

// RunWorker runs a worker for a remote node until ctx ends, and returns when the worker has drained. It connects with the
// credential of workers, which permits only their protocol.
func RunWorker(ctx context.Context, cfg Config) error {
	face, err := openWorkerFace(ctx, cfg)
	if err != nil {
		return err
	}
	defer face.close()
	run, err := openWorker(ctx, cfg, face)
	if err != nil {
		return err
	}
	limited, stop := context.WithCancel(context.WithoutCancel(ctx))
	var chores sync.WaitGroup
	chores.Go(func() { limitMemory(limited, workerHeadroom, func() {}) })
	defer chores.Wait()
	defer stop()
	return run(ctx)
}

// openWorker prepares a worker, whose metrics face serves. run runs the worker until ctx ends; it must be called once.
func openWorker(ctx context.Context, cfg Config, face *workerFace) (run func(context.Context) error, err error) {
	c, err := dial(ctx, cfg, bus.WorkerUser)
	if err != nil {
		return nil, err
	}
	cfg.broker = rpc.RetryingBroker(rpc.NewMessageClient[messages.Call](rpc.NewRemote(c), bus.WorkMessagesPrefix))
	h, err := openExecutor(ctx, cfg, remoteDatabases(c), c, nil, nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	w, err := h.worker(rpc.NewRemote(c), worker.Config{Queues: cfg.Worker.Queues})
	if err != nil {
		err = errors.Join(err, h.close())
		c.Close()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer c.Close()
		face.serve(w, c)
		return errors.Join(w.Run(ctx), h.close())
	}, nil
}

// Dial connects to a running node: the one at cfg.Storage.NATSURL, or else the one that holds the data directory. It returns
// UNAVAILABLE if no node answers.
func Dial(ctx context.Context, cfg Config) (*rpc.Remote, error) {
	c, err := dial(ctx, cfg, bus.OperatorUser)
	if err != nil {
		return nil, err
	}
	remote := rpc.NewRemote(c)
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
	d := bus.DialConfig{URL: cfg.Storage.NATSURL, CredsFile: cfg.Storage.CredsFile, Worker: user == bus.WorkerUser, Name: "orch " + user, Token: cfg.Token, Logger: cfg.logger()}
	if cfg.Storage.NATSURL == "" {
		d.DataDir, d.User = cfg.DataDir, user
	}
	return bus.Dial(ctx, d)
}
