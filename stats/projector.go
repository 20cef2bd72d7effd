package stats

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// Log is what a projector reads. The methods are those of events.Log, and two of the store.
type Log interface {
	Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error]
	Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error]
	// PastAfter yields the heads of the histories that the archive got after one of its positions.
	PastAfter(ctx context.Context, position uint64) iter.Seq2[events.Head, error]
	// Positions reads how far the archive and then the live log are.
	Positions(ctx context.Context) (past, live uint64, err error)
}

// Snapshots keeps the newest snapshot.
type Snapshots interface {
	// SaveStats replaces the snapshot.
	SaveStats(ctx context.Context, data []byte) error
	// LoadStats returns the snapshot, or NOT_FOUND when there is none of these streams.
	LoadStats(ctx context.Context) ([]byte, error)
}

// ProjectorConfig says what a projector works with. Log and Snapshots are required.
type ProjectorConfig struct {
	Log       Log
	Snapshots Snapshots
	// SnapshotInterval is how often a snapshot is written when there is anything new. Default 10 s.
	SnapshotInterval time.Duration
	Logger           *slog.Logger
}

// Projector keeps a projection over restarts.
type Projector struct {
	*Projection

	cfg   ProjectorConfig
	ready chan struct{}
	once  sync.Once
	// past is the position of the archive up to which everything is counted. It and the fields below belong to the
	// goroutine of Run.
	past uint64
	// saved is the newest position in the snapshot that was written last, stuck the gap that the last beat has found.
	saved, stuck uint64
	// warned is set when the log of the node knows that something is wrong.
	warned bool
	// tasks are those that a catching up has folded so far.
	tasks map[events.TaskID]*statemachine.Task
}

// NewProjector returns a projector with the newest snapshot. Commits of the orchestrator may be counted from now on.
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
	k := &Projector{Projection: &Projection{}, cfg: cfg, ready: make(chan struct{})}
	data, err := cfg.Snapshots.LoadStats(ctx)
	if fault.Has(err, fault.NotFound) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	_, live, err := cfg.Log.Positions(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := decode(data, live); ok {
		k.begin(s)
		k.past, k.saved = s.Past, s.Positions.newest()
	}
	return k, nil
}

// Ready is closed when everything is counted that was in the log at the start.
func (k *Projector) Ready() <-chan struct{} { return k.ready }

// Run catches up with the log, writes snapshots until ctx ends, and a last one. The owner of the tasks must have ended
// before.
func (k *Projector) Run(ctx context.Context) {
	tick := time.NewTicker(k.cfg.SnapshotInterval)
	defer tick.Stop()
	k.first(ctx)
	for {
		select {
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.SnapshotInterval)
			defer stop()
			k.saveSnapshot(last)
			return
		case <-tick.C:
		}
		k.first(ctx)
		k.saveSnapshot(ctx)
	}
}

// first catches up once; what fails is tried again at the next beat.
func (k *Projector) first(ctx context.Context) {
	select {
	case <-k.ready:
		return
	default:
	}
	if k.catchUp(ctx) {
		k.once.Do(func() { close(k.ready) })
	}
}

// saveSnapshot writes a snapshot when there is anything new. A gap that has been there for two beats is a commit of which nobody
// has told: its answer was lost, or another node has written it. It is read from the log.
func (k *Projector) saveSnapshot(ctx context.Context) {
	past, live, err := k.cfg.Log.Positions(ctx)
	if err != nil {
		k.warn(ctx, err)
		return
	}
	switch gap := k.missing(); {
	case gap > live:
		k.past, k.stuck = past, 0
	case gap == k.stuck:
		k.catchUp(ctx)
		k.stuck = 0
	default:
		k.stuck = gap
	}
	data, newest, err := k.encode(k.past)
	if err == nil && newest != k.saved {
		if err = k.cfg.Snapshots.SaveStats(ctx, data); err == nil {
			k.saved, k.warned = newest, false
		}
	}
	if err != nil {
		k.warn(ctx, err)
	}
}

