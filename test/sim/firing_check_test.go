package sim_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/schedules"
)

// record is a change of a schedule in the journal, as far as the check reads it.
type record struct {
	Name    string
	By      string
	Put     *struct{}
	Deleted bool
	State   *struct {
		Paused                   *struct{}
		Starting, Buffered, News []fired
	}
}

// fired is a firing in the journal; Result is what became of it.
type fired struct {
	At           time.Time
	Origin, By   string
	Overlap      schedules.Overlap
	Task, Result string
	Reason       string
	Count        int
}

// key names a firing of a schedule. An instant that the rules name and each backfill of it are several firings, with one task.
func (f fired) key() string { return f.At.UTC().Format(time.RFC3339Nano) + " " + f.Origin + f.By }

// span is a time in which the rules of a schedule count: on the wall clock after a time, and until a moment.
type span struct {
	definition schedules.Definition
	after      time.Time
	begin, end time.Time
}

// decision is what a schedule has decided about a firing, and when.
type decision struct {
	fired

	at time.Time
	// starting is when it was to start at once; zero while it waits for others. result is what became of it, and over when.
	starting, over time.Time
	result         string
}

// course is what the journal says of one schedule.
type course struct {
	w       *world
	name    string
	spans   []span
	defined bool
	paused  bool
	deleted bool
	// last is the last instant that was decided, or after which the rules count.
	last      time.Time
	decisions map[string]*decision
	order     []*decision
	waiting   []*decision
	tasks     map[string]*history // by instant, and whether it is that of a trigger
	requests  map[string]int
}

