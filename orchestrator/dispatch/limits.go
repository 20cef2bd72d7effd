package dispatch

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// The values of Limit.By.
const (
	ByIdentity = "identity"
	ByKey      = "key"
)

// Limit bounds how many calls start within a time, or run at the same time (ADR 0066). It holds for the calls that match all of its
// patterns. A call starts when it is leased, so each attempt counts.
type Limit struct {
	// Tool, Queue, Provider, Identity and Key are patterns of path.Match for the tool, the queue, the provider of models, the identity that
	// the call acts for, and the limit key of its task; "" matches all.
	Tool, Queue, Provider, Identity, Key string
	// Starts is how many calls may start within any Window; 0 for no limit.
	Starts int
	Window time.Duration
	// Running is how many calls may run at the same time; 0 for no limit.
	Running int
	// By says who has the limit for itself: each identity (ByIdentity), or each limit key (ByKey), where the calls without a key have
	// theirs together. "" means that all calls share it.
	By string
}

// String describes the limit, such as "tool HTTP_REQUEST, at most 30 within 1m".
func (l Limit) String() string {
	var of, most []string
	for _, p := range [][2]string{{"tool", l.Tool}, {"queue", l.Queue}, {"provider", l.Provider}, {"identity", l.Identity}, {"key", l.Key}} {
		if p[1] != "" {
			of = append(of, p[0]+" "+p[1])
		}
	}
	if l.Starts > 0 {
		most = append(most, fmt.Sprintf("at most %d within %s", l.Starts, short(l.Window)))
	}
	if l.Running > 0 {
		most = append(most, fmt.Sprintf("at most %d at the same time", l.Running))
	}
	text := strings.Join(append(of, most...), ", ")
	if l.By != "" {
		text += " for each " + l.By
	}
	return text
}

// short returns a duration without parts that are 0, such as 1m for 1m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// OfKeys reports whether the limit asks for the limit keys of tasks.
func (l Limit) OfKeys() bool { return l.By == ByKey || l.Key != "" }

// ofAll reports whether the limit is the same for all keys.
func (l Limit) ofAll() bool { return !l.OfKeys() }

// matches reports whether the limit holds for the calls of a lane.
func (l Limit) matches(lane *Lane) bool { return l.matchesAnyKey(lane) && fits(l.Key, lane.Key) }

// matchesAnyKey is matches without the pattern of the key.
func (l Limit) matchesAnyKey(lane *Lane) bool {
	return fits(l.Tool, lane.Tool) && fits(l.Queue, lane.Queue) && fits(l.Provider, lane.Provider) && fits(l.Identity, lane.Requester)
}

// fits reports whether a text matches a pattern that is known to be valid.
func fits(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return pattern == "" || ok && err == nil
}

// limits counts the calls for which there are limits.
type limits struct {
	now   func() time.Time
	rules []Limit
	// keyed are the rules that ask for the limit keys of tasks.
	keyed []Limit
	// counts has what the limits have seen. A count that is missing has seen nothing.
	counts map[countKey]*count
	// timed are the lanes that wait for a time because of their keys. longest is the longest window of a limit.
	timed   timedLanes
	longest time.Duration
}

// countKey is the number of a limit, and the identity or the limit key that it is counted for if each has its own.
type countKey struct {
	rule int
	of   string
}

// count is what a limit has seen.
type count struct {
	Limit

	// starts holds the times of the newest starts, the oldest first, as many as the limit allows.
	starts  []time.Time
	running int
	// waiting is set if a family waits because too many run. held are the lanes that wait for that because of their keys.
	waiting bool
	held    map[*keyLane]bool
}

// hold notes that a lane waits until fewer calls run.
func (c *count) hold(w *keyLane) {
	if c.held == nil {
		c.held = map[*keyLane]bool{}
	}
	c.held[w] = true
}

func newLimits(rules []Limit, now func() time.Time) *limits {
	keyed := slices.DeleteFunc(slices.Clone(rules), func(l Limit) bool { return !l.OfKeys() })
	var longest time.Duration
	for _, l := range rules {
		longest = max(longest, l.Window)
	}
	return &limits{now: now, longest: longest, rules: rules, keyed: keyed, counts: map[countKey]*count{}}
}

// find returns which counts hold for a lane.
func (l *limits) find(lane *Lane) (keys []countKey) {
	for i, rule := range l.rules {
		if !rule.matches(lane) {
			continue
		}
		key := countKey{rule: i}
		switch rule.By {
		case ByIdentity:
			key.of = lane.Requester
		case ByKey:
			key.of = lane.Key
		}
		keys = append(keys, key)
	}
	return keys
}

// forget removes a lane from those that wait.
func (l *limits) forget(w *keyLane) {
	l.timed.remove(w)
	for _, key := range w.limits {
		if c := l.counts[key]; c != nil {
			delete(c.held, w)
		}
	}
}

// waiting returns the number of lanes that wait because of their keys.
func (l *limits) waiting() int {
	n := len(l.timed)
	for _, c := range l.counts {
		n += len(c.held)
	}
	return n
}

