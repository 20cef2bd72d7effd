package sender

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/plan"
)

// node is who pauses a destination whose receiver wants no deliveries.
const node = "node"

// definition is what somebody has defined, as the journal stores it.
type definition struct {
	destinations.Definition

	ID        string    `json:"id"`
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// item is a delivery that waits, or a dead letter. It names the place of its event in the log.
type item struct {
	Task  events.TaskID `json:"task"`
	Rev   uint64        `json:"rev"`
	Index int           `json:"index,omitempty"`
	Seq   uint64        `json:"seq"`
	Type  string        `json:"type"`
	At    time.Time     `json:"at"`
	// Attempts is the number of attempts that have failed, Next the time of the next one, Last the last one.
	Attempts int                  `json:"attempts,omitempty"`
	Next     time.Time            `json:"next,omitzero"`
	Last     *api.DeliveryAttempt `json:"last,omitempty"`
	// Early is when an attempt is due that does not count, because the receiver takes deliveries again; zero for none.
	Early time.Time `json:"early,omitzero"`
}

// due reports whether an attempt is due.
func (i *item) due(now time.Time) bool {
	return !i.Next.After(now) || !i.Early.IsZero() && !i.Early.After(now)
}

func (i *item) id() string { return destinations.ID(i.Task, i.Rev, i.Index) }

func (i *item) view(waits bool) api.DeliveryView {
	v := api.DeliveryView{ID: i.id(), Type: i.Type, Task: string(i.Task), At: i.At, Attempts: i.Attempts, Last: i.Last}
	if waits {
		v.NextAt = &i.Next
	}
	return v
}

// destination is a destination with its deliveries. Sender.mu guards its fields; items are replaced, never changed.
type destination struct {
	Name       string       `json:"name"`
	Definition definition   `json:"definition"`
	Paused     *hooks.Pause `json:"paused,omitempty"`
	// Cursor may be ahead of what is recorded if nothing was found in between; Recorded is what the journal has.
	Cursor   follow.Cursor `json:"cursor"`
	Recorded uint64        `json:"-"`
	// Pending and Dead are in the order of the log.
	Pending       []*item              `json:"pending,omitempty"`
	Dead          []*item              `json:"dead,omitempty"`
	Delivered     int                  `json:"delivered,omitempty"`
	LastDelivered *time.Time           `json:"last_delivered,omitempty"`
	LastFailure   *api.DeliveryAttempt `json:"last_failure,omitempty"`

	// rules is nil if this version of orch cannot compile the expression.
	rules *plan.HookRules
	// known are the ids of deliveries that were taken lately, flying those of which an attempt is in progress.
	known, flying map[string]bool
	// restsUntil is until when it gets no deliveries after a failure of the node.
	restsUntil time.Time
}

// maxFlying is the maximum number of attempts that a destination makes at the same time. There is more than one if its receiver is slow.
const maxFlying = 8

// launch returns the first delivery that is due and marks it as flying; nil if there is none, or if too many are flying.
func (d *destination) launch(now time.Time) *item {
	if len(d.flying) >= maxFlying {
		return nil
	}
	i := d.next(now)
	if i == nil {
		return nil
	}
	if d.flying == nil {
		d.flying = map[string]bool{}
	}
	d.flying[i.id()] = true
	return i
}

// probeAfter is the time after a failure when a full destination tries again whatever its deliveries wait for, and the shortest time
// between two attempts of a delivery of which one does not count.
const probeAfter = 5 * time.Minute

// next returns the first delivery that is due, nil if there is none.
func (d *destination) next(now time.Time) *item {
	for _, i := range d.Pending {
		if i.due(now) && !d.flying[i.id()] {
			return i
		}
	}
	if len(d.flying) == 0 && d.full() && d.LastFailure != nil && now.Sub(d.LastFailure.At) >= probeAfter { // else newer events would wait for as long as it does
		return d.Pending[0]
	}
	return nil
}

// recovered makes everything due that has failed, after an attempt at a time has succeeded.
func (d *destination) recovered(at time.Time) {
	for n, i := range d.Pending {
		if i.Attempts > 0 && i.Last != nil && at.Sub(i.Last.At) >= probeAfter {
			early := *i
			early.Early = at
			d.Pending[n] = &early
		}
	}
}

func (d *destination) full() bool { return len(d.Pending) >= MaxPending }

// maxKnown bounds destination.known.
const maxKnown = 4 * MaxPending

// take adds deliveries that are not known.
func (d *destination) take(items []*item) {
	if d.known == nil || len(d.known) > maxKnown {
		d.known = map[string]bool{}
		for _, i := range slices.Concat(d.Pending, d.Dead) {
			d.known[i.id()] = true
		}
	}
	for _, i := range items {
		if id := i.id(); !d.known[id] {
			d.known[id] = true
			d.Pending = append(d.Pending, i)
		}
	}
	inOrder(d.Pending)
}

func inOrder(items []*item) {
	slices.SortStableFunc(items, func(a, b *item) int {
		if a.Seq != b.Seq {
			return compare(a.Seq, b.Seq)
		}
		return a.Index - b.Index
	})
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// remove removes a delivery from a list and returns it; nil if it is not there.
func remove(list *[]*item, id string) *item {
	at := slices.IndexFunc(*list, func(i *item) bool { return i.id() == id })
	if at < 0 {
		return nil
	}
	found := (*list)[at]
	*list = slices.Delete(*list, at, at+1)
	return found
}

// view returns the view for clients, with a number of deliveries in each list.
func (d *destination) view(deliveries int) api.DestinationView {
	def := d.Definition
	v := api.DestinationView{
		Name: d.Name, ID: def.ID, Definition: def.Definition, Requestor: def.By, CreatedAt: def.CreatedAt, UpdatedAt: def.UpdatedAt,
		Paused: d.Paused, Delivered: d.Delivered, Pending: len(d.Pending), Dead: len(d.Dead), Full: d.full(),
		LastDelivered: d.LastDelivered, LastFailure: d.LastFailure,
	}
	if len(d.Pending) > 0 {
		v.OldestPending = &d.Pending[0].At
	}
	for _, i := range d.Pending[:min(deliveries, len(d.Pending))] {
		v.PendingDeliveries = append(v.PendingDeliveries, i.view(true))
	}
	for _, i := range d.Dead[:min(deliveries, len(d.Dead))] {
		v.DeadDeliveries = append(v.DeadDeliveries, i.view(false))
	}
	return v
}
