package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// Tasks is what a scheduler needs of a node. *orchestrator.Orchestrator implements it.
type Tasks interface {
	// Check returns the error with which Submit would refuse a request.
	Check(ctx context.Context, r api.SubmitRequest) error
	SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error)
	Get(ctx context.Context, r api.GetRequest) (api.TaskView, error)
	Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error)
}

// Config configures a Scheduler.
type Config struct {
	Tasks Tasks
	// Open opens the journal.
	Open journaled.Open
	// Root is the root of the tasks of definitions without one (api.SubmitRequest); empty for that of the node at the time of a firing.
	Root string
	// Held reports whether the node is paused: then no schedule fires by itself. Default: it is not.
	Held func() bool
	// Redact removes secrets from notes. Default: it removes none.
	Redact func(text string) string
	// Clock is the wall clock.
	Clock func() time.Time
	// Entropy provides the random bits of ids. Default: crypto/rand.
	Entropy io.Reader
	Logger  *slog.Logger
}

// Limits of the node.
const (
	// MaxSchedules is the maximum number of schedules.
	MaxSchedules = 10_000
	// lookAgain is the longest time between two turns, so that the scheduler notices when the clock of the machine was set.
	lookAgain = 5 * time.Second
	// readAgain is how long the journal is not read.
	readAgain = 10 * time.Second
	// retryAfter is the time after which a turn is repeated whose changes could not be recorded.
	retryAfter = time.Second
	// together is the number of tasks that are submitted at once.
	together = 200
)

// Scheduler runs the schedules of a node. It implements api.Schedules.
type Scheduler struct {
	cfg Config
	log *slog.Logger
	// wake makes Run take a turn.
	wake chan struct{}

	// turn contains a value during a turn, also during its I/O. It guards the fields up to mu.
	turn  chan struct{}
	state *journaled.State[change]
	// readAt is when the journal was last read, by a clock that nobody sets.
	readAt time.Time
	// lastTurn is the time of the last turn, to notice a clock that was set back. lastTrigger is that of the last trigger.
	lastTurn, lastTrigger time.Time
	// delayed is set while turns fail.
	delayed bool
	// refused are the firings whose tasks are too many, since when.
	refused map[events.TaskID]time.Time

	mu  sync.RWMutex
	all map[string]*schedule
	// firings counts the outcomes that this process has recorded.
	firings map[schedules.Result]int

	// watched are the tasks whose ends matter, with the names of their schedules; ended those that have ended since the last turn.
	watching sync.Mutex
	watched  map[events.TaskID]string
	ended    map[events.TaskID]string
	// held is set while the node is paused.
	held atomic.Bool
}

var _ api.Schedules = (*Scheduler)(nil)

// New returns a scheduler that does nothing until Start.
func New(cfg Config) *Scheduler {
	if cfg.Held == nil {
		cfg.Held = func() bool { return false }
	}
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	cfg.Entropy = cmp.Or[io.Reader](cfg.Entropy, rand.Reader)
	s := &Scheduler{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), wake: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		all: map[string]*schedule{}, firings: map[schedules.Result]int{}, refused: map[events.TaskID]time.Time{}, watched: map[events.TaskID]string{}, ended: map[events.TaskID]string{},
	}
	s.state = s.newState()
	return s
}

// Start reads the journal, if there is one. Errors: DATA_LOSS, UNAVAILABLE.
func (s *Scheduler) Start(ctx context.Context) error {
	if err := s.beginTurn(ctx); err != nil {
		return err
	}
	defer s.endTurn()
	if err := s.state.Start(ctx); err != nil {
		return err
	}
	s.readAt = time.Now()
	s.watchOpen(ctx, s.list())
	return nil
}

// beginTurn waits for the end of the turn of another, or of ctx.
func (s *Scheduler) beginTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (s *Scheduler) endTurn() { <-s.turn }

