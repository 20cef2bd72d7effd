package server

import (
	"context"
	"log/slog"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pause"
)

// A desk puts the questions of one task to the client of one session of 2025-11-25, and sees to it that they stay in the hands of
// that until they are settled: a question goes out again on the next stream when the one ends on which it was. It works while a
// request waits for the task, or while the client reads the standing stream of the session and knows of the task. Nothing of it has
// to outlive the process: what is open is in the log, and the names of the tasks are kept with the session.
type relay struct {
	relays    *relays
	sessionID string
	session   *session
	task      events.TaskID

	// known.mu guards what follows.

	// c is who is asked.
	c client
	// sent are the questions that were handed over, away those that were put away, with why their answer was refused. taken are
	// those whose answer was taken, with the round meanwhile: what that has read of the task may be older than the answer.
	sent      map[string]sentQuestion
	declined  map[string]error
	accepted  map[string]int
	knowsTask bool
	// related is true when the client knows the id of the task.
	related bool
	// waiting are the requests that wait for the task, the newest last.
	waiting []*waiter
	// running is set while a goroutine works at the desk; wake lets it look again at once, and kicked notes that it has to.
	running, stale bool
	wake           context.CancelFunc
	// rounds counts how often the desk has begun to look at the task; seen is what it saw the last time.
	rounds    int
	seen      roundResult
	roundDone chan struct{}
}

// sentQuestion is a question in the hands of the client: the stream, and the id of the request there.
type sentQuestion struct {
	at *outlet
	id string
}

// roundResult is what a round has found out: err when it could not look.
type roundResult struct {
	round int
	// waits says that the task waits for people, idle that nothing will come of asking the client, refused why an answer was.
	waits, idle bool
	refused     error
	err         error
}

// waiter is a request that waits at a desk.
type waiter struct {
	d    *relay
	at   *outlet
	from int // the round before
}

// stop ends the wait of a request. A question that was put on its stream is withdrawn from there, and goes to another stream.
func (a *waiter) stop() {
	d := a.d
	d.session.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(other *waiter) bool { return other == a })
	var withdrawn []sentQuestion
	for question, h := range d.sent {
		if h.at == a.at && h.at != d.relays.clients.streams.standing(d.sessionID) {
			withdrawn = append(withdrawn, h)
			delete(d.sent, question)
		}
	}
	d.startLoop()
	d.session.mu.Unlock()
	for _, h := range withdrawn {
		h.withdraw("the request that waited has ended")
	}
}

// wait waits until the task goes on, or until nothing will come of asking the client if that is enough. An error says that the
// request has ended, or that the task cannot be looked at.
func (a *waiter) wait(ctx context.Context, untilIdle bool) (roundResult, error) {
	gone := ctx.Done()
	if a.at != nil {
		gone = a.at.life.Done()
	}
	for {
		a.d.session.mu.Lock()
		seen, looked := a.d.seen, a.d.roundDone
		a.d.session.mu.Unlock()
		if seen.round > a.from && (seen.err != nil || !seen.waits || untilIdle && seen.idle) {
			return seen, seen.err
		}
		select {
		case <-looked:
		case <-ctx.Done():
			return roundResult{}, ctx.Err()
		case <-gone:
			return roundResult{}, context.Canceled
		}
	}
}

// maxAsked bounds the tasks of a session that are asked about on its standing stream; the oldest are found by asking.
const maxAsked = 100

// saveTask keeps the name of the task with the session: after a restart the client is asked again.
func (d *relay) saveTask() {
	d.relays.clients.updateOpen(d.relays.life, d.sessionID, func(r *record) {
		if !slices.Contains(r.Asked, d.task) {
			r.Asked = append(r.Asked, d.task)
		}
		for len(r.Asked) > maxAsked {
			if old := d.session.relays[r.Asked[0]]; old != nil {
				old.knowsTask = false
			}
			r.Asked = r.Asked[1:]
		}
	})
}

// startLoop lets somebody work at the desk. known.mu is held.
func (d *relay) startLoop() {
	if d.running {
		d.stale = true
		d.wake()
		return
	}
	if d.relays.life.Err() != nil || d.session.life.Err() != nil {
		return
	}
	d.running = true
	d.relays.background(d.run)
}

// recheck lets the desk look again at the streams there are.
func (d *relay) recheck() {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	d.startLoop()
}

// run works at the desk until nobody needs it.
func (d *relay) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(d.session.life, stop)()
	for d.round(ctx) {
	}
}

// round looks at the task, hands over what is to be handed over, and waits until there is something new; false at the end.
func (d *relay) round(ctx context.Context) bool {
	next, wake := context.WithCancel(ctx)
	defer wake()
	c, round := d.beginRound(wake)
	t, err := d.relays.cfg.API.Get(ctx, api.GetRequest{ID: d.task})
	var open []question
	if err == nil {
		open, err = d.relays.questions.pendingOf(ctx, c, t)
	}
	var now api.ResultReply
	if err == nil {
		now, err = d.relays.cfg.API.Result(ctx, api.ResultRequest{ID: d.task, SizeOnly: true})
	}
	waits := err == nil && now.Waits
	if err == nil {
		d.deliver(open)
	}
	if !d.report(roundResult{round: round, waits: waits, err: err}, open) || ctx.Err() != nil {
		return false
	}
	if err == nil {
		_, err = d.relays.cfg.API.Watch(next, api.WatchRequest{ID: d.task, After: t.Rev, Wait: 10 * pollInterval})
		if err == nil || next.Err() != nil {
			return true
		}
		if !d.report(roundResult{round: round, err: err}, nil) {
			return false
		}
	}
	_ = pause.For(next, pollInterval) // the node is away
	return true
}

