package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// pendingStart is a firing that has to start, at an index of State.Starting.
type pendingStart struct {
	schedule *schedule
	firing   schedules.Firing
}

// startAll submits the tasks of all firings that were decided to start, each once, and cancels the tasks that are replaced. It
// returns the error of a firing that has to be tried again.
func (s *Scheduler) startAll(ctx context.Context) error {
	if err := s.cancelReplaced(ctx); err != nil {
		return err
	}
	tried := map[events.TaskID]bool{}
	var later error
	for {
		starts := s.untried(tried)
		if len(starts) == 0 {
			return later
		}
		retry, err := s.start(ctx, starts)
		if err != nil {
			return err
		}
		later = cmp.Or(later, retry)
	}
}

// untried returns firings that have to start and were not tried yet, as many as are submitted together.
func (s *Scheduler) untried(tried map[events.TaskID]bool) []pendingStart {
	var starts []pendingStart
	for sc := range s.each() {
		for _, f := range sc.State.Starting {
			if id := sc.taskOf(f); sc.table != nil && !tried[id] && len(starts) < together {
				tried[id] = true
				starts = append(starts, pendingStart{sc, f})
			}
		}
	}
	return byName(starts)
}

// byName sorts firings by the names of their schedules.
func byName(list []pendingStart) []pendingStart {
	slices.SortStableFunc(list, func(a, b pendingStart) int { return cmp.Compare(a.schedule.Name, b.schedule.Name) })
	return list
}

// start submits the tasks of firings and records them. later is the error of a firing that has to be tried again.
func (s *Scheduler) start(ctx context.Context, starts []pendingStart) (later, err error) {
	request := api.SubmitBatchRequest{Tasks: make([]api.SubmitRequest, len(starts))}
	for i, p := range starts {
		request.Tasks[i] = p.schedule.submission(p.firing)
		s.watch(p.schedule.taskOf(p.firing), p.schedule.Name) // before the task can end
	}
	reply, err := s.cfg.Tasks.SubmitBatch(ctx, request)
	if err != nil {
		return nil, err
	}
	next := map[string]*schedules.State{}
	for i, p := range starts {
		state := next[p.schedule.Name]
		if state == nil {
			state = s.get(p.schedule.Name).State.Clone()
			next[p.schedule.Name] = state
		}
		if err := s.began(ctx, p, state, reply.Tasks[i]); err != nil {
			later = err
		}
	}
	return later, s.recordStates(ctx, next)
}

// began enters the answer to the submission of a firing into a state. It returns an error if the firing has to be tried again.
func (s *Scheduler) began(ctx context.Context, p pendingStart, state *schedules.State, item api.SubmitBatchItem) error {
	i := slices.IndexFunc(state.Starting, func(f schedules.Firing) bool { return f.At.Equal(p.firing.At) && f.Origin == p.firing.Origin })
	id := p.schedule.taskOf(p.firing)
	switch err := item.Error; {
	case err == nil:
		id = item.ID
		state.Begun(p.schedule.table, i, string(id), item.State.Terminal())
		if item.State.Terminal() {
			state.Ended(schedules.End{Task: string(id), State: string(item.State)}, string(statemachine.Done))
		}
	case fault.Has(err, fault.Conflict), fault.Has(err, fault.Gone): // the task of an earlier definition, or one that retention removed
		exists, over, failed := s.find(ctx, id)
		switch {
		case failed != nil:
			return failed
		case exists:
			state.Begun(p.schedule.table, i, string(id), over)
		case fault.From(err).Field == api.ConcurrencyKeyField:
			s.refuse(ctx, p, state, i, err)
		default: // another commit was first, which nobody can read yet
			return err
		}
	case isTransient(err) && !s.givesUp(p, id, err):
		return err
	default:
		s.refuse(ctx, p, state, i, err)
	}
	delete(s.refused, p.schedule.taskOf(p.firing))
	if !slices.ContainsFunc(state.Open, func(f schedules.Firing) bool { return f.Task == string(id) }) {
		s.unwatch(id)
	}
	return nil
}

func (s *Scheduler) unwatch(id events.TaskID) {
	s.watching.Lock()
	defer s.watching.Unlock()
	delete(s.watched, id)
	delete(s.ended, id)
}

// givesUp reports whether a firing that is refused is refused for longer than the catch-up window, and than a minute. A submission whose
// outcome is not known is repeated for ever: its task may exist.
func (s *Scheduler) givesUp(p pendingStart, id events.TaskID, err error) bool {
	if !fault.Has(err, fault.QuotaExceeded) {
		return false
	}
	now := s.cfg.Clock()
	first, again := s.refused[id]
	if !again {
		s.refused[id] = now
	}
	return again && now.Sub(first) > max(p.schedule.Definition.CatchUpWindow(), time.Minute)
}

// isTransient reports whether a submission may succeed later.
func isTransient(err error) bool {
	return slices.Contains([]fault.Code{fault.Unavailable, fault.DiskFull, fault.Timeout, fault.Cancelled, fault.Internal, fault.QuotaExceeded}, fault.From(err).Code)
}

// cancelReplaced cancels the tasks that later firings replace.
func (s *Scheduler) cancelReplaced(ctx context.Context) error {
	var replaced []pendingStart
	for sc := range s.each() {
		for _, f := range sc.State.Open {
			if f.Cancel && !s.isEnding(events.TaskID(f.Task)) {
				replaced = append(replaced, pendingStart{sc, f})
			}
		}
	}
	for _, p := range byName(replaced) {
		_, err := s.cfg.Tasks.Cancel(ctx, api.CancelRequest{ID: events.TaskID(p.firing.Task), Actor: p.schedule.Definition.By, Reason: "a later firing of the schedule " + p.schedule.Name + " replaces it"})
		if err != nil && isTransient(err) {
			return err
		}
	}
	return nil
}
