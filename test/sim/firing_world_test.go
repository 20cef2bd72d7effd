package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// clockwork is what outlives the schedulers: the journal, the wall clock, and what the check of the firings has to know of the run.
type clockwork struct {
	mu      sync.Mutex
	journal []entry
	exists  atomic.Bool
	late    []*gate
	// unseen is set when such an entry has come that no scheduler has read: none knows it before it writes the next one.
	unseen bool
	// skew is how far the wall clock is ahead of the one of the owners.
	skew atomic.Int64

	// asked are the requests of people, by the name of who made them; names are the schedules that may exist.
	asked map[string]*steering
	names []string
	put   int
	// troubles counts the failures, spells are the times without any.
	troubles int
	spells   []spell
	// born and died are when the first and the last commit of a task were written.
	born, died map[events.TaskID]time.Time
}

// entry is an entry of the journal. since is when it was asked for, and wall the time on the clock of the scheduler then; at is when it was written.
type entry struct {
	data            []byte
	since, wall, at time.Time
}

// steering is a request about a schedule.
type steering struct {
	what, name string
	definition schedules.Definition
	overlap    schedules.Overlap
	from, to   time.Time
	// acknowledged is set when its answer has arrived, and at when that was.
	acknowledged bool
	task         events.TaskID
}

// spell is a time in which one owner served without a failure, and nobody set the clock.
type spell struct {
	from, to time.Time
	// skew is how far the wall clock was ahead.
	skew     time.Duration
	owner    int
	troubles int
}

func newClockwork() *clockwork {
	return &clockwork{asked: map[string]*steering{}, born: map[events.TaskID]time.Time{}, died: map[events.TaskID]time.Time{}}
}

// wall returns the time on the wall clock.
func (w *world) wall() time.Time { return time.Now().Add(w.ahead()) }

// ahead returns how far the wall clock is ahead.
func (w *world) ahead() time.Duration {
	return time.Duration(w.skew.Load() + w.clockwork.skew.Load())
}

func (c *clockwork) entries() []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.journal)
}

// append appends an entry to the journal, if it was not changed since.
func (c *clockwork) append(g *gate) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.after != uint64(len(c.journal)) {
		return 0, fault.New(fault.Conflict, "another change was first")
	}
	c.journal = append(c.journal, entry{g.data, g.since, g.wall, time.Now()})
	return g.after + 1, nil
}

func (c *clockwork) hasLate() bool { return c != nil && len(c.late) > 0 }

func (c *clockwork) hasUnseen() bool { return c != nil && c.unseen }

// appendLateEntry appends an entry that was given up, if nothing else was appended before.
func (w *world) appendLateEntry() {
	if !w.clockwork.hasLate() {
		return
	}
	i := w.rnd.IntN(len(w.clockwork.late))
	g := w.clockwork.late[i]
	w.clockwork.late = slices.Delete(w.clockwork.late, i, i+1)
	_, err := w.clockwork.append(g)
	w.clockwork.unseen = w.clockwork.unseen || err == nil
	w.trouble()
	w.logf("the late entry %d comes: %v", g.after+1, err)
}

// written records when the histories of tasks begin and end.
func (c *clockwork) written(r events.Record) {
	if c == nil {
		return
	}
	if r.Rev == 1 {
		c.born[r.Task] = time.Now()
	}
	if _, over := c.died[r.Task]; !over && statemachine.State(r.State).Terminal() {
		c.died[r.Task] = time.Now()
	}
}

// trouble ends a spell without failures.
func (w *world) trouble() {
	if w.clockwork != nil {
		w.clockwork.troubles++
	}
}

// look looks whether all is well, before and after time passes.
func (c *clockwork) look(w *world) {
	if c == nil || !w.serene() {
		return
	}
	now := spell{from: time.Now(), to: time.Now(), skew: w.ahead(), owner: w.owner.n, troubles: c.troubles}
	if n := len(c.spells); n > 0 {
		if last := &c.spells[n-1]; last.skew == now.skew && last.owner == now.owner && last.troubles == now.troubles {
			last.to = now.to
			return
		}
	}
	c.spells = append(c.spells, now)
}

// serene reports whether there is one owner, the newest one, that serves, and neither a fault nor a request that waits.
func (w *world) serene() bool {
	o := w.owner
	calm := o != nil && o.n == w.owners && !w.clockwork.unseen && w.old == nil && o.firing.serves.Load() && !w.full && len(w.armed) == 0 && len(o.gates()) == 0 && len(o.link.waiting()) == 0 && !o.NodePaused()
	if !calm {
		w.trouble()
	}
	return calm
}

// doSchedule does something to a schedule, to the clock, or for a while nothing.
func (w *world) doSchedule(a act) {
	switch a.Do {
	case "nap":
		w.advance(time.Duration(10+a.A%80)*time.Second + time.Duration(a.B)*time.Microsecond)
	case "sleep":
		w.kill(w.owner)
		w.kill(w.old)
		<-time.After(time.Duration(5+a.A%400)*time.Second + time.Duration(a.B)*time.Microsecond)
		w.up()
	case "clock":
		w.trouble()
		w.clockwork.skew.Add(int64(a.A%600-250) * int64(time.Second))
		w.logf("the wall clock is %s ahead", w.ahead())
	case "put":
		w.put(a)
	default:
		if len(w.clockwork.names) > 0 {
			w.steer(a, w.clockwork.names[a.A%len(w.clockwork.names)])
		}
	}
}

