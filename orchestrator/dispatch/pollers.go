package dispatch

import (
	"container/list"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Offer is a call for a worker before its large values are fetched from the blob store.
type Offer struct {
	Call         work.Call
	Args, Handed events.Value
	Checkpoints  []events.Checkpointed
	Answers      []*statemachine.Question
}

// Delivery is the answer to a poll before large values are fetched.
type Delivery struct {
	// Number is the number of the batch; 0 for a batch without calls.
	Number uint64
	Offers []*Offer
	Cancel []work.Ref
}

// Empty reports whether a delivery contains neither calls nor cancellations.
func (d Delivery) Empty() bool { return len(d.Offers) == 0 && len(d.Cancel) == 0 }

// Poller is a worker that waits for calls. All calls that were queued before the poll have been offered to it. So Dispatch
// checks only lanes with new calls, and workers with new cancellations.
type Poller struct {
	// Out receives the delivery that ends the wait.
	Out chan Delivery

	poll work.Poll
	// element is the element of the poller in pollers.queue; nil for a worker without a free slot.
	element *list.Element
}

// pollers holds the waiting workers, each with one poll.
type pollers struct {
	byWorker map[string]*Poller
	// queue holds the pollers that can take calls, the longest waiting first.
	queue *list.List
	// serving counts the pollers in queue by the queues that they serve.
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

// add adds a poller whose worker has no other poll.
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

// remove removes a poller. It does nothing if the poller was removed before.
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

// supersede ends the older poll of a worker with an empty delivery: a worker has one poll at a time, and no longer waits for
// the older one.
func (w *pollers) supersede(worker string) {
	if p := w.byWorker[worker]; p != nil {
		w.remove(p)
		p.Out <- Delivery{}
	}
}

// Poll returns the delivery for a worker. If there is none and the poll may wait, it returns a Poller that waits for a delivery
// until EndPoll. Otherwise the Poller is nil.
func (d *Dispatcher) Poll(p work.Poll) (Delivery, *Poller) {
	w := d.Touch(p.Worker, p.Queues, d.cfg.Now())
	w.Agent, w.slots, w.Root, w.Tools = p.Agent, p.Slots, p.Root, p.Tools
	d.pollers.supersede(p.Worker)
	d.requeueIfLost(p, w)
	if p.Last {
		w.Seen = time.Time{}
	}
	if delivery := d.nextDelivery(p); !delivery.Empty() || p.Wait <= 0 {
		return delivery, nil
	}
	waiting := &Poller{poll: p, Out: make(chan Delivery, 1)}
	d.pollers.add(waiting)
	return Delivery{}, waiting
}

// EndPoll ends the wait of a poller, and returns the delivery that was assigned to it just before, if there is one.
func (d *Dispatcher) EndPoll(p *Poller) Delivery {
	d.pollers.remove(p)
	select {
	case delivery := <-p.Out:
		return delivery
	default:
		return Delivery{}
	}
}

// RequeueDelivery requeues the calls and cancellations of a delivery that did not reach its worker.
func (d *Dispatcher) RequeueDelivery(worker string, undelivered Delivery) {
	if w := d.workers[worker]; w != nil {
		w.cancel = append(undelivered.Cancel, w.cancel...)
		d.cancelled = append(d.cancelled, worker)
	}
	for _, of := range undelivered.Offers {
		d.cfg.Owner.Requeue(worker, of.Call.Ref)
	}
	d.Dispatch()
}

// RequeueBatch requeues the calls of the batch with a number, because no worker received it. It ignores a number that is not
// the newest of its worker.
func (d *Dispatcher) RequeueBatch(no uint64) {
	for name, w := range d.workers {
		if w.sentBatch == no {
			d.requeueLast(name, w)
			d.Dispatch()
			return
		}
	}
}

// Cancel adds a cancellation of a call to the next delivery for its worker.
func (d *Dispatcher) Cancel(worker string, call work.Ref) {
	if w := d.workers[worker]; w != nil {
		w.cancel = append(w.cancel, call)
		d.cancelled = append(d.cancelled, worker)
	}
}

// nextDelivery returns the delivery for a poll.
func (d *Dispatcher) nextDelivery(p work.Poll) Delivery {
	delivery := Delivery{Offers: d.dequeue(p), Cancel: d.dequeueCancels(p.Worker)}
	w := d.workers[p.Worker]
	if len(delivery.Offers) == 0 || w == nil {
		return delivery
	}
	d.batch++
	delivery.Number, w.sentBatch, w.sentCalls = d.batch, d.batch, w.sentCalls[:0]
	for _, of := range delivery.Offers {
		w.sentCalls = append(w.sentCalls, of.Call.Ref)
	}
	return delivery
}

// requeueIfLost requeues the calls of a worker's last batch if the worker has not received it.
func (d *Dispatcher) requeueIfLost(p work.Poll, w *Worker) {
	if p.LastBatch != 0 && w.sentBatch != 0 && w.sentBatch != p.LastBatch {
		d.requeueLast(p.Worker, w)
	}
}

// requeueLast requeues the calls of a worker's last batch.
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

// Dispatch delivers new cancellations and the calls of fresh families to the waiting workers.
func (d *Dispatcher) Dispatch() {
	for _, worker := range d.cancelled {
		if p := d.pollers.byWorker[worker]; p != nil {
			d.serve(p)
		}
	}
	d.cancelled = d.cancelled[:0]
	for at := d.pollers.queue.Front(); at != nil && d.hasFreshCalls(); {
		next := at.Next()
		if p, ok := at.Value.(*Poller); ok && d.hasFreshFor(p.poll) {
			d.serve(p)
		}
		at = next
	}
	d.lanes.unmarkFresh(func(*family) bool { return true })
}

// hasFreshCalls removes the families from fresh that no waiting worker can be served from, and reports whether any is left.
func (d *Dispatcher) hasFreshCalls() bool {
	d.lanes.unmarkFresh(func(f *family) bool {
		return f.queued == 0 || d.pollers.serving[f.lane.Queue] == 0 || d.cfg.Owner.Halted() || d.cfg.Owner.Paused(f.lane)
	})
	return len(d.lanes.fresh) > 0
}

// hasFreshFor reports whether the worker of a poll may take calls of a fresh family.
func (d *Dispatcher) hasFreshFor(p work.Poll) bool {
	w := d.workers[p.Worker]
	return slices.ContainsFunc(d.lanes.fresh, func(f *family) bool { return d.able(f, p, w) && d.firstOf(f) != nil })
}

// serve delivers to a poller if there is anything for it.
func (d *Dispatcher) serve(p *Poller) {
	if delivery := d.nextDelivery(p.poll); !delivery.Empty() {
		d.pollers.remove(p)
		p.Out <- delivery
	}
}
