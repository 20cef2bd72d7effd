package scheduler_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
	"github.com/orch-dev/orch/scheduler"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// world is everything around a scheduler. It outlives schedulers, as a data directory does.
type world struct {
	t   *testing.T
	now time.Time
	// paused is set while the node is paused.
	paused bool
	// refused is the answer to each submission of a task that does not exist; nil to create them.
	refused *fault.Error
	// unread is why no task can be read; nil if they can.
	unread *fault.Error
	// unopened is why the journal cannot be opened; nil if it can.
	unopened error

	journal journaledtest.Journal

	mu sync.Mutex
	// tasks are the submitted tasks with their firings, by id; submitted counts the requests that created one.
	tasks     map[events.TaskID]*task
	submitted int
	// failing is called before each write and each submission, with its kind; an error is its result. A write that lost its answer
	// has had its effect.
	failing func(kind string) (err error, lost bool)
}

type task struct {
	firing    events.Firing
	request   api.SubmitRequest
	over      bool
	fails     bool
	cancelled bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), tasks: map[events.TaskID]*task{}}
	w.journal.Failing = func() (error, bool) { return w.fails("append") }
	return w
}

func (w *world) fails(kind string) (error, bool) {
	if w.failing == nil {
		return nil, false
	}
	return w.failing(kind)
}

// Check implements scheduler.Tasks.
func (w *world) Check(_ context.Context, r api.SubmitRequest) error {
	if string(r.Plan) == `"wrong"` {
		return fault.New(fault.InvalidPlan, "it is wrong").WithField("plan")
	}
	return nil
}

// SubmitBatch implements scheduler.Tasks.
func (w *world) SubmitBatch(_ context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	err, lost := w.fails("submit")
	if err != nil && !lost {
		return api.SubmitBatchReply{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reply := api.SubmitBatchReply{Tasks: make([]api.SubmitBatchItem, len(r.Tasks))}
	for i, one := range r.Tasks {
		id := events.KeyedTaskID("", one.IdempotencyKey)
		was := w.tasks[id]
		if was == nil && w.refused != nil {
			reply.Tasks[i].Error = w.refused
			continue
		}
		if was == nil {
			w.tasks[id] = &task{firing: *one.Schedule, request: one}
			w.submitted++
		}
		reply.Tasks[i] = api.SubmitBatchItem{SubmitReply: api.SubmitReply{ID: id, State: state(w.tasks[id]), Existing: was != nil}}
	}
	return reply, err
}

func state(t *task) statemachine.State {
	if t.over && t.fails {
		return statemachine.Failed
	}
	if t.over {
		return statemachine.Done
	}
	return statemachine.InProgress
}

// Get implements scheduler.Tasks.
func (w *world) Get(_ context.Context, r api.GetRequest) (api.TaskView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unread != nil {
		return api.TaskView{}, w.unread
	}
	if w.tasks[r.ID] == nil {
		return api.TaskView{}, fault.New(fault.NotFound, "there is no such task")
	}
	return api.TaskView{ID: r.ID, State: state(w.tasks[r.ID])}, nil
}

// Cancel implements scheduler.Tasks.
func (w *world) Cancel(_ context.Context, r api.CancelRequest) (api.TaskView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks[r.ID].cancelled = true
	return api.TaskView{ID: r.ID}, nil
}

// start starts a scheduler on the world.
func (w *world) start() *scheduler.Scheduler {
	w.t.Helper()
	s := scheduler.New(scheduler.Config{
		Tasks: w, Clock: func() time.Time { return w.now }, Held: func() bool { return w.paused },
		Redact: func(text string) string { return strings.ReplaceAll(text, "hunter2", "[REDACTED]") },
		Open: func(ctx context.Context, create bool) (journaled.Journal, error) {
			if w.unopened != nil {
				return nil, w.unopened
			}
			return w.journal.Open(ctx, create)
		},
	})
	require.NoError(w.t, s.Start(w.t.Context()))
	return s
}

// end ends open tasks of a schedule.
func (w *world) end(s *scheduler.Scheduler, name string) {
	for id, one := range w.tasks {
		if one.firing.Name == name && !one.over {
			one.over = true
			s.TaskEnded(id)
		}
	}
}

// started returns the instants of the tasks of a schedule, in order.
func (w *world) started(name string) []string {
	list := []string{}
	for _, one := range w.tasks {
		if one.firing.Name == name {
			list = append(list, one.firing.Time.Format("15:04:05"))
		}
	}
	slices.Sort(list)
	return list
}

func minutely(overlap schedules.Overlap) schedules.Definition {
	return schedules.Definition{Spec: schedules.Spec{Cron: []string{"* * * * *"}, Overlap: overlap}, Plan: json.RawMessage(`{"orch":"v1"}`)}
}

func (w *world) put(s *scheduler.Scheduler, name string, d schedules.Definition) api.ScheduleView {
	w.t.Helper()
	view, err := s.PutSchedule(w.t.Context(), api.PutScheduleRequest{Name: name, Definition: d, Actor: "user:ada"})
	require.NoError(w.t, err)
	return view
}

func (w *world) view(s *scheduler.Scheduler, name string) api.ScheduleView {
	w.t.Helper()
	reply, err := s.Schedules(w.t.Context(), api.SchedulesRequest{Name: name, Upcoming: 3})
	require.NoError(w.t, err)
	return reply.Schedules[0]
}

// pass lets time pass, in steps of ten seconds with a turn each.
func (w *world) pass(s *scheduler.Scheduler, d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		w.now = w.now.Add(10 * time.Second)
		s.Turn(w.t.Context())
	}
}