// reload reads the journal if the states may be older, and finds out which tasks have ended meanwhile.
func (s *Scheduler) reload(ctx context.Context) error {
	wrong, before := s.state.Stale(), s.state.Position()
	if time.Since(s.readAt) >= readAgain {
		s.state.Suspect()
	}
	if !s.state.Stale() {
		return nil
	}
	if err := s.state.Reload(ctx); err != nil {
		return err
	}
	s.readAt = time.Now()
	if wrong || s.state.Position() != before {
		s.watchOpen(ctx, s.list())
	}
	return nil
}

// watchOpen watches the tasks of schedules that were open when the journal was written, and finds out which have ended. It does not make Run
// take a turn: after one that failed, each turn looks again, and they must not follow one another at once.
func (s *Scheduler) watchOpen(ctx context.Context, all []*schedule) {
	for _, sc := range all {
		for _, f := range sc.State.Open {
			id := events.TaskID(f.Task)
			s.watch(id, sc.Name)
			if s.isOver(ctx, id) {
				s.noteEnd(id)
			}
		}
	}
}

// watch makes the end of a task matter.
func (s *Scheduler) watch(id events.TaskID, name string) {
	s.watching.Lock()
	defer s.watching.Unlock()
	s.watched[id] = name
}

// Run starts tasks when they are due, until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(s.Turn(ctx))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// TaskEnded tells the scheduler that a task has ended. It does not block.
func (s *Scheduler) TaskEnded(id events.TaskID) {
	if s.noteEnd(id) {
		s.nudge()
	}
}

// noteEnd makes settle record the end of a task; false if it does not matter.
func (s *Scheduler) noteEnd(id events.TaskID) bool {
	s.watching.Lock()
	defer s.watching.Unlock()
	name, ours := s.watched[id]
	if ours {
		delete(s.watched, id)
		s.ended[id] = name
	}
	return ours
}

func (s *Scheduler) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Turn does what is due. It returns how long nothing will be due, at most a few seconds.
func (s *Scheduler) Turn(ctx context.Context) time.Duration {
	if s.beginTurn(ctx) != nil {
		return retryAfter
	}
	defer s.endTurn()
	err := s.takeTurn(ctx)
	if err != nil && !s.delayed && ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "schedules_delayed", slog.Any("error", err))
	}
	s.delayed = err != nil
	if s.delayed {
		return retryAfter
	}
	return s.untilNext()
}

// untilNext returns how long no schedule is due.
func (s *Scheduler) untilNext() time.Duration {
	now, wait := s.cfg.Clock(), lookAgain
	if s.held.Load() {
		return wait
	}
	for sc := range s.each() {
		if !sc.idle && sc.table != nil {
			wait = min(wait, sc.due.Sub(now))
		}
	}
	return max(wait, 0)
}

func (s *Scheduler) takeTurn(ctx context.Context) error {
	if err := s.reload(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if s.held.Store(s.cfg.Held()); s.held.Load() {
		return nil
	}
	now := s.cfg.Clock()
	back := now.Before(s.lastTurn.Add(-time.Second)) // somebody has set the clock
	// An owner that has no answer of the log to the commit of an end tells of it late, but knows when it is asked.
	s.watchOpen(ctx, slices.DeleteFunc(s.dueAt(now, back), func(sc *schedule) bool { return sc.Definition.Overlap == schedules.AllowAll }))
	if err := s.settle(ctx); err != nil {
		return err
	}
	now = s.cfg.Clock() // the answers may have taken a while
	s.lastTurn = now
	if err := s.advance(ctx, s.dueAt(now, back), now); err != nil {
		return err
	}
	return s.startAll(ctx)
}

// dueAt returns the schedules that are due at a time, or all of them.
func (s *Scheduler) dueAt(now time.Time, all bool) (due []*schedule) {
	for sc := range s.each() {
		if sc.table != nil && (all || !sc.idle && !sc.due.After(now)) {
			due = append(due, sc)
		}
	}
	return due
}

// settle records the ends of tasks, also of those that end meanwhile: what is decided next must know them.
func (s *Scheduler) settle(ctx context.Context) error {
	for {
		s.watching.Lock()
		ended := maps.Clone(s.ended)
		s.watching.Unlock()
		if len(ended) == 0 {
			return nil
		}
		if err := s.recordEnds(ctx, ended); err != nil {
			return err
		}
	}
}

// recordEnds records the ends of tasks, given with the names of their schedules.
func (s *Scheduler) recordEnds(ctx context.Context, ended map[events.TaskID]string) error {
	next := map[string]*schedules.State{}
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		name := ended[id]
		sc := s.get(name)
		if sc == nil {
			continue
		}
		if next[name] == nil {
			next[name] = sc.State.Clone()
		}
		next[name].Ended(schedules.End{Task: string(id), State: s.endOf(ctx, id)}, string(statemachine.Done))
	}
	if err := s.recordStates(ctx, next); err != nil {
		return err
	}
	s.watching.Lock()
	defer s.watching.Unlock()
	for id := range ended {
		delete(s.ended, id)
	}
	return nil
}

