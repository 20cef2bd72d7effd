package worker

import (
	"sync"
	"time"

	"github.com/orch-dev/orch/work"
)

// attemptTable holds the attempts that this worker has accepted and not reported yet.
type attemptTable struct {
	slots, maxUnreported int

	mu       sync.Mutex
	attempts map[work.Ref]*attempt
	// executing counts the attempts that have not ended yet. The remaining ones wait to be reported.
	executing int
	// abandoned counts the ended calls whose tools still run. hanging counts the same calls by tool.
	abandoned int
	hanging   map[string]int
	// lease is the shortest lease seen, 0 before the first.
	lease time.Duration
	// wake is called once when a slot becomes free.
	wake func()
}

func newAttemptTable(cfg Config) *attemptTable {
	return &attemptTable{slots: cfg.Concurrency, maxUnreported: cfg.MaxUnreported, attempts: map[work.Ref]*attempt{}, hanging: map[string]int{}}
}

// add adds an attempt. If the table contains the attempt already, add changes nothing and returns known. shortestLease is true
// if the lease of the attempt is the shortest so far.
func (r *attemptTable) add(a *attempt) (known, shortestLease bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts[a.Ref] != nil {
		return true, false
	}
	r.attempts[a.Ref] = a
	r.executing++
	if a.Lease > 0 && (r.lease == 0 || a.Lease < r.lease) {
		r.lease, shortestLease = a.Lease, true
	}
	return false, shortestLease
}

// ended frees the slot of an attempt that now waits to be reported.
func (r *attemptTable) ended() { r.change(func() { r.executing-- }) }

// remove removes an attempt whose report was answered.
func (r *attemptTable) remove(ref work.Ref) { r.change(func() { delete(r.attempts, ref) }) }

// abandon counts a tool that still runs after its call was abandoned.
func (r *attemptTable) abandon(tool string) { r.addHanging(tool, 1) }

// returned subtracts an abandoned tool that has returned.
func (r *attemptTable) returned(tool string) { r.addHanging(tool, -1) }

// addHanging adds by to the counts. A tool that returns just when it is abandoned may be subtracted before it is added, so a
// count may briefly be -1.
func (r *attemptTable) addHanging(tool string, by int) {
	r.change(func() {
		r.abandoned += by
		if r.hanging[tool] += by; r.hanging[tool] == 0 {
			delete(r.hanging, tool)
		}
	})
}

// hangs returns how many abandoned calls of a tool still run, and whether that reaches the limit for one tool: half of the
// slots.
func (r *attemptTable) hangs(tool string) (n int, enough bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.hanging[tool]
	return n, n >= max(1, r.slots/2)
}

// stuck reports whether abandoned calls hold every slot. The first r.slots of them hold none (see freeLocked).
func (r *attemptTable) stuck() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.abandoned >= 2*r.slots
}

// change calls do with mu held, and then the function of onFree if a slot is free.
func (r *attemptTable) change(do func()) {
	r.mu.Lock()
	do()
	var wake func()
	if r.wake != nil && r.freeLocked() > 0 {
		wake, r.wake = r.wake, nil
	}
	r.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// free returns how many calls the worker can accept now.
func (r *attemptTable) free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freeLocked()
}

// freeLocked is free for callers that hold mu. The first r.slots abandoned tools hold no slot. Each further one holds a slot,
// which limits the goroutines of hanging tools.
func (r *attemptTable) freeLocked() int {
	slots := r.slots - r.executing - max(0, r.abandoned-r.slots)
	unreported := r.maxUnreported - (len(r.attempts) - r.executing)
	return max(0, min(slots, unreported))
}

// onFree registers wake, which is called once as soon as a slot is free, possibly at once. Nil unregisters it.
func (r *attemptTable) onFree(wake func()) { r.change(func() { r.wake = wake }) }

// find returns the attempt with a ref, or nil.
func (r *attemptTable) find(ref work.Ref) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[ref]
}

// all returns the attempts in no particular order.
func (r *attemptTable) all() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*attempt, 0, len(r.attempts))
	for _, a := range r.attempts {
		list = append(list, a)
	}
	return list
}

func (r *attemptTable) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.attempts)
}

// figures returns how many attempts there are.
func (r *attemptTable) figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Figures{Slots: r.slots, Running: r.executing, Unreported: len(r.attempts) - r.executing, Abandoned: max(r.abandoned, 0)}
}

// shortestLease returns the shortest lease seen, or a default before the first.
func (r *attemptTable) shortestLease() time.Duration {
	const usual = 30 * time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == 0 {
		return usual
	}
	return r.lease
}
