package server

import (
	"context"
	"log/slog"
	"math"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pause"
)

// A relay sends the questions of one task to the client of one session of 2025-11-25 until they are resolved: when the stream
// of a question ends, the question is sent again on the next stream. A relay runs while a request waits for the task, or while
// the client knows the task and has the standing stream of the session (its open GET request). Its state need not outlive the
// process: open questions are in the log, and the ids of the tasks are stored with the session.
type relay struct {
	relays    *relays
	sessionID string
	session   *session
	task      events.TaskID

	// session.mu guards the fields below.

	// c is the client to ask.
	c client
	// sent are the questions sent to the client, by id.
	sent map[string]sentQuestion
	// declined are the questions that the client has declined, with the error of a refused answer or nil.
	declined map[string]error
	// opened are the approvals whose web pages the user has opened.
	opened map[string]bool
	// accepted are the answered questions, with the number of the round in which the answer was accepted. That round may have
	// read the task before the answer.
	accepted map[string]int
	// knowsTask is set if the client knows that the task has questions; the task is then in record.Asked.
	knowsTask bool
	// related is set if the client knows the id of the task.
	related bool
	// waiting are the requests that wait for the task, the newest last.
	waiting []*waiter
	// running is set while the goroutine runs. wake makes it read the task at once; stale is set if it must.
	running, stale bool
	wake           context.CancelFunc
	// version is that of the newest WatchReply of the task, 0 for none. Only the goroutine uses it.
	version uint64
	// rounds counts the rounds started, seen is the result of the last finished round, and roundDone is closed when the next
	// round has finished.
	rounds    int
	seen      roundResult
	roundDone chan struct{}
}

// sentQuestion is a question sent to the client: the stream, and the id of the request on it.
type sentQuestion struct {
	outlet *outlet
	id     string
}

// roundResult is the result of a round; err is set if the task could not be read.
type roundResult struct {
	round int
	// waits is set if the task waits for people, idle if asking the client is pointless. mayAsk is set if a task below may ask the
	// model of the client. refused is the error of a refused answer.
	waits, idle, mayAsk bool
	refused             error
	err                 error
}

// waiter is a request that waits for a task with questions.
type waiter struct {
	relay  *relay
	outlet *outlet
	from   int // the number of the last round before the wait
}

