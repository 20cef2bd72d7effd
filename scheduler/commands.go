package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

// Schedules implements api.Schedules.
func (s *Scheduler) Schedules(_ context.Context, r api.SchedulesRequest) (api.SchedulesReply, error) {
	if r.Upcoming < 0 || r.Upcoming > api.MaxUpcoming {
		return api.SchedulesReply{}, fault.New(fault.ValidationError, "must be between 0 and %d", api.MaxUpcoming).WithField("upcoming")
	}
	chosen := s.list()
	if r.Name != "" {
		one := s.get(r.Name)
		if one == nil {
			return api.SchedulesReply{}, unknown(r.Name)
		}
		chosen = []*schedule{one}
	}
	reply := api.SchedulesReply{Schedules: make([]api.ScheduleView, len(chosen))}
	for i, one := range chosen {
		reply.Schedules[i] = one.view(max(r.Upcoming, 1))
	}
	return reply, nil
}

func unknown(name string) error {
	return fault.New(fault.NotFound, "there is no schedule %q", clip(name)).WithField("name").WithHint("orch schedule list shows them")
}

// PutSchedule implements api.Schedules.
func (s *Scheduler) PutSchedule(ctx context.Context, r api.PutScheduleRequest) (api.ScheduleView, error) {
	if err := schedules.CheckName(r.Name); err != nil {
		return api.ScheduleView{}, err
	}
	if err := s.checkDefinition(ctx, r); err != nil {
		return api.ScheduleView{}, err
	}
	r.Definition.Note = s.cfg.Redact(r.Definition.Note)
	if err := s.beginTurn(ctx); err != nil {
		return api.ScheduleView{}, err
	}
	defer s.endTurn()
	defer s.nudge()
	if err := s.reload(ctx); err != nil {
		return api.ScheduleView{}, err
	}
	put, err := s.defined(r)
	if err != nil {
		return api.ScheduleView{}, err
	}
	if was := s.get(r.Name); was == nil || !sameDefinition(was.Definition, put) {
		if err := s.state.Record(ctx, change{Name: r.Name, By: r.Actor, Put: &put}); err != nil {
			return api.ScheduleView{}, err
		}
	}
	if sc := s.get(r.Name); r.Paused {
		if _, err := s.pause(ctx, sc, api.SteerScheduleRequest{Actor: r.Actor}); err != nil {
			return api.ScheduleView{}, err
		}
	}
	return s.get(r.Name).view(1), nil
}

// checkDefinition checks a definition as far as that is possible without the other schedules.
func (s *Scheduler) checkDefinition(ctx context.Context, r api.PutScheduleRequest) error {
	if err := checkNote(r.Definition.Note); err != nil {
		return err
	}
	if len(r.Definition.Plan) == 0 {
		return fault.New(fault.RequiredField, "is missing").WithField("plan").WithHint("a schedule submits a plan")
	}
	if size := len(r.Definition.Plan) + len(r.Definition.Inputs); size > schedules.MaxText {
		return fault.New(fault.ValidationError, "the plan and its inputs have %d bytes, the limit is %d", size, schedules.MaxText).WithField("plan")
	}
	if _, err := schedules.Compile(r.Definition.Spec); err != nil {
		return err
	}
	trial := schedule{Name: r.Name, Definition: definition{Definition: r.Definition, Root: r.Root, By: r.Actor}}
	return s.cfg.Tasks.Check(ctx, trial.submission(schedules.Firing{At: s.now()}))
}

// defined returns the definition of a request. It keeps the id of an existing schedule.
func (s *Scheduler) defined(r api.PutScheduleRequest) (definition, error) {
	now := s.now()
	put := definition{Definition: r.Definition, ID: events.ScheduleIDFrom(now, s.cfg.Entropy), Root: cmp.Or(r.Root, s.cfg.Root), By: r.Actor, CreatedAt: now, UpdatedAt: now}
	was := s.get(r.Name)
	switch {
	case was == nil && s.count() >= MaxSchedules:
		return put, fault.New(fault.QuotaExceeded, "there are %d schedules", MaxSchedules).WithHint("delete some: orch schedule delete NAME")
	case was == nil:
		return put, nil
	case !r.Replace && !sameDefinition(was.Definition, put):
		return put, fault.New(fault.Conflict, "there is a schedule %s with another definition", r.Name).WithField("name").
			WithHint("choose another name, or replace its definition: --replace")
	}
	put.ID, put.CreatedAt = was.Definition.ID, was.Definition.CreatedAt
	return put, nil
}

