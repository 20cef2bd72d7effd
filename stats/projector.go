package stats

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/statemachine"
)

// Log is the log that a projector reads. It has two methods of events.Log, and two more that the stores of a node have.
type Log interface {
	Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error]
	Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error]
	// ArchivedAfter yields the heads of the histories that were archived after a position of the archive.
	ArchivedAfter(ctx context.Context, position uint64) iter.Seq2[events.Head, error]
	// Positions returns the newest positions of the archive and of the live log, read in this order.
	Positions(ctx context.Context) (past, live uint64, err error)
}

// Snapshots stores the newest snapshot.
type Snapshots interface {
	// SaveStats replaces the snapshot.
	SaveStats(ctx context.Context, data []byte) error
	// LoadStats returns the snapshot, or NOT_FOUND if there is none for the current streams.
	LoadStats(ctx context.Context) ([]byte, error)
}

// ProjectorConfig configures a Projector. Log and Snapshots are required.
type ProjectorConfig struct {
	Log       Log
	Snapshots Snapshots
	// SnapshotInterval is the interval between snapshots. No snapshot is written if nothing changed. Default 10 s.
	SnapshotInterval time.Duration
	Logger           *slog.Logger
}

// Projector persists a projection across restarts.
type Projector struct {
	*Projection

	cfg   ProjectorConfig
	ready chan struct{}
	once  sync.Once
	// past is the position of the archive up to which everything is counted. It and the fields below are only used by
	// the goroutine of Run.
	past uint64
	// saved is the newest position in the last snapshot, savedUpTo the first one missing there. stuck is the first missing
	// position at the previous interval.
	saved, savedUpTo, stuck uint64
	// warned is true when a problem has been logged.
	warned bool
	// tasks are the tasks that the current catch-up has folded.
	tasks map[events.TaskID]*statemachine.Task
	// share keeps the catch-up to a tenth of a core, because it may have to read the whole log. It does not if there are budgets: agents
	// wait for them.
	share pause.Share
}

