package sim_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/scheduler"
)

// firing is the scheduler of one owner with its connections: to the journal, and to the owner. What it asks of either waits until the
// driver answers, as with the log, so that the scheduling of goroutines has no influence.
type firing struct {
	*scheduler.Scheduler

	world *world
	owner *owner
	// ended is closed when the scheduler has stopped. serves is set once it has read the journal.
	ended  chan struct{}
	serves atomic.Bool

	mu    sync.Mutex
	gates []*gate
	dead  bool
	gone  chan struct{}
}

// gate is one request of a scheduler that waits for the driver.
type gate struct {
	of   *firing
	what string
	// after and data are those of an append; since is when it was asked for, and wall the time on the clock of the scheduler then.
	after       uint64
	data        []byte
	since, wall time.Time
	pass        chan passage

	patience int
	seen     bool
}

type passage struct {
	position uint64
	err      error
}

var (
	_ journaled.Journal = (*firing)(nil)
	_ scheduler.Tasks   = (*firing)(nil)
)

// over tells the scheduler of an owner that a task has ended.
func (o *owner) over(id events.TaskID) {
	if o.firing != nil {
		o.firing.TaskEnded(id)
	}
}

// gates returns what the scheduler of an owner waits for.
func (o *owner) gates() []*gate {
	if o.firing == nil {
		return nil
	}
	o.firing.mu.Lock()
	defer o.firing.mu.Unlock()
	return slices.Clone(o.firing.gates)
}

// startFiring starts the scheduler of an owner, which begins once the owner serves.
func (w *world) startFiring(ctx context.Context, o *owner) {
	if w.clockwork == nil {
		return
	}
	f := &firing{world: w, owner: o, ended: make(chan struct{}), gone: make(chan struct{})}
	f.Scheduler = scheduler.New(scheduler.Config{
		Tasks: f, Clock: w.wall, Held: o.NodePaused, Entropy: entropy{rand.New(rand.NewPCG(w.script.Seed, uint64(2000+o.n)))},
		Open: func(_ context.Context, create bool) (journaled.Journal, error) {
			if w.clockwork.exists.Store(w.clockwork.exists.Load() || create); !w.clockwork.exists.Load() {
				return nil, nil //nolint:nilnil // as journaled.Open describes
			}
			return f, nil
		},
	})
	o.firing = f
	go func() {
		defer close(f.ended)
		select {
		case <-o.Ready():
		case <-ctx.Done():
			return
		}
		ctx := context.WithValue(ctx, ofClient{}, true)
		if f.Start(ctx) == nil {
			f.serves.Store(true)
			f.Run(ctx)
		}
	}()
}

// dieFiring cuts the connections of the scheduler of an owner. Its pending append may still reach the journal.
func (w *world) dieFiring(o *owner) {
	if o.firing == nil {
		return
	}
	f := o.firing
	f.mu.Lock()
	gates := f.gates
	f.dead, f.gates = true, nil
	close(f.gone)
	f.mu.Unlock()
	w.trouble()
	for _, g := range gates {
		if g.what == "append" && w.chance(1, 2) {
			w.clockwork.late = append(w.clockwork.late, g)
		}
	}
}

func (o *owner) endFiring() {
	if o.firing != nil {
		<-o.firing.ended
	}
}

// wait waits until the driver answers a request.
func (f *firing) wait(g *gate) (uint64, error) {
	g.of, g.since, g.wall, g.pass = f, time.Now(), f.world.wall(), make(chan passage, 1)
	f.mu.Lock()
	if !f.dead {
		f.gates = append(f.gates, g)
	}
	f.mu.Unlock()
	select {
	case p := <-g.pass:
		return p.position, p.err
	case <-f.gone:
		return 0, unavailable()
	}
}

// Append implements journaled.Journal.
func (f *firing) Append(_ context.Context, newest uint64, data []byte) (uint64, error) {
	return f.wait(&gate{what: "append", after: newest, data: slices.Clone(data)})
}