// stop ends the wait of a request. Questions sent on its stream are withdrawn there and sent again on another stream, except those
// whose pages were opened.
func (a *waiter) stop() {
	d := a.relay
	d.session.mu.Lock()
	d.waiting = slices.DeleteFunc(d.waiting, func(other *waiter) bool { return other == a })
	var withdrawn []sentQuestion
	for question, h := range d.sent {
		if !d.opened[question] && h.outlet == a.outlet && h.outlet != d.relays.clients.streams.standing(d.sessionID) {
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

// wait waits until the task no longer waits for people or, with untilIdle, until asking the client is pointless. It returns an
// error if the request ends, or if the task cannot be read.
func (a *waiter) wait(ctx context.Context, untilIdle bool) (roundResult, error) {
	closed := ctx.Done()
	if a.outlet != nil {
		closed = a.outlet.life.Done()
	}
	for {
		a.relay.session.mu.Lock()
		seen, roundDone := a.relay.seen, a.relay.roundDone
		a.relay.session.mu.Unlock()
		if seen.round > a.from && (seen.err != nil || !seen.waits || untilIdle && seen.idle) {
			return seen, seen.err
		}
		select {
		case <-roundDone:
		case <-ctx.Done():
			return roundResult{}, ctx.Err()
		case <-closed:
			return roundResult{}, context.Canceled
		}
	}
}

// maxAsked is the most tasks of a session for which questions are sent on its standing stream. For older tasks the client has
// to poll.
const maxAsked = 100

// saveTask stores the id of the task with the session, so that the client is asked again after a restart.
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

// startLoop starts the goroutine, or wakes it if it runs. session.mu must be held.
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

// recheck makes the relay start another round, because the open streams have changed.
func (d *relay) recheck() {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	d.startLoop()
}

// run runs rounds until the relay is no longer needed.
func (d *relay) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(d.session.life, stop)()
	for d.round(ctx) {
	}
}

// round reads the task, delivers its questions, and waits for a change. It returns false if no further round is needed.
func (d *relay) round(ctx context.Context) bool {
	next, wake := context.WithCancel(ctx)
	defer wake()
	c, round := d.beginRound(wake)
	err := d.readVersion(ctx)
	var t api.TaskView
	if err == nil {
		t, err = d.relays.cfg.API.Get(ctx, api.GetRequest{ID: d.task})
	}
	var open []question
	if err == nil {
		open, err = d.relays.questions.pendingOf(ctx, c, t)
	}
	var current api.ResultReply
	if err == nil {
		current, err = d.relays.cfg.API.Result(ctx, api.ResultRequest{ID: d.task, SizeOnly: true})
	}
	waits := err == nil && current.Waits
	if err == nil {
		d.deliver(c, open)
	}
	if !d.report(roundResult{round: round, waits: waits, mayAsk: mayBeAsked(c, t), err: err}, open) || ctx.Err() != nil {
		return false
	}
	if err == nil {
		if err = d.awaitChange(next, t.Rev); err == nil || next.Err() != nil {
			return true
		}
		if !d.report(roundResult{round: round, err: err}, nil) {
			return false
		}
	}
	_ = pause.For(next, pollInterval) // the node does not answer
	return true
}

// readVersion reads the version of the task before the first round. It changes also when a task below has another question.
func (d *relay) readVersion(ctx context.Context) error {
	if d.version != 0 {
		return nil
	}
	w, err := d.relays.cfg.API.Watch(ctx, api.WatchRequest{ID: d.task, After: math.MaxUint64})
	d.version = w.Version
	return err
}

// awaitChange waits until the task or one of its questions changes, or for some seconds.
func (d *relay) awaitChange(ctx context.Context, rev uint64) error {
	w, err := d.relays.cfg.API.Watch(ctx, api.WatchRequest{ID: d.task, After: rev, SeenVersion: d.version, Wait: 10 * pollInterval, Limit: 1})
	if err == nil {
		d.version = w.Version
	}
	return err
}

// mayBeAsked reports whether a task below a task of the client may ask its model.
func mayBeAsked(c client, t api.TaskView) bool {
	return c.caps.Sampling != nil && slices.ContainsFunc(t.Steps, func(s api.StepView) bool { return s.Child != "" && !s.State.Terminal() })
}

// beginRound starts a round.
func (d *relay) beginRound(wake context.CancelFunc) (client, int) {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	d.rounds++
	d.wake, d.stale = wake, false
	return d.c, d.rounds
}

// report passes the result of a round to the waiters. It returns false if the relay is no longer needed. session.mu must not be
// held.
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
	case v.err == nil && !v.waits && !v.mayAsk && len(open) == 0:
		d.remove()
	case (v.err == nil || isTemporary(v.err)) && d.knowsTask && d.relays.clients.streams.standing(d.sessionID) != nil:
		return true
	}
	d.running = false
	return false
}

// remove removes the relay of a task without questions. session.mu must be held.
func (d *relay) remove() {
	delete(d.session.relays, d.task)
	d.session.Asked = slices.DeleteFunc(d.session.Asked, func(id events.TaskID) bool { return id == d.task })
}