// NewProjector returns a projector with the newest snapshot loaded. The orchestrator may pass it commits from now on.
func NewProjector(ctx context.Context, cfg ProjectorConfig) (*Projector, error) {
	if cfg.Log == nil || cfg.Snapshots == nil {
		return nil, fault.New(fault.ValidationError, "a projector of statistics needs a log and a place for snapshots")
	}
	if cfg.SnapshotInterval == 0 {
		cfg.SnapshotInterval = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Projector{Projection: &Projection{}, cfg: cfg, ready: make(chan struct{})}
	data, err := cfg.Snapshots.LoadStats(ctx)
	if fault.Has(err, fault.NotFound) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	_, live, err := cfg.Log.Positions(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := decode(data, live); ok {
		p.restore(s)
		p.past, p.saved, p.savedUpTo = s.Past, s.Positions.newest(), p.missing()
	}
	return p, nil
}

// Ready returns a channel that is closed when everything that was in the log at the start is counted.
func (p *Projector) Ready() <-chan struct{} { return p.ready }

// Run catches up with the log, writes snapshots until ctx ends, and writes a last snapshot. The owner of the tasks must
// stop before ctx ends.
func (p *Projector) Run(ctx context.Context) {
	tick := time.NewTicker(p.cfg.SnapshotInterval)
	defer tick.Stop()
	p.initialCatchUp(ctx)
	for {
		select {
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.SnapshotInterval)
			defer stop()
			p.saveSnapshot(last)
			return
		case <-tick.C:
		}
		p.initialCatchUp(ctx)
		p.saveSnapshot(ctx)
	}
}

// initialCatchUp catches up once. A failure is retried at the next interval.
func (p *Projector) initialCatchUp(ctx context.Context) {
	select {
	case <-p.ready:
		return
	default:
	}
	if p.catchUp(ctx) {
		p.once.Do(func() { close(p.ready) })
	}
}

// saveSnapshot writes a snapshot if anything changed. A gap that persists for two intervals is a commit that was not
// passed to the projection: its answer was lost, or another node wrote it. saveSnapshot then reads this commit from the
// log.
func (p *Projector) saveSnapshot(ctx context.Context) {
	past, live, err := p.cfg.Log.Positions(ctx)
	if err != nil {
		p.warn(ctx, err)
		return
	}
	switch gap := p.missing(); {
	case gap > live:
		p.past, p.stuck = past, 0
	case gap == p.stuck:
		p.catchUp(ctx)
		p.stuck = 0
	default:
		p.stuck = gap
	}
	p.writeSnapshot(ctx)
}

// writeSnapshot writes a snapshot if anything changed.
func (p *Projector) writeSnapshot(ctx context.Context) {
	upTo := p.missing()
	data, newest, err := p.encode(p.past)
	if err == nil && (newest != p.saved || upTo != p.savedUpTo) {
		if err = p.cfg.Snapshots.SaveStats(ctx, data); err == nil {
			p.saved, p.savedUpTo, p.warned = newest, upTo, false
		}
	}
	if err != nil {
		p.warn(ctx, err)
	}
}

// warn logs an error once, until a snapshot has been written.
func (p *Projector) warn(ctx context.Context, err error) {
	level := slog.LevelWarn
	if p.warned || ctx.Err() != nil {
		level = slog.LevelDebug
	}
	p.warned = true
	p.cfg.Logger.LogAttrs(ctx, level, "stats_behind", slog.Any("error", err))
}

// catchUp counts the commits of the log that were not counted: the live commits, and then the histories that were
// archived since, including those archived while the live ones were read. It reports whether it succeeded.
func (p *Projector) catchUp(ctx context.Context) bool {
	past, live, err := p.cfg.Log.Positions(ctx)
	if err == nil && p.missing() > live {
		p.past = past
		return true
	}
	p.tasks = map[events.TaskID]*statemachine.Task{}
	defer func() { p.tasks = nil }()
	if err == nil {
		err = p.scan(ctx)
	}
	if err == nil {
		err = p.countArchived(ctx)
	}
	if err != nil {
		p.warn(ctx, err)
		return false
	}
	p.fill(live)
	p.past = past
	return true
}

// scan counts the live commits. From time to time it writes a snapshot, so that the next start continues there.
func (p *Projector) scan(ctx context.Context) error {
	written := time.Now()
	for stored, err := range p.cfg.Log.Scan(ctx, p.missing()) {
		if err == nil {
			err = p.yield(ctx)
		}
		if err != nil {
			return err
		}
		if p.Counted(stored.Seq) {
			continue
		}
		if err := p.skipDamaged(ctx, p.countCommit(ctx, stored)); err != nil {
			return err
		}
		if time.Since(written) >= p.cfg.SnapshotInterval {
			p.writeSnapshot(ctx)
			written = time.Now()
		}
	}
	return nil
}

// yield pauses the catch-up after a piece of work, unless agents wait for it.
func (p *Projector) yield(ctx context.Context) error {
	if p.watchesBudgets() {
		return ctx.Err()
	}
	return p.share.Yield(ctx)
}

// skipDamaged logs DATA_LOSS and returns nil, so that a damaged history is skipped. Its calls are not counted; orch
// verify reports it. It returns any other error.
func (p *Projector) skipDamaged(ctx context.Context, err error) error {
	if !fault.Has(err, fault.DataLoss) {
		return err
	}
	p.warn(ctx, err)
	return nil
}

// maxFolded bounds the folded tasks that a catch-up keeps. For other tasks it reads the history again.
const maxFolded = 10_000

// countCommit counts a commit of the live log. It folds the task up to the commit, to know which tool a result belongs
// to.
func (p *Projector) countCommit(ctx context.Context, stored events.Stored) error {
	c, err := events.Decode(stored.Data)
	if err != nil {
		return err
	}
	t := p.tasks[c.Task]
	if t == nil && c.Rev == 1 {
		t = &statemachine.Task{}
	}
	if t == nil || t.Rev+1 != c.Rev {
		delete(p.tasks, c.Task)
		return p.countHistory(ctx, c.Task)
	}
	calls, paid, err := Fold(t, c, stored.Data)
	if err != nil {
		return err
	}
	p.Committed(stored.Seq, calls, paid)
	if t.State.Terminal() || len(p.tasks) >= maxFolded {
		delete(p.tasks, c.Task)
		return nil
	}
	p.tasks[c.Task] = t
	return nil
}

// countHistory counts the uncounted commits of a whole task, and keeps the folded task.
func (p *Projector) countHistory(ctx context.Context, id events.TaskID) error {
	t := &statemachine.Task{}
	for stored, err := range p.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return err
		}
		calls, paid, err := Fold(t, c, stored.Data)
		if err != nil {
			return err
		}
		p.Committed(stored.Seq, calls, paid)
	}
	if t.Rev > 0 && !t.State.Terminal() && len(p.tasks) < maxFolded {
		p.tasks[id] = t
	}
	return nil
}

// Fold applies a commit, like statemachine.Task.Fold, and returns the calls that it ends, and what it has cost.
func Fold(t *statemachine.Task, c *events.Commit, data []byte) (calls []Call, paid []costs.Cost, err error) {
	if err := c.CheckLink(t.Rev, t.Head); err != nil {
		return nil, nil, err
	}
	t.ID = c.Task
	if t.Rev == 0 {
		t.Requestor = c.Actor
	}
	for _, e := range c.Events {
		if call, ok := Ended(t, c.At, e); ok {
			calls = append(calls, call)
		}
		if cost, ok := costs.Of(t, c.At, e); ok {
			paid = append(paid, cost)
		}
		if err := t.Apply(c.At, e); err != nil {
			return nil, nil, err
		}
	}
	t.AdvanceHead(c.At, data)
	return calls, paid, nil
}

// countArchived counts the histories that were archived after p.past.
func (p *Projector) countArchived(ctx context.Context) error {
	for head, err := range p.cfg.Log.ArchivedAfter(ctx, p.past) {
		if err != nil {
			return err
		}
		if head.Imported { // its calls ran elsewhere
			continue
		}
		if err := p.skipDamaged(ctx, p.countHistory(ctx, head.Task)); err != nil {
			return err
		}
		if err := p.yield(ctx); err != nil {
			return err
		}
	}
	return nil
}
