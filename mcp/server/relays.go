package server

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// relays sends the questions of tasks to the clients of sessions, and delivers their answers. There is one relay for each task
// and session.
type relays struct {
	*core

	clients   *connections
	questions *questioner
}

// join registers a request with the relay of a task, and returns the waiter for the request. related is set if the client knows
// the id of the task. Declined questions are asked again. The caller must call waiter.stop.
func (ds *relays) join(c client, id events.TaskID, related bool) *waiter {
	session := c.session.ID()
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	defer known.mu.Unlock()
	d := ds.relayFor(known, c, session, id)
	clear(d.declined)
	d.related = d.related || related
	a := &waiter{relay: d, outlet: ds.clients.streams.forClient(c), from: d.rounds}
	d.waiting = append(d.waiting, a)
	if a.outlet != nil {
		context.AfterFunc(a.outlet.life, d.recheck)
	}
	d.startLoop()
	return a
}

// relayFor returns the relay of a task, and creates it if necessary. session.mu must be held.
func (ds *relays) relayFor(known *session, c client, session string, id events.TaskID) *relay {
	d := known.relays[id]
	if d == nil {
		d = &relay{
			relays: ds, sessionID: session, session: known, task: id, sent: map[string]sentQuestion{}, declined: map[string]error{}, opened: map[string]bool{},
			accepted: map[string]int{}, wake: func() {}, roundDone: make(chan struct{}),
		}
		known.relays[id] = d
	}
	d.c = client{who: c.who, caps: c.caps, roots: c.roots}
	return d
}

// askOnStanding records that the client of a session knows a task with questions, so that its relay may send them on the
// standing stream of the session.
func (ds *relays) askOnStanding(c client, id events.TaskID) {
	session := c.session.ID()
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	d := ds.relayFor(known, c, session, id)
	fresh := !d.knowsTask
	d.knowsTask, d.related = true, true
	d.startLoop()
	known.mu.Unlock()
	if fresh {
		d.saveTask()
	}
}

// standingOpened is called after the standing stream of a session was opened. It starts the relays of the session's tasks, which
// send their questions on that stream.
func (ds *relays) standingOpened(session string, who Identity) {
	known := ds.clients.sessions.find(session)
	if known == nil {
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	c := clientOfInitialize(known.Initialize)
	c.who = who
	for _, id := range known.Asked {
		d := ds.relayFor(known, c, session, id)
		d.knowsTask = true
		d.startLoop()
	}
}

// recheckAll makes all running relays of a session start another round, because a stream has ended.
func (ds *relays) recheckAll(session string) {
	known := ds.clients.sessions.find(session)
	if known == nil {
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	for _, d := range known.relays {
		if d.running {
			d.startLoop()
		}
	}
}

// askDuringCall sends the questions of a call to its client, and delivers the answers. It returns a result if the client must
// stop waiting, for example because only other people can answer. It returns nil if the call continues.
func (ds *relays) askDuringCall(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	if r.atOnce(c) && !r.spec.AsksFirst {
		return nil, &taskStartedError{submittedStatus(r.id, r.at, r.ttl)}
	}
	answerable, err := ds.questions.pending(ctx, c, r.id)
	switch {
	case err != nil:
		return nil, err
	case len(answerable) == 0:
		return ds.questions.resultWhileWaiting(ctx, c, r, nil)
	}
	if answered, err := ds.questions.answerAll(ctx, c, answerable, r.answers); answered || err != nil {
		r.answers = nil
		return nil, err
	}
	if c.modern {
		if r.resumed {
			answerable = withoutPages(answerable)
		}
		if answerable, err = ds.questions.whole(ctx, c, answerable); err != nil {
			return nil, err
		}
		if len(answerable) == 0 {
			return ds.questions.resultWhileWaiting(ctx, c, r, nil)
		}
		return ds.questions.inputRequired(c, r, answerable), nil
	}
	waiter := ds.join(c, r.id, false)
	defer waiter.stop()
	seen, err := waiter.wait(ctx, true)
	if err != nil || !seen.waits {
		return nil, err
	}
	return ds.questions.resultWhileWaiting(ctx, c, r, seen.refused)
}

// withoutPages removes the approvals whose web pages a client of 2026-07-28 was sent to when it made the call first.
func withoutPages(list []question) []question {
	return slices.DeleteFunc(list, func(q question) bool { return q.kind == approvalPage })
}

// askInSession sends the questions of the session of a call to the client, before the call returns. A client of 2025-11-25 is
// asked while askInSession waits. For a client of 2026-07-28 it returns a result with the questions; the client repeats the call
// with the answers, and is not asked again.
func (ds *relays) askInSession(ctx context.Context, c client, r *run) *mcp.CallToolResult {
	if r.session == "" || r.resumed || c.session == nil || !c.showsForms() {
		return nil
	}
	if c.modern {
		if answerable, err := ds.questions.pending(ctx, c, r.session); err == nil && len(answerable) > 0 {
			return ds.questions.inputRequired(c, r, answerable)
		}
		return nil
	}
	waiter := ds.join(c, r.session, false)
	defer waiter.stop()
	_, _ = waiter.wait(ctx, true)
	return nil
}
