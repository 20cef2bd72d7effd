package schedules

import (
	"maps"
	"slices"
	"time"
)

// Limits of a state.
const (
	// MaxDecisions bounds the firings that one call of Advance decides.
	MaxDecisions = 1000
	// MaxMissed bounds the missed firings that are counted one by one after a time without a node.
	MaxMissed = 100_000
	// MaxOpen bounds the running tasks that a schedule knows: with more, it forgets the oldest.
	MaxOpen = 100
	// maxOutcomes bounds the outcomes that a state keeps.
	maxOutcomes = 20
	// clockTolerance is how far the clock may be behind the last decision. If it is further behind, the clock was wrong before, and
	// what was decided then does not count.
	clockTolerance = 24 * time.Hour
)

// Origin is why a firing exists.
type Origin string

// The origins.
const (
	ByTime   Origin = ""
	Trigger  Origin = "trigger"
	Backfill Origin = "backfill"
)

// Firing is one start of a task.
type Firing struct {
	// At is the instant that the rules name, without jitter, or the time at which somebody triggered the schedule.
	At     time.Time `json:"at"`
	Origin Origin    `json:"origin,omitempty"`
	// By is who triggered it.
	By string `json:"by,omitempty"`
	// Overlap is its policy; empty means that of the schedule.
	Overlap Overlap `json:"overlap,omitempty"`
	// Task is the id of its task, once it was submitted.
	Task string `json:"task,omitempty"`
	// Cancel is set if the task has to be cancelled, because another firing replaces it.
	Cancel bool `json:"cancel,omitempty"`
	// Since is when the firing was decided.
	Since time.Time `json:"since"`
}

// Result is what became of a firing.
type Result string

// The results.
const (
	Started Result = "started"
	Skipped Result = "skipped"
	Missed  Result = "missed"
	Failed  Result = "failed"
)

// Results returns all results.
func Results() []Result { return []Result{Started, Skipped, Missed, Failed} }

// Outcome is a firing with its result.
type Outcome struct {
	Firing

	Result Result `json:"result"`
	// Count is the number of firings in a row with this result, if there are several; At is then the last of them.
	Count int `json:"count,omitempty"`
	// Reason says why no task was started.
	Reason string `json:"reason,omitempty"`
	// End is the final state of the task, such as DONE; empty while it is not known.
	End string `json:"end,omitempty"`
}

// End is the end of a task.
type End struct {
	Task string `json:"task"`
	// State is its final state, such as DONE; empty if it is not known.
	State string `json:"state"`
}

// Pause is set while a schedule is paused.
type Pause struct {
	By   string    `json:"by"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"`
}

// State is what a schedule has decided. Its methods change it and read no clock.
type State struct {
	// Through is the last instant that was decided, or the time from which the definition counts.
	Through time.Time `json:"through"`
	Paused  *Pause    `json:"paused,omitempty"`
	// Starting are firings that were decided to start. Their tasks may exist already.
	Starting []Firing `json:"starting,omitempty"`
	// Open are the firings whose tasks have not ended, the last MaxOpen.
	Open []Firing `json:"open,omitempty"`
	// Buffered are firings that wait for the end of the open tasks, in order.
	Buffered []Firing `json:"buffered,omitempty"`
	// Outcomes are the last outcomes, the newest last.
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Counts are the numbers of outcomes since the schedule was created.
	Counts map[Result]int `json:"counts,omitempty"`
	// Failures is the number of tasks in a row that did not end in success, without those that a later firing has replaced.
	Failures int `json:"failures,omitempty"`
	// News and Ends are the outcomes, and the ends of tasks, since the last Change.
	News []Outcome `json:"news,omitempty"`
	Ends []End     `json:"ends,omitempty"`
}

// Change returns what has to be recorded of the state so that Apply computes it from the one before: all but the outcomes that
// were recorded before. It empties News and Ends.
func (s *State) Change() *State {
	c := *s.Clone()
	c.Outcomes, c.Counts = nil, nil
	s.News, s.Ends = nil, nil
	return &c
}