// endOf returns the final state of a task that has ended, "" if it cannot be read.
func (s *Scheduler) endOf(ctx context.Context, id events.TaskID) string {
	view, err := s.cfg.Tasks.Get(ctx, api.GetRequest{ID: id})
	if err != nil || !view.State.Terminal() {
		return ""
	}
	return string(view.State)
}

// recordStates records the states that differ from the current ones.
func (s *Scheduler) recordStates(ctx context.Context, next map[string]*schedules.State) error {
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(next)) {
		changes = append(changes, change{Name: name, State: next[name].Change()})
	}
	return s.state.Record(ctx, changes...)
}

// advance decides about the firings of schedules that are due, and sets when each is due again.
func (s *Scheduler) advance(ctx context.Context, due []*schedule, now time.Time) error {
	next, times := map[string]*schedules.State{}, map[string]time.Time{}
	for _, sc := range due {
		state := sc.State.Clone()
		at, found := state.Advance(sc.table, sc.Definition.ID, now)
		if found {
			times[sc.Name] = at
		}
		if !state.Through.Equal(sc.State.Through) || len(state.News) > 0 {
			next[sc.Name] = state
		}
	}
	if err := s.recordStates(ctx, next); err != nil {
		return err
	}
	for _, sc := range due {
		at, found := times[sc.Name]
		s.setDue(sc.Name, at, !found)
	}
	return nil
}

// isEnding reports whether the end of a task is known but not recorded yet.
func (s *Scheduler) isEnding(id events.TaskID) bool {
	s.watching.Lock()
	defer s.watching.Unlock()
	return s.ended[id] != ""
}

// refuse records that a firing cannot start.
func (s *Scheduler) refuse(ctx context.Context, p pendingStart, state *schedules.State, i int, err *fault.Error) {
	state.Refused(i, string(err.Code)+": "+err.Message)
	s.log.LogAttrs(ctx, slog.LevelWarn, "schedule_not_started", slog.String("name", p.schedule.Name), slog.Any("error", err))
}

// find reports whether a task exists, or did, and whether it has ended.
func (s *Scheduler) find(ctx context.Context, id events.TaskID) (exists, over bool, err error) {
	view, err := s.cfg.Tasks.Get(ctx, api.GetRequest{ID: id})
	switch {
	case err == nil:
		return true, view.State.Terminal(), nil
	case fault.Has(err, fault.Gone):
		return true, true, nil
	case fault.Has(err, fault.NotFound):
		return false, false, nil
	default:
		return false, false, err
	}
}

// isOver reports whether a task has ended, or does not exist any more.
func (s *Scheduler) isOver(ctx context.Context, id events.TaskID) bool {
	exists, over, err := s.find(ctx, id)
	return err == nil && (over || !exists)
}
