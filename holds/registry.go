package holds

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
)

const (
	// Max limits the holds of a node. Each needs about 300 bytes of memory.
	Max = 100_000
	// keepReleased is how many ended holds are remembered.
	keepReleased = 1000
	// snapshotEvery is the number of entries after which a snapshot replaces them.
	snapshotEvery = 1024
)

// change is the change that a request makes, whole or not at all. A placed hold has no field Released, an ended one has.
type change struct {
	Holds []api.Hold `json:"holds"`
}

// snapshot is the state of all holds.
type snapshot struct {
	Holds    []api.Hold `json:"holds"`
	Released []api.Hold `json:"released,omitempty"`
}

// key identifies a hold.
type key struct {
	task   events.TaskID
	reason string
}

// Registry contains the holds of a node. All methods are safe for concurrent use.
type Registry struct {
	// turn is held while holds are changed. It guards state.
	turn  sync.Mutex
	state *journaled.State[change]

	// removing is read-locked while tasks are removed, and locked while holds are placed.
	removing sync.RWMutex

	mu       sync.RWMutex
	holds    map[key]api.Hold
	families map[events.TaskID]map[key]bool
	released []api.Hold
}

// New returns a registry without holds, whose journal open opens. A nil open keeps the holds in memory.
func New(open journaled.Open) *Registry {
	r := &Registry{holds: map[key]api.Hold{}, families: map[events.TaskID]map[key]bool{}}
	if open != nil {
		r.state = journaled.New(journaled.Config[change]{
			What: "holds", Open: open, Every: snapshotEvery, Load: r.loadSnapshot,
			Save: func() any { return snapshot{r.List(false), r.released} },
			Apply: func(changes []change, _ bool) {
				for _, c := range changes {
					r.apply(c.Holds)
				}
			},
		})
	}
	return r
}

// Start reads the journal, if there is one. Errors: DATA_LOSS, UNAVAILABLE.
func (r *Registry) Start(ctx context.Context) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.state == nil {
		return nil
	}
	return r.state.Start(ctx)
}

// Guard keeps holds from being placed until release is called. Whoever removes tasks checks Held after Guard, so that a hold
// is placed either before the check or after the removal.
func (r *Registry) Guard() (release func()) {
	r.removing.RLock()
	return r.removing.RUnlock
}

// Held reports whether a task of a family is held. A family is named by its topmost parent.
func (r *Registry) Held(family events.TaskID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.families[family]) > 0
}

// Tasks returns the tasks that are held.
func (r *Registry) Tasks() map[events.TaskID]bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	tasks := make(map[events.TaskID]bool, len(r.holds))
	for k := range r.holds {
		tasks[k.task] = true
	}
	return tasks
}

// Count returns the number of holds.
func (r *Registry) Count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.holds)
}

// Of returns the holds on the tasks of a family, by task and reason.
func (r *Registry) Of(family events.TaskID) []api.Hold {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []api.Hold
	for k := range r.families[family] {
		all = append(all, r.holds[k])
	}
	slices.SortFunc(all, byTask)
	return all
}

// List returns the holds by task and reason, or the ended ones, the newest first.
func (r *Registry) List(released bool) []api.Hold {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if released {
		all := slices.Clone(r.released)
		slices.Reverse(all)
		return all
	}
	all := make([]api.Hold, 0, len(r.holds))
	for _, h := range r.holds {
		all = append(all, h)
	}
	slices.SortFunc(all, byTask)
	return all
}

func byTask(a, b api.Hold) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Reason, b.Reason))
}

// Place records the holds that choose returns, and returns them once they are durable. A hold with the same task and reason as
// another one changes nothing, and the other one is returned. choose is called while no task is removed.
func (r *Registry) Place(ctx context.Context, choose func() ([]api.Hold, error)) ([]api.Hold, error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.removing.Lock()
	defer r.removing.Unlock()
	if err := r.reload(ctx); err != nil {
		return nil, err
	}
	chosen, err := choose()
	if err != nil {
		return nil, err
	}
	var fresh []api.Hold
	reply := make([]api.Hold, len(chosen))
	for i, h := range chosen {
		r.mu.RLock()
		old, held := r.holds[key{h.Task, h.Reason}]
		r.mu.RUnlock()
		if reply[i] = h; held {
			reply[i] = old
		} else {
			fresh = append(fresh, h)
		}
	}
	if len(r.holds)+len(fresh) > Max { // only turns change holds
		return nil, fault.New(fault.QuotaExceeded, "there are %d holds, and at most %d are possible", len(r.holds), Max).WithHint("release some: orch hold release TASK")
	}
	return reply, r.record(ctx, fresh)
}

// Release ends holds that choose selects from all, and returns them once that is durable.
func (r *Registry) Release(ctx context.Context, choose func(all []api.Hold) ([]api.Hold, error), end api.HoldRelease) ([]api.Hold, error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if err := r.reload(ctx); err != nil {
		return nil, err
	}
	chosen, err := choose(r.List(false))
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		chosen[i].Released = &end
	}
	return chosen, r.record(ctx, chosen)
}

// record records a change and makes it.
func (r *Registry) record(ctx context.Context, changed []api.Hold) error {
	switch {
	case len(changed) == 0:
		return nil
	case r.state == nil:
		r.apply(changed)
		return nil
	default:
		return r.state.Record(ctx, change{changed})
	}
}

// reload reads the journal if the holds may be older.
func (r *Registry) reload(ctx context.Context) error {
	if r.state == nil {
		return nil
	}
	return r.state.Reload(ctx)
}

func (r *Registry) loadSnapshot(data []byte) error {
	var s snapshot
	if err := journaled.Decode(data, &s); err != nil {
		return err
	}
	r.apply(slices.Concat(s.Holds, s.Released))
	return nil
}

// apply makes recorded changes.
func (r *Registry) apply(changed []api.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range changed {
		k := key{h.Task, h.Reason}
		if h.Released == nil {
			r.holds[k] = h
			if r.families[h.Family] == nil {
				r.families[h.Family] = map[key]bool{}
			}
			r.families[h.Family][k] = true
			continue
		}
		delete(r.holds, k)
		if delete(r.families[h.Family], k); len(r.families[h.Family]) == 0 {
			delete(r.families, h.Family)
		}
		r.released = append(r.released, h)
	}
	r.released = r.released[max(0, len(r.released)-keepReleased):]
}