// now returns the time in the precision of the log.
func (s *Scheduler) now() time.Time { return events.Time(s.cfg.Clock()) }

// SteerSchedule implements api.Schedules.
func (s *Scheduler) SteerSchedule(ctx context.Context, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	if err := checkNote(r.Note); err != nil {
		return api.SteerScheduleReply{}, err
	}
	if err := schedules.CheckOverlap(r.Overlap); err != nil {
		return api.SteerScheduleReply{}, err
	}
	act := s.acts()[r.Act]
	if act == nil {
		return api.SteerScheduleReply{}, fault.New(fault.ValidationError, "%q is not an act", clip(r.Act)).WithField("act").
			WithHint("use %s", strings.Join([]string{api.ActPause, api.ActResume, api.ActTrigger, api.ActBackfill, api.ActDelete}, ", "))
	}
	if err := s.beginTurn(ctx); err != nil {
		return api.SteerScheduleReply{}, err
	}
	defer s.endTurn()
	defer s.nudge()
	if err := s.reload(ctx); err != nil {
		return api.SteerScheduleReply{}, err
	}
	sc := s.get(r.Name)
	if sc == nil {
		return api.SteerScheduleReply{}, unknown(r.Name)
	}
	return act(ctx, sc, r)
}

type act func(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error)

func (s *Scheduler) acts() map[string]act {
	return map[string]act{
		api.ActPause: s.pause, api.ActResume: s.resume, api.ActTrigger: s.trigger, api.ActBackfill: s.backfill, api.ActDelete: s.erase,
	}
}

// steered records a state and returns the schedule with it.
func (s *Scheduler) steered(ctx context.Context, sc *schedule, state *schedules.State, by string) (api.SteerScheduleReply, error) {
	if err := s.state.Record(ctx, change{Name: sc.Name, By: by, State: state.Change()}); err != nil {
		return api.SteerScheduleReply{}, err
	}
	return api.SteerScheduleReply{Schedule: s.get(sc.Name).view(1)}, nil
}

// pause pauses a schedule; a second pause changes nothing.
func (s *Scheduler) pause(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	if sc.State.Paused != nil {
		return api.SteerScheduleReply{Schedule: sc.view(1)}, nil
	}
	next := sc.State.Clone()
	next.Paused = &schedules.Pause{By: r.Actor, At: s.now(), Note: s.cfg.Redact(r.Note)}
	return s.steered(ctx, sc, next, r.Actor)
}

func (s *Scheduler) resume(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	if sc.State.Paused == nil {
		return api.SteerScheduleReply{Schedule: sc.view(1)}, nil
	}
	next := sc.State.Clone()
	next.Resume(s.now())
	return s.steered(ctx, sc, next, r.Actor)
}

// erase deletes a schedule. Its tasks go on.
func (s *Scheduler) erase(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	return api.SteerScheduleReply{Schedule: sc.view(1)}, s.state.Record(ctx, change{Name: sc.Name, By: r.Actor, Deleted: true})
}

// trigger fires a schedule now, also while it is paused.
func (s *Scheduler) trigger(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	now := s.triggerTime(sc)
	f := schedules.Firing{At: now, Origin: schedules.Trigger, By: r.Actor, Overlap: r.Overlap, Since: now}
	if err := s.usable(ctx, sc, f); err != nil {
		return api.SteerScheduleReply{}, err
	}
	next := sc.State.Clone()
	action := next.Fire(sc.table, f)
	if action == schedules.Drop {
		return api.SteerScheduleReply{}, fault.New(fault.Conflict, "the overlap policy %s permits no further task: %s", sc.Definition.PolicyOf(f), next.Obstacle()).
			WithHint("start one beside it: --overlap allow_all")
	}
	reply, err := s.steered(ctx, sc, next, r.Actor)
	if err != nil {
		return reply, err
	}
	s.lastTrigger = now
	if err := s.startAll(ctx); err != nil {
		s.log.LogAttrs(ctx, slog.LevelDebug, "schedules_delayed", slog.Any("error", err)) // it is recorded, and Run tries again
	}
	started := s.get(sc.Name)
	reply.Schedule = started.view(1)
	id := string(sc.taskOf(f))
	if slices.ContainsFunc(started.State.Outcomes, func(o schedules.Outcome) bool { return o.Task == id }) {
		reply.Task = events.TaskID(id)
	}
	return reply, nil
}