// Apply makes a recorded change.
func (s *State) Apply(c *State) {
	next := *c.Clone()
	next.Outcomes, next.Counts, next.News, next.Ends = s.Outcomes, s.Counts, nil, nil
	for _, o := range c.News {
		next.add(o)
	}
	for _, e := range c.Ends {
		next.enter(e)
	}
	*s = next
}

// Clone returns a copy that shares nothing with s.
func (s *State) Clone() *State {
	c := *s
	c.Starting, c.Open, c.Buffered = slices.Clone(s.Starting), slices.Clone(s.Open), slices.Clone(s.Buffered)
	c.Outcomes, c.News, c.Ends = slices.Clone(s.Outcomes), slices.Clone(s.News), slices.Clone(s.Ends)
	c.Counts = map[Result]int{}
	maps.Copy(c.Counts, s.Counts)
	return &c
}

// Advance decides about the firings that are due, at most MaxDecisions. It returns when to call it again, which is now if more are
// due; false if nothing will be due. id is that of the schedule, for its jitter.
func (s *State) Advance(t *Timetable, id string, now time.Time) (next time.Time, found bool) {
	if s.Paused != nil {
		return time.Time{}, false
	}
	if s.Through.After(now.Add(clockTolerance)) {
		s.Through = now
	}
	s.giveUp(t, now)
	decided := 0
	for at := range t.Between(s.Through, now) {
		due := at.Add(t.Delay(id, at))
		if due.After(now) {
			return due, true
		}
		if decided == MaxDecisions {
			return now, true
		}
		decided++
		s.Through = at
		if f := (Firing{At: at, Since: now}); now.Sub(due) > t.spec.CatchUpWindow() {
			s.conclude(Outcome{Firing: f, Result: Missed, Reason: "the node was not running"})
		} else {
			s.decide(t, f)
		}
	}
	if next, found = t.Next(later(now, s.Through)); found {
		next = next.Add(t.Delay(id, next))
	}
	return next, found
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// giveUp counts the firings that are too old to start, whatever their jitter. One that is exactly as old as the catch-up window is not.
func (s *State) giveUp(t *Timetable, now time.Time) {
	oldest := now.Add(-t.spec.CatchUpWindow() - t.spec.Jitter.Std() - 1)
	if !s.Through.Before(oldest) {
		return
	}
	missed, last := 0, time.Time{}
	for at := range t.Between(s.Through, oldest) {
		if missed, last = missed+1, at; missed == MaxMissed {
			break
		}
	}
	if s.Through = oldest; missed > 0 {
		s.conclude(Outcome{Firing: Firing{At: last, Since: now}, Result: Missed, Count: missed, Reason: "the node was not running"})
	}
}

// Fire decides about a firing that somebody asks for. It returns Drop, and does nothing, if the overlap policy drops it.
func (s *State) Fire(t *Timetable, f Firing) Action {
	action := t.spec.PolicyOf(f).Decide(s.running(), len(s.Buffered))
	if action != Drop {
		s.decide(t, f)
	}
	return action
}

// running returns the number of tasks that other firings may have to wait for.
func (s *State) running() int { return len(s.Starting) + len(s.Open) }

// decide records what happens to a firing.
func (s *State) decide(t *Timetable, f Firing) {
	switch t.spec.PolicyOf(f).Decide(s.running(), len(s.Buffered)) {
	case Start:
		s.Starting = append(s.Starting, f)
	case Buffer:
		s.Buffered = append(s.Buffered, f)
	case Replace:
		for _, dropped := range s.Buffered {
			s.conclude(Outcome{Firing: dropped, Result: Skipped, Reason: "a later firing replaced it"})
		}
		for i := range s.Open {
			s.Open[i].Cancel = true
		}
		s.Buffered = []Firing{f}
	case Drop:
		s.conclude(Outcome{Firing: f, Result: Skipped, Reason: s.Obstacle()})
	}
}

// Obstacle says what a firing would have to wait for.
func (s *State) Obstacle() string {
	if len(s.Buffered) > 0 {
		return "another firing is waiting"
	}
	if len(s.Open) > 0 && s.Open[0].Task != "" {
		return "task " + s.Open[0].Task + " was still running"
	}
	return "an earlier task was still running"
}

// Begun records that the firing at an index of Starting has a task.
func (s *State) Begun(t *Timetable, i int, task string, ended bool) {
	f := s.Starting[i]
	s.Starting = slices.Delete(s.Starting, i, i+1)
	f.Task = task
	s.conclude(Outcome{Firing: f, Result: Started})
	if !ended {
		f.Cancel = len(s.Buffered) > 0 && t.spec.PolicyOf(s.Buffered[0]) == CancelOther
		s.Open = append(s.Open, f)
		if excess := len(s.Open) - MaxOpen; excess > 0 {
			s.Open = slices.Delete(s.Open, 0, excess)
		}
	}
	s.promote()
}

// Refused records that the firing at an index of Starting cannot start.
func (s *State) Refused(i int, reason string) {
	f := s.Starting[i]
	s.Starting = slices.Delete(s.Starting, i, i+1)
	s.conclude(Outcome{Firing: f, Result: Failed, Reason: reason})
	s.promote()
}

// Ended records that a task has ended. success is the state of those that have ended well. A task that a later firing was to replace
// counts as none that has failed.
func (s *State) Ended(e End, success string) {
	replaced := slices.ContainsFunc(s.Open, func(f Firing) bool { return f.Task == e.Task && f.Cancel })
	s.Open = slices.DeleteFunc(s.Open, func(f Firing) bool { return f.Task == e.Task })
	switch {
	case e.State == success:
		s.Failures = 0
	case e.State != "" && !replaced:
		s.Failures++
	}
	s.Ends = append(s.Ends, e)
	s.enter(e)
	s.promote()
}

// enter enters the end of a task into its outcome.
func (s *State) enter(e End) {
	for i := range s.Outcomes {
		if s.Outcomes[i].Task == e.Task {
			s.Outcomes[i].End = e.State
		}
	}
}

// Resume ends a pause. Firings of the time of the pause are left out.
func (s *State) Resume(now time.Time) {
	s.Paused = nil
	s.CountFrom(now)
	s.promote()
}

// CountFrom leaves out the firings up to a time. With a clock that was set back it decides nothing again.
func (s *State) CountFrom(at time.Time) { s.Through = later(s.Through, at) }

// promote starts the first buffered firing if nothing is running.
func (s *State) promote() {
	if s.Paused == nil && s.running() == 0 && len(s.Buffered) > 0 {
		s.Starting = append(s.Starting, s.Buffered[0])
		s.Buffered = slices.Delete(s.Buffered, 0, 1)
	}
}

// conclude adds an outcome that was not recorded yet.
func (s *State) conclude(o Outcome) {
	s.News = append(s.News, o)
	s.add(o)
}

// add keeps an outcome and counts it. One that differs from the outcome before only in its instant becomes one with it.
func (s *State) add(o Outcome) {
	if s.Counts == nil {
		s.Counts = map[Result]int{}
	}
	s.Counts[o.Result] += max(o.Count, 1)
	if n := len(s.Outcomes); n > 0 {
		last := s.Outcomes[n-1]
		if last.Result == o.Result && o.Result != Started && last.Reason == o.Reason && last.Origin == o.Origin && last.By == o.By {
			o.Count = max(o.Count, 1) + max(last.Count, 1)
			s.Outcomes = s.Outcomes[:n-1]
		}
	}
	s.Outcomes = append(s.Outcomes, o)
	if excess := len(s.Outcomes) - maxOutcomes; excess > 0 {
		s.Outcomes = slices.Delete(s.Outcomes, 0, excess)
	}
}
