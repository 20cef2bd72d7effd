package orchestrator

import (
	"container/list"
	"maps"

	"github.com/orch-dev/orch/work"
)

// This file brings what is new to the workers that wait for it. A worker that waits was offered all that there
// was before, so only the lanes with new calls, and the workers with new cancellations, are looked at.

// poller is a worker that waits for work.
type poller struct {
	poll work.Poll
	out  chan delivery
	// queueElement is its place among those who can take calls, nil for a worker without a free slot.
	queueElement *list.Element
}

// pollers holds the workers that wait, each with one poll.
type pollers struct {
	byWorker map[string]*poller
	// queue holds those who can take calls, the one that has waited longest first.
	queue *list.List
	// serving counts those in queue by the queues that they serve.
	serving map[string]int
}

func newPollers() pollers {
	return pollers{byWorker: map[string]*poller{}, queue: list.New(), serving: map[string]int{}}
}

// queuesOf returns the queues that a poll is for.
func queuesOf(p work.Poll) []string {
	if len(p.Queues) == 0 {
		return []string{work.DefaultQueue}
	}
	return p.Queues
}

// add keeps a poller whose worker has no other poll.
func (w *pollers) add(p *poller) {
	w.byWorker[p.poll.Worker] = p
	if p.poll.Free <= 0 {
		return
	}
	p.queueElement = w.queue.PushBack(p)
	for _, queue := range queuesOf(p.poll) {
		w.serving[queue]++
	}
}

// remove takes a poller out; one that is no longer in does nothing.
func (w *pollers) remove(p *poller) {
	if w.byWorker[p.poll.Worker] == p {
		delete(w.byWorker, p.poll.Worker)
	}
	if p.queueElement == nil {
		return
	}
	w.queue.Remove(p.queueElement)
	p.queueElement = nil
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
		p.out <- delivery{}
	}
}

// refresh lets the calls of lanes be offered again to those who wait.
func (m *matcher) refresh(which func(lane) bool) {
	for l := range m.lanes {
		if which(l) {
			m.fresh[l] = true
		}
	}
}

// offerAgain lets the calls of some lanes be offered again to those who wait.
func (m *matcher) offerAgain(lanes map[lane]bool) { maps.Copy(m.fresh, lanes) }

// dispatch serves waiting pollers. The lock is held.
func (o *Orchestrator) dispatch() {
	m := &o.match
	for _, worker := range m.told {
		if p := m.pollers.byWorker[worker]; p != nil {
			o.serve(p)
		}
	}
	m.told = m.told[:0]
	for at := m.pollers.queue.Front(); at != nil && o.hasFreshCalls(); {
		next := at.Next()
		if p, ok := at.Value.(*poller); ok && o.wanted(p.poll) {
			o.serve(p)
		}
		at = next
	}
	clear(m.fresh)
}

// hasFreshCalls forgets the lanes without calls that a waiting worker might get, and reports whether any is left.
func (o *Orchestrator) hasFreshCalls() bool {
	m := &o.match
	for l := range m.fresh {
		if m.lanes[l] == nil || m.pollers.serving[l.queue] == 0 || o.held(holdNode, "") || o.lanePaused(l) {
			delete(m.fresh, l)
		}
	}
	return len(m.fresh) > 0
}

// wanted reports whether there are new calls for a poll.
func (o *Orchestrator) wanted(p work.Poll) bool {
	for l := range o.match.fresh {
		if o.open(l, p) {
			return true
		}
	}
	return false
}

// serve answers a poller if there is anything for it.
func (o *Orchestrator) serve(p *poller) {
	if d := o.deliver(p.poll); !d.empty() {
		o.match.pollers.remove(p)
		p.out <- d
	}
}