// pruneEvery is after how many new counts those that have nothing left to count are removed.
const pruneEvery = 1024

// prune removes the counts that have nothing left to count.
func (l *limits) prune() {
	now := l.now()
	for key, c := range l.counts {
		if c.running == 0 && !c.recent(now) {
			delete(l.counts, key)
		}
	}
}

// recent reports whether a call has started within the window.
func (c *count) recent(now time.Time) bool {
	return len(c.starts) > 0 && now.Sub(c.starts[len(c.starts)-1]) < c.Window
}

// free returns when a call may start: the zero time for now, and full if another one has to end first. nil has seen nothing.
func (c *count) free(now time.Time) (at time.Time, full bool) {
	if c == nil {
		return time.Time{}, false
	}
	if c.Running > 0 && c.running >= c.Running {
		return time.Time{}, true
	}
	for i := len(c.starts) - 1; i >= 0 && c.starts[i].After(now); i-- {
		c.starts[i] = now // the clock was set back
	}
	if c.Starts > 0 && len(c.starts) >= c.Starts {
		if at = c.starts[0].Add(c.Window); at.After(now) {
			return at, false
		}
	}
	return time.Time{}, false
}

// start counts a call that starts.
func (c *count) start(now time.Time) {
	c.running++
	if c.Starts == 0 {
		return
	}
	if len(c.starts) >= c.Starts {
		c.starts = c.starts[1:]
	}
	c.starts = append(c.starts, now)
}

// limiting returns the count of the first limit that keeps the calls of a lane from starting now, of those with OfKeys and of the others as
// selected, and when they may start; the zero time if another call has to end. It returns nil if there is none.
func (l *limits) limiting(w *keyLane, selected func(Limit) bool) (by *count, at time.Time) {
	if len(w.limits) == 0 {
		return nil, time.Time{}
	}
	now := l.now()
	for _, key := range w.limits {
		if !selected(l.rules[key.rule]) {
			continue
		}
		c := l.counts[key]
		if at, full := c.free(now); full || !at.IsZero() {
			return c, at
		}
	}
	return nil, time.Time{}
}

// start counts a lease of a lane.
func (l *limits) start(w *keyLane) {
	for _, key := range w.limits {
		c := l.counts[key]
		if c == nil {
			if len(l.counts)%pruneEvery == pruneEvery-1 {
				l.prune()
			}
			c = &count{Limit: l.rules[key.rule]}
			l.counts[key] = c
		}
		c.start(l.now())
	}
}

// limited reports whether a limit keeps all calls of a family from starting now. It remembers when they may.
func (d *Dispatcher) limited(f *family) bool {
	by, at := d.limits.limiting(&f.single, Limit.ofAll)
	switch {
	case by == nil:
		return false
	case at.IsZero():
		by.waiting = true
	default:
		d.wakeAt(at)
	}
	return true
}

// hold reports whether a limit of keys keeps the calls of a lane from starting now. If so it shuts the lane until they may.
func (d *Dispatcher) hold(w *keyLane) bool {
	by, at := d.limits.limiting(w, Limit.OfKeys)
	switch {
	case by == nil:
		return false
	case at.IsZero():
		by.hold(w)
	default:
		d.limits.timed.add(w, at)
		d.wakeAt(at)
	}
	w.shut()
	return true
}

// wakeAt requests a Wake at a time, unless an earlier one was requested.
func (d *Dispatcher) wakeAt(at time.Time) {
	if d.wake.IsZero() || at.Before(d.wake) {
		d.wake = at
		d.cfg.WakeAt(at)
	}
}

// Wake offers the calls that waited for a time. The owner calls it at the times that it was given by Config.WakeAt, or later.
func (d *Dispatcher) Wake() {
	d.wake = time.Time{}
	d.limits.prune()
	d.lanes.releaseDue()
	if at, ok := d.limits.timed.next(); ok {
		d.wakeAt(at)
	}
	d.lanes.refresh(func(f *family) bool { return len(f.single.limits) > 0 })
	d.Dispatch()
}

// WithKey returns the lane of the calls of a task with a limit key. Calls that no limit asks for their key share a lane whatever their key.
func (d *Dispatcher) WithKey(lane Lane, key string) Lane {
	if key != "" && slices.ContainsFunc(d.limits.keyed, func(l Limit) bool { return l.matchesAnyKey(&lane) }) {
		lane.Key = key
	}
	return lane
}

// LimitOf returns the limit that keeps a queued call from starting, and when it may start; the zero time if another call has to end.
// It returns false if there is none.
func (d *Dispatcher) LimitOf(q *Queued) (limit Limit, at time.Time, ok bool) {
	if q == nil {
		return Limit{}, time.Time{}, false
	}
	by, at := d.limits.limiting(q.lane, func(Limit) bool { return true })
	if by == nil {
		return Limit{}, time.Time{}, false
	}
	return by.Limit, at, true
}