// warn tells of a cause once, until a snapshot could be written.
func (k *Projector) warn(ctx context.Context, err error) {
	level := slog.LevelWarn
	if k.warned || ctx.Err() != nil {
		level = slog.LevelDebug
	}
	k.warned = true
	k.cfg.Logger.LogAttrs(ctx, level, "stats_behind", slog.Any("error", err))
}

// catchUp counts what the log has and was not counted: the live commits, and then the histories that went to the archive
// since, among them those that went while the live ones were read. It reports whether it has seen all.
func (k *Projector) catchUp(ctx context.Context) bool {
	past, live, err := k.cfg.Log.Positions(ctx)
	if err == nil && k.missing() > live {
		k.past = past
		return true
	}
	k.tasks = map[events.TaskID]*statemachine.Task{}
	defer func() { k.tasks = nil }()
	if err == nil {
		err = k.scan(ctx)
	}
	if err == nil {
		err = k.readPast(ctx)
	}
	if err != nil {
		k.warn(ctx, err)
		return false
	}
	k.fill(live)
	k.past = past
	return true
}

func (k *Projector) scan(ctx context.Context) error {
	for stored, err := range k.cfg.Log.Scan(ctx, k.missing()) {
		if err != nil {
			return err
		}
		if k.Counted(stored.Seq) {
			continue
		}
		if err := k.readable(ctx, k.read(ctx, stored)); err != nil {
			return err
		}
	}
	return nil
}

// readable lets a damaged history be: its calls are not counted, and orch verify tells of it.
func (k *Projector) readable(ctx context.Context, err error) error {
	if !fault.Has(err, fault.DataLoss) {
		return err
	}
	k.warn(ctx, err)
	return nil
}

// maxFolded bounds the tasks that a catching up keeps folded; of others it reads the history again.
const maxFolded = 10_000

// read counts a commit of the live log. To tell which tool a result is of, the task is folded up to it.
func (k *Projector) read(ctx context.Context, stored events.Stored) error {
	c, err := events.Decode(stored.Data)
	if err != nil {
		return err
	}
	t := k.tasks[c.Task]
	if t == nil && c.Rev == 1 {
		t = &statemachine.Task{}
	}
	if t == nil || t.Rev+1 != c.Rev {
		delete(k.tasks, c.Task)
		return k.history(ctx, c.Task)
	}
	calls, err := fold(t, c, stored.Data)
	if err != nil {
		return err
	}
	k.Committed(stored.Seq, calls)
	if t.State.Terminal() || len(k.tasks) >= maxFolded {
		delete(k.tasks, c.Task)
		return nil
	}
	k.tasks[c.Task] = t
	return nil
}

// history counts what was not counted of a whole task, and keeps the task.
func (k *Projector) history(ctx context.Context, id events.TaskID) error {
	t := &statemachine.Task{}
	for stored, err := range k.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return err
		}
		calls, err := fold(t, c, stored.Data)
		if err != nil {
			return err
		}
		k.Committed(stored.Seq, calls)
	}
	if t.Rev > 0 && !t.State.Terminal() && len(k.tasks) < maxFolded {
		k.tasks[id] = t
	}
	return nil
}

// fold applies a commit, as statemachine.Task.Fold does, and returns the calls that it ends.
func fold(t *statemachine.Task, c *events.Commit, data []byte) ([]Call, error) {
	var calls []Call
	if err := c.Link(t.Rev, t.Head); err != nil {
		return nil, err
	}
	for _, e := range c.Events {
		if call, ok := Ended(t, c.At, e); ok {
			calls = append(calls, call)
		}
		if err := t.Apply(c.At, e); err != nil {
			return nil, err
		}
	}
	t.ID = c.Task
	t.Seal(c.At, data)
	return calls, nil
}

// readPast counts the histories that were archived since the last position that is known.
func (k *Projector) readPast(ctx context.Context) error {
	for head, err := range k.cfg.Log.PastAfter(ctx, k.past) {
		if err != nil {
			return err
		}
		if err := k.readable(ctx, k.history(ctx, head.Task)); err != nil {
			return err
		}
	}
	return nil
}