// beginRound begins a round.
func (d *relay) beginRound(wake context.CancelFunc) (client, int) {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	d.rounds++
	d.wake, d.stale = wake, false
	return d.c, d.rounds
}

// report tells those who wait what a round has found out; false when the desk is needed no more. known.mu is not held.
func (d *relay) report(v roundResult, open []question) bool {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	v.idle = d.deliveryState(open).idle()
	for _, q := range open {
		if why := d.declined[q.id]; why != nil {
			v.refused = why
		}
	}
	d.seen = v
	close(d.roundDone)
	d.roundDone = make(chan struct{})
	switch {
	case v.err == nil && (d.stale || len(d.waiting) > 0):
		return true
	case v.err == nil && !v.waits && len(open) == 0:
		d.close()
	case (v.err == nil || isPassing(v.err)) && d.knowsTask && d.relays.clients.streams.standing(d.sessionID) != nil:
		return true
	}
	d.running = false
	return false
}

// close drops the desk of a task that asks nothing more. known.mu is held.
func (d *relay) close() {
	delete(d.session.relays, d.task)
	d.session.Asked = slices.DeleteFunc(d.session.Asked, func(id events.TaskID) bool { return id == d.task })
}

// deliveryState is how things stand. known.mu is held.
func (d *relay) deliveryState(open []question) deliveryState {
	st := deliveryState{
		knowsTask: d.knowsTask, standing: d.relays.clients.streams.standing(d.sessionID).number(),
		sent: map[string]streamNo{}, declined: map[string]bool{}, accepted: map[string]bool{},
	}
	for _, q := range open {
		st.open = append(st.open, q.id)
	}
	for _, a := range d.waiting {
		if no := a.at.number(); no != 0 {
			st.requests = append(st.requests, no)
		}
	}
	for question, h := range d.sent {
		st.sent[question] = h.at.no
	}
	for question := range d.declined {
		st.declined[question] = true
	}
	for question, round := range d.accepted {
		st.accepted[question] = round == d.rounds
	}
	return st
}

// deliver hands over what is to be handed over, and withdraws what is settled.
func (d *relay) deliver(open []question) {
	d.session.mu.Lock()
	send, settled := d.deliveryState(open).plan()
	to := d.outlets()
	var withdrawn []sentQuestion
	for _, question := range settled {
		withdrawn = append(withdrawn, d.sent[question])
		delete(d.sent, question)
		delete(d.declined, question)
	}
	d.session.mu.Unlock()
	for _, h := range withdrawn {
		h.withdraw("the question is settled")
	}
	for _, one := range send {
		at := slices.IndexFunc(open, func(q question) bool { return q.id == one.question })
		d.send(open[at], to[one.to])
	}
}

// outlets are the streams to the client. known.mu is held.
func (d *relay) outlets() map[streamNo]*outlet {
	all := map[streamNo]*outlet{}
	if o := d.relays.clients.streams.standing(d.sessionID); o != nil {
		all[o.no] = o
	}
	for _, a := range d.waiting {
		if a.at != nil {
			all[a.at.no] = a.at
		}
	}
	return all
}

// send sends one question. Only one that the stream has taken stays in the hands of the client; its answer may come at once.
func (d *relay) send(q question, to *outlet) {
	id := d.relays.questionID(d.c.who, d.sessionID, d.task, q.id)
	d.session.mu.Lock()
	d.sent[q.id] = sentQuestion{to, id}
	d.session.mu.Unlock()
	params, err := d.params(q)
	if err == nil {
		err = to.to.send(mustJSON(object{"jsonrpc": "2.0", "id": id, "method": q.method, "params": params}))
	}
	if err != nil {
		d.relays.cfg.Logger.LogAttrs(d.relays.life, slog.LevelDebug, "mcp_question_not_sent", slog.String("question", q.id), slog.Any("error", err))
		to.end() // nobody reads it: what was handed over there is in nobody's hands
		return
	}
	d.session.mu.Lock()
	fresh := !d.knowsTask
	d.knowsTask = true
	d.session.mu.Unlock()
	if fresh {
		d.saveTask()
	}
}

// withdraw tells the client that a question is not to be answered any more.
func (h sentQuestion) withdraw(why string) {
	if h.at.life.Err() == nil {
		_ = h.at.to.send(notification("notifications/cancelled", object{"requestId": h.id, "reason": why}))
	}
}

// recordAnswer notes what became of the answer with an id to a question. One that decides nothing counts if it was given to the newest
// copy of the question; one that was lost on its way lets the question be put again.
func (d *relay) recordAnswer(question, id string, taken bool, refused error) {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	h, ok := d.sent[question]
	switch {
	case taken:
		delete(d.sent, question)
		d.accepted[question] = d.rounds
	case ok && h.id == id && isPassing(refused):
		delete(d.sent, question)
	case ok && h.id == id:
		delete(d.sent, question)
		d.declined[question] = refused
	}
	d.startLoop()
}