// checkFirings compares the journal of the schedules with an enumeration of their instants, with the down times, and with the tasks in
// the log: each instant is decided once and in time, and starts one task or none as its rules say.
func (w *world) checkFirings(past []*history) {
	if w.clockwork == nil {
		return
	}
	all := map[string]*course{}
	for n, e := range w.clockwork.entries() {
		var records []record
		if err := json.NewDecoder(bytes.NewReader(e.data)).Decode(&records); err != nil {
			w.fail("entry %d of the journal: %v", n+1, err)
			return
		}
		for _, r := range records {
			c := all[r.Name]
			if c == nil {
				c = &course{w: w, name: r.Name, decisions: map[string]*decision{}, tasks: map[string]*history{}, requests: map[string]int{}}
				all[r.Name] = c
				c.find(past)
			}
			c.read(r, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		all[name].finish()
	}
	w.checkSteering(all)
	for _, h := range past {
		if s := h.task.Submitted.Schedule; s != nil && all[s.Name] == nil {
			w.fail("F2: task %s is of a schedule %s that nobody has defined", h.id, s.Name)
		}
	}
}

// instant is the part of a key that is the same for all firings that share a task.
func instant(at time.Time, trigger bool) string {
	return at.UTC().Format(time.RFC3339Nano) + " " + strconv.FormatBool(trigger)
}

// find finds the tasks of the schedule. A retry is not started by its schedule.
func (c *course) find(past []*history) {
	for _, h := range past {
		s := h.task.Submitted
		if s.Schedule == nil || s.Schedule.Name != c.name || s.RetryOf != "" {
			continue
		}
		at := instant(s.Schedule.Time, strings.HasSuffix(s.IdempotencyKey, "/trigger"))
		if c.tasks[at] != nil {
			c.w.fail("F1: the instant %s of %s has two tasks: %s and %s", at, c.name, c.tasks[at].id, h.id)
		}
		c.tasks[at] = h
	}
}

// read reads a change.
func (c *course) read(r record, e entry) {
	by := c.w.clockwork.asked[r.By]
	if r.By != "" && (by == nil || by.name != c.name) {
		c.w.fail("F5: %s has changed %s", r.By, c.name)
		return
	}
	c.requests[r.By]++
	switch {
	case c.deleted:
		c.w.fail("F2: the deleted schedule %s goes on: %s", c.name, e.data)
	case r.Deleted:
		c.close(e)
		c.deleted = true
		c.waiting = nil
	case r.Put != nil:
		c.close(e)
		c.defined = true
		c.open(by.definition, e)
		if c.paused {
			c.close(e)
		}
	default:
		c.readState(r, e, by)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// open begins a time in which rules count. With a clock that was set back they name nothing again.
func (c *course) open(d schedules.Definition, e entry) {
	c.last = latest(c.last, e.wall)
	c.spans = append(c.spans, span{definition: d, after: c.last, begin: e.at})
}

// close ends the time in which the current rules count.
func (c *course) close(e entry) {
	if n := len(c.spans); n > 0 && c.spans[n-1].end.IsZero() {
		c.spans[n-1].end = e.at
	}
}

// current returns the rules that count now, nil if none do.
func (c *course) current() *span {
	if n := len(c.spans); n > 0 && c.spans[n-1].end.IsZero() {
		return &c.spans[n-1]
	}
	return nil
}

// readState reads a change of the state.
func (c *course) readState(r record, e entry, by *steering) {
	if paused := r.State.Paused != nil; paused != c.paused {
		if want := map[bool][]string{true: {"pause_one", "put"}, false: {"resume_one"}}[paused]; by == nil || !slices.Contains(want, by.what) {
			c.w.fail("F5: %s is paused or resumed by %q", c.name, r.By)
		}
		if c.paused = paused; paused {
			c.close(e)
		} else {
			c.open(c.spans[len(c.spans)-1].definition, e)
		}
	}
	c.decide(r, e, by)
	c.conclude(r, e)
	for _, f := range r.State.Starting {
		if d := c.decisions[f.key()]; d != nil && d.starting.IsZero() {
			d.starting = e.at
		}
	}
}

// decide reads the firings of a change that were not decided before.
func (c *course) decide(r record, e entry, by *steering) {
	results := map[string]fired{}
	var fresh []fired
	for _, f := range slices.Concat(r.State.News, r.State.Starting, r.State.Buffered) {
		if f.Result == string(schedules.Missed) && f.Count > 1 {
			fresh = append(fresh, c.missed(f)...)
			continue
		}
		if f.Result != "" {
			results[f.key()] = f
		}
		if c.decisions[f.key()] == nil && !slices.ContainsFunc(fresh, func(x fired) bool { return x.key() == f.key() }) {
			fresh = append(fresh, f)
		} else if f.Result == string(schedules.Missed) || f.Result != "" && c.decisions[f.key()] != nil && c.decisions[f.key()].result != "" {
			c.w.fail("F1: the firing %s of %s has ended twice: %s", f.key(), c.name, e.data)
		}
	}
	slices.SortStableFunc(fresh, func(a, b fired) int { return a.At.Compare(b.At) })
	starting := map[string]bool{}
	for _, f := range r.State.Starting {
		starting[f.key()] = true
	}
	for i, f := range fresh {
		d := &decision{fired: f, at: e.at}
		d.Result = ""
		c.mayFire(f, e, by)
		switch result := results[f.key()].Result; {
		case f.Result == string(schedules.Missed):
			c.mayMiss(f, e)
			d.result, d.over = f.Result, e.at
		case result == string(schedules.Skipped):
			c.maySkip(f, fresh[i+1:], e)
		default:
			c.mayStart(f, starting[f.key()], e)
		}
		if starting[f.key()] {
			d.starting = e.at
		}
		c.decisions[f.key()] = d
		c.order = append(c.order, d)
		if d.result == "" {
			c.waiting = append(c.waiting, d)
		}
		if f.Origin == "" {
			c.last = latest(c.last, f.At)
		}
	}
}

// missed returns the firings of an outcome that counts several that were missed.
func (c *course) missed(f fired) []fired {
	s := c.current()
	if s == nil {
		c.w.fail("F2: %s misses firings while its rules do not count", c.name)
		return nil
	}
	var list []fired
	for at := range instants(s.definition, latest(s.after, c.last), f.At) {
		one := f
		one.At, one.Count = at, 0
		list = append(list, one)
	}
	if len(list) != f.Count {
		c.w.fail("F3: %s misses %d firings up to %s, there were %d", c.name, f.Count, f.At, len(list))
	}
	return list
}

// mayFire checks that a firing exists: that the rules name its instant, or that somebody has asked for it.
func (c *course) mayFire(f fired, e entry, by *steering) {
	switch f.Origin {
	case "":
		s := c.current()
		if s == nil || !f.At.After(s.after) || f.At.After(e.wall) || !names(s.definition, f.At) {
			c.w.fail("F2: %s decides about %s at %s, which its rules do not name: %+v", c.name, f.At, e.wall, s)
		}
	case string(schedules.Trigger):
		if by == nil || by.what != "trigger" {
			c.w.fail("F2: nobody has triggered %s: %s", c.name, e.data)
		}
	default:
		if by == nil || by.what != "backfill" || f.At.Before(by.from) || f.At.After(by.to) {
			c.w.fail("F2: nobody has asked for the firing %s of %s", f.key(), c.name)
		}
	}
}

// mayMiss checks that a firing was too late when it was decided.
func (c *course) mayMiss(f fired, e entry) {
	if s := c.current(); s != nil && e.wall.Sub(f.At) <= s.definition.CatchUpWindow() {
		c.w.fail("F3: %s misses %s at %s, which is in its catch-up window", c.name, f.At, e.wall)
	}
}

// policy returns the overlap policy of a firing.
func (c *course) policy(f fired) schedules.Overlap {
	d := c.spans[len(c.spans)-1].definition
	if f.Origin == string(schedules.Backfill) && f.Overlap == "" {
		return schedules.BufferAll
	}
	return d.PolicyOf(schedules.Firing{Overlap: f.Overlap})
}

// buffered counts the firings that wait for the end of a task.
func (c *course) buffered() int {
	n := 0
	for _, d := range c.waiting {
		if d.starting.IsZero() {
			n++
		}
	}
	return n
}

// running counts the tasks that the schedule has started and that end after a moment.
func (c *course) running(at time.Time) int {
	n := 0
	for _, d := range c.order {
		if d.result != string(schedules.Started) {
			continue
		}
		h := c.tasks[instant(d.At, d.Origin == string(schedules.Trigger))]
		if h == nil {
			continue
		}
		if died, over := c.w.clockwork.died[h.id]; !over || died.After(at) {
			n++
		}
	}
	return n
}

// notice is how long a scheduler may not know that a task has ended: it can be told late only if its owner learns it late.
const notice = 15 * time.Second

// maySkip checks that a firing that is skipped met another one.
func (c *course) maySkip(f fired, later []fired, e entry) {
	others := len(c.waiting) + c.running(e.since.Add(-notice))
	if c.w.overlapped {
		others += len(c.order) // the other owner may not know yet
	}
	allowed := false
	switch c.policy(f) {
	case schedules.Skip:
		allowed = others >= 1
	case schedules.BufferOne:
		allowed = c.buffered() > 0
	case schedules.CancelOther:
		allowed = len(later) > 0
	default: // nothing is skipped
	}
	if !allowed {
		c.w.fail("F4: %s skips %s at %s with %d others", c.name, f.key(), e.wall, others)
	}
}

// mayStart checks that a firing starts, or waits, as its overlap policy says.
func (c *course) mayStart(f fired, now bool, e entry) {
	waiting, running := len(c.waiting), c.running(e.at)
	policy := c.policy(f)
	drop := policy == schedules.Skip && waiting+running > 0 || policy == schedules.BufferOne && c.buffered() > 0
	if drop || now && policy != schedules.AllowAll && waiting+running > 0 {
		c.w.fail("F4: %s lets %s start at %s beside %d that wait and %d that run, under %s", c.name, f.key(), e.wall, waiting, running, policy)
	}
	if s := c.current(); f.Origin == "" && s != nil && e.wall.Sub(f.At) > s.definition.CatchUpWindow()+s.definition.Jitter.Std() {
		c.w.fail("F3: %s starts %s at %s, which is too late", c.name, f.At, e.wall)
	}
}

// conclude reads what has become of firings.
func (c *course) conclude(r record, e entry) {
	for _, f := range r.State.News {
		d := c.decisions[f.key()]
		if d == nil || d.result != "" {
			continue // decide has complained, or it is missed
		}
		if f.Result == string(schedules.Skipped) && d.at.Before(e.at) && c.policy(fired{}) != schedules.CancelOther {
			c.w.fail("F4: %s drops %s, which waits", c.name, f.key())
		}
		d.result, d.over, d.Reason = f.Result, e.at, f.Reason
		c.waiting = slices.DeleteFunc(c.waiting, func(x *decision) bool { return x == d })
	}
}
