// Package orchestrator owns tasks: it is the single writer of their histories.
//
// Every command becomes a decision about the current state of a task, and one commit in the log. Once the log has acknowledged
// the commit, its consequences follow: calls for workers, timers, child tasks, answers. Queues, leases, timers and lists are
// derived from the log. They are kept in memory and rebuilt after a restart.
//
// A turn is one decision about one task with its commit.
package orchestrator

import (
	"context"
	"sync"

	"github.com/orch-dev/orch/orchestrator/dispatch"
)

// Orchestrator owns all tasks of a log. It implements api.Tasks for clients and work.Owner for workers. All methods are safe for
// concurrent use. They return UNAVAILABLE until Run has read the log, and after it has ended.
//
// Each part has one job. All parts share core, which contains the lock. New creates the parts from the lowest to the highest. A
// part has fields only for lower parts. The parts below engine know only the tasks in their arguments. The parts above engine
// use it to read tasks and to decide about them.
type Orchestrator struct {
	*core
	*engine
	*reader
	*submitter
	*approver
	*operations
	*workSource
	*archiver
	*holder
	*recovery
	*lister
	*exporter
	*importer
	*conversations

	queue *callQueue
}

// New returns an orchestrator that does nothing until Run.
func New(cfg Config) (*Orchestrator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newCore(cfg)
	clean, blobs := &cleaner{core: c}, &blobStore{core: c}
	pauses := newPauseList(c)
	compile := &compiler{core: c, blobs: blobs, clean: clean, programs: newPrograms()}
	en := newEngine(c, blobs, compile, &callQueue{core: c, pauses: pauses})
	rd := &reader{core: c, engine: en, blobs: blobs, pauses: pauses, relatives: &relatives{core: c, engine: en}}
	sm := &submitter{core: c, engine: en, reader: rd, blobs: blobs, compiler: compile, clean: clean}
	en.submitChild, en.createPart = sm.submit, sm.createChild
	ap := &approver{core: c, engine: en, reader: rd, submitter: sm, clean: clean}
	op := &operations{core: c, engine: en, reader: rd, submitter: sm, blobs: blobs, clean: clean, pauses: pauses}
	ws := &workSource{core: c, engine: en, reader: rd, approver: ap, blobs: blobs, compiler: compile, clean: clean, queue: en.queue}
	ws.queue.dispatcher = dispatch.New(dispatch.Config{
		Owner: dispatchOwner{ws}, Now: c.now, Slots: cfg.slots, OfflineAfter: maxPoll + 2*cfg.Limits.Lease, LastBatch: uint64(max(c.started.UnixNano(), 1)),
		Limits: cfg.CallLimits, WakeAt: c.wakeLimited,
	})
	li := &lister{core: c, engine: en, reader: rd, adding: newIOLock()}
	ar := &archiver{core: c, engine: en, reader: rd, lister: li, pauses: pauses, archiveNow: make(chan struct{}, 1)}
	return &Orchestrator{
		core: c, engine: en, reader: rd, submitter: sm, approver: ap, operations: op, workSource: ws, archiver: ar, holder: &holder{core: c, reader: rd},
		recovery: &recovery{core: c, engine: en, reader: rd, archiver: ar, operations: op}, lister: li,
		exporter: &exporter{core: c, engine: en, reader: rd, files: transfers[*transfer]{all: map[string]*transfer{}}},
		importer: &importer{core: c, engine: en, reader: rd, lister: li, uploads: transfers[*upload]{all: map[string]*upload{}}}, queue: ws.queue,
		conversations: newConversations(en),
	}, nil
}

// Run reads the log, then serves until ctx ends. It returns when everything that it started has ended.
func (o *Orchestrator) Run(ctx context.Context) error {
	defer close(o.stopped)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	o.setSpawn(func(job func(context.Context)) { group.Go(func() { job(ctx) }) })
	defer func() {
		cancel()
		o.setSpawn(nil)
		group.Wait()
	}()
	group.Go(func() { o.sendDeferred(ctx) })
	if err := o.restore(ctx); err != nil {
		return err
	}
	o.startGrace()
	close(o.ready)
	group.Go(func() { o.timers.run(ctx, o.engine) })
	group.Go(func() { o.sweep(ctx) })
	group.Go(func() { o.archiveLoop(ctx) })
	group.Go(func() { o.removeLoop(ctx) })
	group.Go(func() { o.indexLoop(ctx) })
	group.Go(func() { o.listLoop(ctx) })
	<-ctx.Done()
	return nil
}