// maxSchedules is the number of schedules in a run.
const maxSchedules = 3

// put defines a schedule, or repeats a definition.
func (w *world) put(a act) {
	c := w.clockwork
	if len(c.names) == maxSchedules {
		return
	}
	name := fmt.Sprint("n", c.put+1)
	if w.define(name, w.script.Schedules[a.A%len(w.script.Schedules)], a.B%4 == 3, false) {
		c.put++
		c.names = append(c.names, name)
	}
}

// define sends a definition, if anybody serves.
func (w *world) define(name string, d schedules.Definition, paused, replace bool) bool {
	s := &steering{what: "put", name: name, definition: d}
	return w.steerWith(s, func(ctx context.Context, f *firing, actor string) error {
		_, err := f.PutSchedule(ctx, api.PutScheduleRequest{Name: name, Definition: d, Paused: paused, Replace: replace, Actor: actor})
		return err
	})
}

// definition returns the newest definition that somebody has asked for.
func (c *clockwork) definition(name string) schedules.Definition {
	var d schedules.Definition
	for i := range len(c.asked) {
		if s := c.asked[actorNo(i)]; s.what == "put" && s.name == name {
			d = s.definition
		}
	}
	return d
}

func actorNo(i int) string { return fmt.Sprint("user:", i) }

// steerWith makes a request about a schedule, with an actor of its own.
func (w *world) steerWith(s *steering, do func(ctx context.Context, f *firing, actor string) error) bool {
	o := w.any()
	if o == nil || !o.firing.serves.Load() {
		return false
	}
	actor := actorNo(len(w.clockwork.asked))
	w.clockwork.asked[actor] = s
	w.call(o, s.what+" "+s.name+" as "+actor, func(ctx context.Context, _ *orchestrator.Orchestrator) error {
		return do(ctx, o.firing, actor)
	}, func(err error) {
		if s.acknowledged = err == nil; err != nil && !passing(err) && !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Conflict) && !fault.Has(err, fault.Cancelled) &&
			(s.what != "backfill" || !fault.Has(err, fault.ValidationError)) { // the clock may have been set back meanwhile
			w.fail("%s of the schedule %s: %v", s.what, s.name, err)
		}
	})
	return true
}

func (w *world) steer(a act, name string) {
	s := &steering{what: a.Do, name: name}
	switch a.Do {
	case "replace":
		d := w.clockwork.definition(name)
		d.Plan, d.Jitter = w.script.Schedules[a.B%len(w.script.Schedules)].Plan, seconds(a.B%3*7)
		w.define(name, d, false, true)
		return
	case "backfill":
		s.to = w.wall().Truncate(time.Second).Add(-time.Duration(a.B%5*10) * time.Second)
		s.from = s.to.Add(-time.Duration(a.B%150) * time.Second)
	case "trigger":
		s.overlap = []schedules.Overlap{"", "", schedules.AllowAll}[a.B%3]
	case "delete":
		w.clockwork.names = slices.DeleteFunc(slices.Clone(w.clockwork.names), func(x string) bool { return x == name })
	}
	w.steerWith(s, func(ctx context.Context, f *firing, actor string) error {
		r := api.SteerScheduleRequest{Name: name, Act: scheduleActs[a.Do], Actor: actor, Overlap: s.overlap}
		if a.Do == "backfill" {
			r.From, r.To = &s.from, &s.to
		}
		reply, err := f.SteerSchedule(ctx, r)
		s.task = reply.Task
		return err
	})
}

var scheduleActs = map[string]string{
	"trigger": api.ActTrigger, "pause_one": api.ActPause, "resume_one": api.ActResume, "backfill": api.ActBackfill, "delete": api.ActDelete,
}

// views returns all schedules.
func (w *world) views() []api.ScheduleView {
	var reply api.SchedulesReply
	w.now("list schedules", func(ctx context.Context, _ *orchestrator.Orchestrator) (err error) {
		reply, err = w.owner.firing.Schedules(ctx, api.SchedulesRequest{})
		return err
	})
	return reply.Schedules
}

// calm is a time in which a scheduler without faults must decide, and start, what is due.
const calm = 7 * time.Second

// endSchedules lets the schedules catch up, and ends them: what they have decided goes on.
func (w *world) endSchedules() {
	if w.clockwork == nil {
		return
	}
	w.advance(calm + 2*time.Second)
	for range 2 { // a late entry makes the first change fail, and may define a schedule
		for _, v := range w.views() {
			w.endSchedule(v)
		}
	}
}

func (w *world) endSchedule(v api.ScheduleView) {
	if v.Paused != nil {
		w.steer(act{Do: "resume_one"}, v.Name)
		w.runUntilIdle()
	}
	if v.Spec.Until == nil {
		d := w.clockwork.definition(v.Name)
		d.Until = new(w.wall())
		w.define(v.Name, d, false, true)
		w.runUntilIdle()
	}
}

// drained reports whether no schedule has a firing that is not over.
func (w *world) drained() bool {
	if w.clockwork == nil {
		return true
	}
	return !slices.ContainsFunc(w.views(), func(v api.ScheduleView) bool { return len(v.Running)+len(v.Buffered) > 0 })
}