// Read implements journaled.Journal.
func (f *firing) Read(_ context.Context, after uint64, fn func(position uint64, data []byte) error) error {
	if _, err := f.wait(&gate{what: "read"}); err != nil {
		return err
	}
	for i, e := range f.world.clockwork.entries() {
		if at := uint64(i) + 1; at > after {
			if err := fn(at, e.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Snapshot implements journaled.Journal. The journal of a simulation stays too short for a snapshot.
func (*firing) Snapshot(context.Context) ([]byte, uint64, error) { return nil, 0, nil }

// SaveSnapshot implements journaled.Journal.
func (*firing) SaveSnapshot(context.Context, uint64, []byte) error { return unavailable() }

// Check implements scheduler.Tasks.
func (f *firing) Check(ctx context.Context, r api.SubmitRequest) error {
	return f.owner.Check(ctx, r)
}

// SubmitBatch implements scheduler.Tasks.
func (f *firing) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (reply api.SubmitBatchReply, err error) {
	err = f.ask("submit", func(o *orchestrator.Orchestrator) error {
		reply, err = o.SubmitBatch(ctx, r)
		return err
	})
	return reply, err
}

// Get implements scheduler.Tasks.
func (f *firing) Get(ctx context.Context, r api.GetRequest) (view api.TaskView, err error) {
	if _, err := f.wait(&gate{what: "get"}); err != nil {
		return view, err
	}
	return f.owner.Get(ctx, r)
}

// Cancel implements scheduler.Tasks.
func (f *firing) Cancel(ctx context.Context, r api.CancelRequest) (view api.TaskView, err error) {
	err = f.ask("cancel", func(o *orchestrator.Orchestrator) error {
		view, err = o.Cancel(ctx, r)
		return err
	})
	return view, err
}

// ask makes a request that changes tasks. The request can fail, and its answer can be lost.
func (f *firing) ask(what string, do func(o *orchestrator.Orchestrator) error) error {
	if _, err := f.wait(&gate{what: what}); err != nil {
		return err
	}
	err := do(f.owner.Orchestrator)
	if _, lost := f.wait(&gate{what: what + " answer"}); lost != nil {
		return lost
	}
	return err
}

// nextGate draws the request of a scheduler to answer next; nil if there is none, or all are delayed.
func (w *world) nextGate() *gate {
	for _, o := range []*owner{w.owner, w.old} {
		if o == nil {
			continue
		}
		for _, g := range o.gates() {
			if !g.seen {
				g.seen = true
				if w.chance(w.script.Patience, 8) {
					g.patience = 1 + w.rnd.IntN(3)
				}
			}
			if g.patience == 0 {
				return g
			}
		}
	}
	return nil
}

// serveGate answers a request of a scheduler.
func (w *world) serveGate(g *gate) {
	g.of.mu.Lock()
	g.of.gates = slices.DeleteFunc(g.of.gates, func(x *gate) bool { return x == g })
	g.of.mu.Unlock()
	switch {
	case g.what == "append":
		w.serveEntry(g)
	case g.what == "read" && g.of.serves.Load() && w.disarm("unread"),
		(g.what == "submit" || g.what == "cancel") && w.disarm("refuse"),
		(g.what == "submit answer" || g.what == "cancel answer") && w.disarm("lose_reply"):
		w.answerGate(g, "fails", 0, unavailable())
	default:
		if g.what == "read" {
			w.clockwork.unseen = false
		}
		w.answerGate(g, "passes", 0, nil)
	}
}

// serveEntry answers an append to the journal.
func (w *world) serveEntry(g *gate) {
	switch {
	case w.full:
		w.answerGate(g, "refused, the disk is full", 0, fault.New(fault.DiskFull, "the disk is full"))
	case w.disarm("crash"):
		w.logf("entry %d: the owner dies before it", g.after+1)
		w.kill(g.of.owner)
	case w.disarm("crash_written"):
		_, err := w.clockwork.append(g)
		w.logf("entry %d: the owner dies after it: %v", g.after+1, err)
		w.kill(g.of.owner)
	case w.disarm("refuse"):
		w.answerGate(g, "refused", 0, unavailable())
	case w.disarm("lose"):
		_, _ = w.clockwork.append(g)
		w.answerGate(g, "written, but its answer is lost", 0, unavailable())
	case w.disarm("late"):
		w.clockwork.late = append(w.clockwork.late, g)
		w.answerGate(g, "not written yet, but given up", 0, unavailable())
	default:
		position, err := w.clockwork.append(g)
		w.answerGate(g, "written", position, err)
	}
}

func (w *world) answerGate(g *gate, how string, position uint64, err error) {
	if w.tape != nil {
		w.logf("scheduler %d %s %s %s: %v", g.of.owner.n, g.what, g.data, how, err)
	}
	if err != nil {
		w.trouble()
	}
	g.pass <- passage{position, err}
}