// deliveryState returns the input for deciding which questions to send. session.mu must be held.
func (d *relay) deliveryState(open []question) deliveryState {
	st := deliveryState{
		knowsTask: d.knowsTask, standing: d.relays.clients.streams.standing(d.sessionID).number(),
		sent: map[string]streamNo{}, declined: map[string]bool{}, opened: d.opened, accepted: map[string]bool{},
	}
	for _, q := range open {
		st.open = append(st.open, q.id)
	}
	for _, a := range d.waiting {
		if no := a.outlet.number(); no != 0 {
			st.requests = append(st.requests, no)
		}
	}
	for question, h := range d.sent {
		st.sent[question] = h.outlet.no
	}
	for question := range d.declined {
		st.declined[question] = true
	}
	for question, round := range d.accepted {
		st.accepted[question] = round == d.rounds
	}
	return st
}

// deliver sends the client of a round the questions that are due, and withdraws resolved ones.
func (d *relay) deliver(c client, open []question) {
	d.session.mu.Lock()
	send, settled := d.deliveryState(open).plan()
	to := d.outlets()
	var withdrawn []sentQuestion
	var completed []string
	for _, question := range settled {
		if d.opened[question] {
			completed = append(completed, question)
		} else {
			withdrawn = append(withdrawn, d.sent[question])
		}
		delete(d.sent, question)
		delete(d.declined, question)
		delete(d.opened, question)
	}
	d.session.mu.Unlock()
	for _, h := range withdrawn {
		h.withdraw("the question is settled")
	}
	for _, link := range completed {
		d.relays.notifyComplete(d.sessionID, link)
	}
	for _, item := range send {
		at := slices.IndexFunc(open, func(q question) bool { return q.id == item.question })
		d.send(c, open[at], to[item.to])
	}
}

// outlets returns the open streams to the client. session.mu must be held.
func (d *relay) outlets() map[streamNo]*outlet {
	all := map[streamNo]*outlet{}
	if o := d.relays.clients.streams.standing(d.sessionID); o != nil {
		all[o.no] = o
	}
	for _, a := range d.waiting {
		if a.outlet != nil {
			all[a.outlet.no] = a.outlet
		}
	}
	return all
}

// send sends the client one question. It records the question as sent first, because the answer may arrive at once.
func (d *relay) send(c client, q question, to *outlet) {
	whole, err := d.relays.questions.whole(d.relays.life, c, []question{q})
	if len(whole) == 0 {
		d.relays.cfg.Logger.LogAttrs(d.relays.life, slog.LevelDebug, "mcp_question_not_read", slog.String("question", q.id), slog.Any("error", err))
		return // the next round sends it, unless it is settled
	}
	q = whole[0]
	id := d.relays.questionID(c.who, d.sessionID, d.task, q.id)
	d.session.mu.Lock()
	d.sent[q.id] = sentQuestion{to, id}
	d.session.mu.Unlock()
	params, err := d.params(q)
	if err == nil {
		err = to.to.send(mustJSON(object{"jsonrpc": "2.0", "id": id, "method": q.method, "params": params}))
	}
	if err != nil {
		d.relays.cfg.Logger.LogAttrs(d.relays.life, slog.LevelDebug, "mcp_question_not_sent", slog.String("question", q.id), slog.Any("error", err))
		to.end() // the stream is closed: its questions are sent again on another stream
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

// withdraw notifies the client that the question no longer needs an answer.
func (h sentQuestion) withdraw(why string) {
	if h.outlet.life.Err() == nil {
		_ = h.outlet.to.send(notification("notifications/cancelled", object{"requestId": h.id, "reason": why}))
	}
}

// recordAnswer records the outcome of an answer; id is the id of the request that it answers. An answer that was not accepted
// counts only if it answers the newest copy of the question. After a temporary failure the question is sent again.
func (d *relay) recordAnswer(question, id string, accepted replyOutcome, refused error) {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	h, ok := d.sent[question]
	switch {
	case accepted == pageOpened:
		d.opened[question] = true
	case accepted == answerAccepted:
		delete(d.sent, question)
		d.accepted[question] = d.rounds
	case ok && h.id == id && isTemporary(refused):
		delete(d.sent, question)
	case ok && h.id == id:
		delete(d.sent, question)
		d.declined[question] = refused
	}
	d.startLoop()
}
