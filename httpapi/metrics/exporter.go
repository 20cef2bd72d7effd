package metrics

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/stats"
)

// Exporter writes the metrics of one process. It remembers which names have series of their own, so that no series changes its
// meaning while the process lives. It is safe for concurrent use; the zero value is ready.
type Exporter struct {
	mu        sync.Mutex
	begun     bool
	tools     names
	queues    names
	servers   names
	providers names
	// others are the calls of tools without series of their own since the first text. seen are the counters of these tools at the
	// newest text.
	others toolCalls
	seen   map[string]toolCalls
	// lost counts the calls that have lost their worker, lostSeen those by tool at the newest text.
	lost     uint64
	lostSeen map[string]uint64
}

// Text returns the metrics of a snapshot, and the number of their series.
func (e *Exporter) Text(s *Snapshot) (exposition []byte, series int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := &view{Snapshot: s}
	if n := s.Node; n != nil {
		e.addTools(v, n.Tools)
		v.queues = queuesOf(&e.queues, n.Queues)
		v.servers = e.servers.own(MaxServers, slices.Sorted(maps.Keys(n.Servers)))
		v.providers = e.providers.own(MaxProviders, slices.Sorted(maps.Keys(n.Providers)))
		e.begun = true
	}
	t := &text{}
	t.groups(v, Groups())
	return t.out, t.series
}

// WorkerText returns the metrics of a process of orch worker.
func WorkerText(s *Snapshot) []byte {
	t := &text{}
	t.groups(&view{Snapshot: s}, WorkerGroups())
	return t.out
}

// groups adds the metrics of groups that the process has.
func (t *text) groups(v *view, groups []Group) {
	for _, group := range groups {
		for i := range group.Families {
			t.family, t.begun = &group.Families[i], false
			if v.Node != nil || v.Worker != nil || t.family.Standby {
				t.family.write(v, t)
			}
		}
	}
}

// view is a snapshot with bounded labels.
type view struct {
	*Snapshot

	// tools has a row for each tool with series of its own and, if there are others, one for these.
	tools []toolCalls
	lost  uint64
	// queues are sorted by name, with one for all others.
	queues             []namedQueue
	servers, providers []string
}

type namedQueue struct {
	name string
	Queue
}

// names selects the names that have series of their own. A name keeps them.
type names struct{ known map[string]bool }

// own returns the names with series of their own, in the given order, after it has given some to further names.
func (n *names) own(most int, all []string) (own []string) {
	for _, name := range all {
		if n.has(most, name) {
			own = append(own, name)
		}
	}
	return own
}

// has reports whether a name has series of its own, and gives it some while there are fewer than most.
func (n *names) has(most int, name string) bool {
	if !n.known[name] && len(n.known) < most && name != Other {
		if n.known == nil {
			n.known = map[string]bool{}
		}
		n.known[name] = true
	}
	return n.known[name]
}

// outcome is how a call has ended.
type outcome int

// The outcomes of calls.
const (
	succeeded outcome = iota
	failed
	denied
	timeout
	lost
	cancelled
	outcomes
)

func (o outcome) String() string {
	return [outcomes]string{"succeeded", "failed", "denied", "timeout", "lost", "cancelled"}[o]
}

// outcomeOf returns the outcome for an error code.
func outcomeOf(code fault.Code) outcome {
	switch code {
	case fault.Unauthorized, fault.Forbidden, fault.TokenExpired, fault.ApprovalRequired, fault.ApprovalRejected, fault.ApprovalExpired, fault.ToolDisabled,
		fault.OutsideRoot, fault.ReadOnly, fault.CommandNotAllowed, fault.SecretDetected, fault.ProtectedPath:
		return denied
	case fault.WorkerLost, fault.InDoubt:
		return lost
	case fault.Timeout:
		return timeout
	case fault.Cancelled:
		return cancelled
	default:
		return failed
	}
}

// toolCalls are the calls of a tool, or of several.
type toolCalls struct {
	tool   string
	counts [outcomes]uint64
	took   time.Duration
}

func callsOf(name string, c *stats.Counter) toolCalls {
	t := toolCalls{tool: name, took: c.Took}
	t.counts[succeeded] = c.Successes
	for code, n := range c.Errors {
		t.counts[outcomeOf(code)] += n
	}
	return t
}

// since adds what a counter has counted since another state of it. A counter that has become smaller has started anew.
func (t *toolCalls) since(now, then toolCalls) {
	if now.took < then.took {
		then = toolCalls{}
	}
	for i := range t.counts {
		if now.counts[i] < then.counts[i] {
			then.counts[i] = 0
		}
		t.counts[i] += now.counts[i] - then.counts[i]
	}
	t.took += now.took - then.took
}

// addTools adds the calls to a view.
func (e *Exporter) addTools(v *view, tools map[string]*stats.Counter) {
	byUse := slices.SortedFunc(maps.Keys(tools), func(a, b string) int {
		return cmp.Or(cmp.Compare(tools[b].Count, tools[a].Count), cmp.Compare(a, b))
	})
	e.others.tool = Other
	now, lostNow, beyond := map[string]toolCalls{}, map[string]uint64{}, false
	for _, name := range byUse {
		calls := callsOf(name, tools[name])
		if n := tools[name].Errors[fault.WorkerLost]; n > 0 {
			lostNow[name] = n
			if was := e.lostSeen[name]; n >= was {
				e.lost += n - was
			} else {
				e.lost += n
			}
		}
		if e.tools.has(MaxTools, name) {
			v.tools = append(v.tools, calls)
			continue
		}
		beyond = true
		now[name] = calls
		if e.begun { // the first text counts nothing: which tools have series of their own may differ after each start
			e.others.since(calls, e.seen[name])
		}
	}
	e.seen, e.lostSeen, v.lost = now, lostNow, e.lost
	slices.SortFunc(v.tools, func(a, b toolCalls) int { return cmp.Compare(a.tool, b.tool) })
	if beyond || e.others.counts != ([outcomes]uint64{}) {
		v.tools = append(v.tools, e.others)
	}
}

// queuesOf returns the queues that have series of their own, and the sum of the others.
func queuesOf(own *names, all map[string]Queue) (queues []namedQueue) {
	rest := namedQueue{name: Other}
	beyond := false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := all[name]
		if own.has(MaxQueues, name) {
			queues = append(queues, namedQueue{name, q})
			continue
		}
		beyond = true
		rest.Calls += q.Calls
		if rest.Since.IsZero() || q.Since.Before(rest.Since) {
			rest.Since = q.Since
		}
	}
	for name := range own.known { // a queue that is empty now is still reported
		if _, ok := all[name]; !ok {
			queues = append(queues, namedQueue{name: name})
		}
	}
	slices.SortFunc(queues, func(a, b namedQueue) int { return cmp.Compare(a.name, b.name) })
	if beyond {
		queues = append(queues, rest)
	}
	return queues
}
