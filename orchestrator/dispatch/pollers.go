package dispatch

import (
	"container/list"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Offer is a call whose large arguments are still in the blob store.
type Offer struct {
	Call         work.Call
	Args, Handed events.Value
	Checkpoints  []events.Checkpointed
	Answers      []*statemachine.Question
}

// Delivery is the answer to a poll before large values are fetched.
type Delivery struct {
	// Number is the number of the batch, 0 for one without calls.
	Number uint64
	Offers []Offer
	Cancel []work.Ref
}

// Empty reports whether it contains nothing.
func (d Delivery) Empty() bool { return len(d.Offers) == 0 && len(d.Cancel) == 0 }

// Poller is a worker that waits for calls. It was offered everything that was queued before. So only lanes with new calls, and
// workers with new cancellations, are checked.
type Poller struct {
	// Out receives the delivery that ends the wait.
	Out chan Delivery

	poll work.Poll
	// element is its element in pollers.queue, nil for a worker without a free slot.
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

// supersede ends the older poll of a worker, which has one at a time. Its delivery is empty, because nobody waits for it any
// more.
func (w *pollers) supersede(worker string) {
	if p := w.byWorker[worker]; p != nil {
		w.remove(p)
		p.Out <- Delivery{}
	}
}

// Poll returns the delivery for a worker, or a Poller that waits for it until EndPoll. The Poller is nil if the poll does not
// wait.
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

// EndPoll ends the wait of a poller, and returns the delivery that it got in that moment.
func (d *Dispatcher) EndPoll(p *Poller) Delivery {
	d.pollers.remove(p)
	select {
	case now := <-p.Out:
		return now
	default:
		return Delivery{}
	}
}

// RequeueDelivery requeues what could not be delivered.
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

// RequeueBatch requeues the calls of a batch that nobody received.
func (d *Dispatcher) RequeueBatch(no uint64) {
	for name, w := range d.workers {
		if w.sentBatch == no {
			d.requeueLast(name, w)
			d.Dispatch()
			return
		}
	}
}

// Cancel tells a worker to stop a call.
func (d *Dispatcher) Cancel(worker string, call work.Ref) {
	if w := d.workers[worker]; w != nil {
		w.cancel = append(w.cancel, call)
		d.cancelled = append(d.cancelled, worker)
	}
}

// nextDelivery returns the delivery for a poll.
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

// Dispatch serves the waiting workers.
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

// hasFreshCalls removes the fresh lanes without calls that a waiting worker might get, and reports whether any is left.
func (d *Dispatcher) hasFreshCalls() bool {
	for l := range d.fresh {
		if d.lanes[l] == nil || d.pollers.serving[l.Queue] == 0 || d.cfg.Owner.Halted() || d.cfg.Owner.Paused(l) {
			delete(d.fresh, l)
		}
	}
	return len(d.fresh) > 0
}

// wanted reports whether a poll can get new calls.
func (d *Dispatcher) wanted(p work.Poll) bool {
	for l := range d.fresh {
		if d.open(l, p) {
			return true
		}
	}
	return false
}

// serve delivers to a poller if there is anything for it.
func (d *Dispatcher) serve(p *Poller) {
	if now := d.nextDelivery(p.poll); !now.Empty() {
		d.pollers.remove(p)
		p.Out <- now
	}
}
