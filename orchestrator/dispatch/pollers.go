package dispatch

import (
	"container/list"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Offer is a call whose large arguments still lie in the blob store.
type Offer struct {
	Call         work.Call
	Args, Handed events.Value
	Checkpoints  []events.Checkpointed
	Answers      []*statemachine.Question
}

// Delivery is what a poll brings, before large values are fetched.
type Delivery struct {
	// Number is the number of the batch, 0 for one without calls.
	Number uint64
	Offers []Offer
	Cancel []work.Ref
}

// Empty reports whether there is nothing to bring.
func (d Delivery) Empty() bool { return len(d.Offers) == 0 && len(d.Cancel) == 0 }

// Poller is a worker that waits for work. A worker that waits was offered all that there was before, so only the lanes with new
// calls, and the workers with new cancellations, are looked at.
type Poller struct {
	// Out brings the delivery that ends the wait.
	Out chan Delivery

	poll work.Poll
	// element is its place among those who can take calls, nil for a worker without a free slot.
	element *list.Element
}

// pollers holds the workers that wait, each with one poll.
type pollers struct {
	byWorker map[string]*Poller
	// queue holds those who can take calls, the one that has waited longest first.
	queue *list.List
	// serving counts those in queue by the queues that they serve.
	serving map[string]int
}

func newPollers() pollers {
	return pollers{byWorker: map[string]*Poller{}, queue: list.New(), serving: map[string]int{}}
}

// queuesOf returns the queues that a poll is for.
func queuesOf(p work.Poll) []string {
	if len(p.Queues) == 0 {
		return []string{work.DefaultQueue}
	}
	return p.Queues
}

// add keeps a poller whose worker has no other poll.
func (w *pollers) add(p *Poller) {
	w.byWorker[p.poll.Worker] = p
	if p.poll.Free <= 0 {
		return
	}
	p.element = w.queue.PushBack(p)
	for _, queue := range queuesOf(p.poll) {
		w.serving[queue]++
	}
}

// remove takes a poller out; one that is no longer in does nothing.
func (w *pollers) remove(p *Poller) {
	if w.byWorker[p.poll.Worker] == p {
		delete(w.byWorker, p.poll.Worker)
	}
	if p.element == nil {
		return
	}
	w.queue.Remove(p.element)
	p.element = nil
	for _, queue := range queuesOf(p.poll) {
		if w.serving[queue]--; w.serving[queue] == 0 {
			delete(w.serving, queue)
		}
	}
}

// supersede answers the older poll of a worker, which has one at a time: what it would bring is lost,
// because nobody waits for it any more.
func (w *pollers) supersede(worker string) {
	if p := w.byWorker[worker]; p != nil {
		w.remove(p)
		p.Out <- Delivery{}
	}
}

// Poll returns what there is for a worker, or what waits for it until Leave: nil when the poll does not wait.
func (d *Dispatcher) Poll(p work.Poll) (Delivery, *Poller) {
	w := d.Touch(p.Worker, p.Queues, d.cfg.Now())
	w.Agent, w.slots = p.Agent, p.Slots
	d.pollers.supersede(p.Worker)
	d.requeueIfLost(p, w)
	if now := d.nextDelivery(p); !now.Empty() || p.Wait <= 0 {
		return now, nil
	}
	waiting := &Poller{poll: p, Out: make(chan Delivery, 1)}
	d.pollers.add(waiting)
	return Delivery{}, waiting
}

// EndPoll ends the wait of a poller and returns what it was given in that moment.
func (d *Dispatcher) EndPoll(p *Poller) Delivery {
	d.pollers.remove(p)
	select {
	case now := <-p.Out:
		return now
	default:
		return Delivery{}
	}
}

// RequeueDelivery takes back what could not be delivered.
func (d *Dispatcher) RequeueDelivery(worker string, back Delivery) {
	if w := d.workers[worker]; w != nil {
		w.cancel = append(back.Cancel, w.cancel...)
		d.cancelled = append(d.cancelled, worker)
	}
	for _, of := range back.Offers {
		d.cfg.Owner.Requeue(worker, of.Call.Ref)
	}
	d.Dispatch()
}

// RequeueBatch takes back the calls of a batch that has found nobody.
func (d *Dispatcher) RequeueBatch(no uint64) {
	for name, w := range d.workers {
		if w.sentBatch == no {
			d.requeueLast(name, w)
			d.Dispatch()
			return
		}
	}
}

// Cancel lets a worker stop a call.
func (d *Dispatcher) Cancel(worker string, call work.Ref) {
	if w := d.workers[worker]; w != nil {
		w.cancel = append(w.cancel, call)
		d.cancelled = append(d.cancelled, worker)
	}
}

// nextDelivery hands out what there is for a poll.
func (d *Dispatcher) nextDelivery(p work.Poll) Delivery {
	now := Delivery{Offers: d.dequeue(p), Cancel: d.dequeueCancels(p.Worker)}
	w := d.workers[p.Worker]
	if len(now.Offers) == 0 || w == nil {
		return now
	}
	d.batch++
	now.Number, w.sentBatch, w.sentCalls = d.batch, d.batch, w.sentCalls[:0]
	for _, of := range now.Offers {
		w.sentCalls = append(w.sentCalls, of.Call.Ref)
	}
	return now
}

// requeueIfLost takes the calls of the last batch of a worker back if it was lost on its way.
func (d *Dispatcher) requeueIfLost(p work.Poll, w *Worker) {
	if p.LastBatch != 0 && w.sentBatch != 0 && w.sentBatch != p.LastBatch {
		d.requeueLast(p.Worker, w)
	}
}

// requeueLast takes the calls of the last batch of a worker back.
func (d *Dispatcher) requeueLast(name string, w *Worker) {
	for _, ref := range w.sentCalls {
		d.cfg.Owner.Requeue(name, ref)
	}
	w.sentBatch, w.sentCalls = 0, nil
}

func (d *Dispatcher) dequeueCancels(worker string) []work.Ref {
	w := d.workers[worker]
	if w == nil {
		return nil
	}
	refs := w.cancel
	w.cancel = nil
	return refs
}

// Dispatch serves the workers that wait.
func (d *Dispatcher) Dispatch() {
	for _, worker := range d.cancelled {
		if p := d.pollers.byWorker[worker]; p != nil {
			d.serve(p)
		}
	}
	d.cancelled = d.cancelled[:0]
	for at := d.pollers.queue.Front(); at != nil && d.hasFreshCalls(); {
		next := at.Next()
		if p, ok := at.Value.(*Poller); ok && d.wanted(p.poll) {
			d.serve(p)
		}
		at = next
	}
	clear(d.fresh)
}

// hasFreshCalls forgets the lanes without calls that a waiting worker might get, and reports whether any is left.
func (d *Dispatcher) hasFreshCalls() bool {
	for l := range d.fresh {
		if d.lanes[l] == nil || d.pollers.serving[l.Queue] == 0 || d.cfg.Owner.Halted() || d.cfg.Owner.Paused(l) {
			delete(d.fresh, l)
		}
	}
	return len(d.fresh) > 0
}

// wanted reports whether there are new calls for a poll.
func (d *Dispatcher) wanted(p work.Poll) bool {
	for l := range d.fresh {
		if d.open(l, p) {
			return true
		}
	}
	return false
}

// serve answers a poller if there is anything for it.
func (d *Dispatcher) serve(p *Poller) {
	if now := d.nextDelivery(p.poll); !now.Empty() {
		d.pollers.remove(p)
		p.Out <- now
	}
}