// triggerTime returns a time for a trigger that no other one of the schedule has: it is part of the idempotency key.
func (s *Scheduler) triggerTime(sc *schedule) time.Time {
	now := s.now()
	if !now.After(s.lastTrigger) {
		now = s.lastTrigger.Add(time.Microsecond)
	}
	known := slices.Concat(sc.State.Starting, sc.State.Open, sc.State.Buffered)
	for _, o := range sc.State.Outcomes {
		known = append(known, o.Firing)
	}
	for slices.ContainsFunc(known, func(f schedules.Firing) bool { return f.Origin == schedules.Trigger && f.At.Equal(now) }) {
		now = now.Add(time.Microsecond)
	}
	return now
}

// usable returns why a firing cannot start a task.
func (s *Scheduler) usable(ctx context.Context, sc *schedule, f schedules.Firing) error {
	if sc.table == nil {
		return fault.New(fault.ValidationError, "this version of orch cannot use the rules of the schedule").WithField("name").WithHint("replace its definition")
	}
	return s.cfg.Tasks.Check(ctx, sc.submission(f))
}

// backfill fires for the instants of a time in the past that have no task.
func (s *Scheduler) backfill(ctx context.Context, sc *schedule, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	if err := s.checkPeriod(r); err != nil {
		return api.SteerScheduleReply{}, err
	}
	if err := s.usable(ctx, sc, schedules.Firing{At: *r.From}); err != nil {
		return api.SteerScheduleReply{}, err
	}
	missing, err := s.withoutTask(ctx, sc, *r.From, *r.To)
	if err != nil {
		return api.SteerScheduleReply{}, err
	}
	next, fired, now := sc.State.Clone(), 0, s.now()
	for _, at := range missing {
		f := schedules.Firing{At: at, Origin: schedules.Backfill, By: r.Actor, Overlap: r.Overlap, Since: now}
		if f.Overlap == "" {
			f.Overlap = schedules.BufferAll
		}
		if next.Fire(sc.table, f) != schedules.Drop {
			fired++
		}
	}
	if fired == 0 {
		return api.SteerScheduleReply{Schedule: sc.view(1)}, nil
	}
	reply, err := s.steered(ctx, sc, next, r.Actor)
	reply.Firings = fired
	return reply, err
}

func (s *Scheduler) checkPeriod(r api.SteerScheduleRequest) error {
	switch {
	case r.From == nil:
		return fault.New(fault.RequiredField, "is missing").WithField("from").WithHint("such as 2026-11-01T00:00:00Z")
	case r.To == nil:
		return fault.New(fault.RequiredField, "is missing").WithField("to").WithHint("such as 2026-11-08T00:00:00Z")
	case r.To.Before(*r.From):
		return fault.New(fault.ValidationError, "is before from").WithField("to")
	case r.To.After(s.cfg.Clock()):
		return fault.New(fault.ValidationError, "is in the future").WithField("to").WithHint("a backfill is for the past")
	default:
		return nil
	}
}

// withoutTask returns the instants of a time that no task was started for, and that are not decided to start.
func (s *Scheduler) withoutTask(ctx context.Context, sc *schedule, from, to time.Time) ([]time.Time, error) {
	waiting := map[string]bool{}
	for _, f := range slices.Concat(sc.State.Starting, sc.State.Buffered) {
		waiting[sc.key(f)] = true
	}
	var missing []time.Time
	for at := range sc.table.Between(from.Add(-1), to) {
		f := schedules.Firing{At: at}
		if waiting[sc.key(f)] {
			continue
		}
		_, err := s.cfg.Tasks.Get(ctx, api.GetRequest{ID: sc.taskOf(f)})
		switch {
		case err == nil || fault.Has(err, fault.Gone):
		case !fault.Has(err, fault.NotFound):
			return nil, err
		case len(missing) == api.MaxBackfill:
			return nil, fault.New(fault.ValidationError, "there are more than %d firings between from and to", api.MaxBackfill).WithField("from").
				WithHint("do it in parts")
		default:
			missing = append(missing, at)
		}
	}
	return missing, nil
}
