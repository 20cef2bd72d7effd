package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// relays put the questions of tasks to the clients of sessions, and take their answers.
type relays struct {
	*core

	clients   *connections
	questions *questioner
}

// join lets a request wait at the desk of a task, which its client knows by its id or not. It asks anew what was put away
// before. It has to be left.
func (ds *relays) join(c client, id events.TaskID, related bool) *waiter {
	session := c.session.ID()
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	defer known.mu.Unlock()
	d := ds.relayFor(known, c, session, id)
	clear(d.declined)
	d.related = d.related || related
	a := &waiter{d: d, at: ds.clients.streams.forClient(c), from: d.rounds}
	d.waiting = append(d.waiting, a)
	if a.at != nil {
		context.AfterFunc(a.at.life, d.recheck)
	}
	d.startLoop()
	return a
}

// relayFor returns the desk of a task, a new one if need be. known.mu is held.
func (ds *relays) relayFor(known *session, c client, session string, id events.TaskID) *relay {
	d := known.relays[id]
	if d == nil {
		d = &relay{
			relays: ds, sessionID: session, session: known, task: id, sent: map[string]sentQuestion{}, declined: map[string]error{},
			accepted: map[string]int{}, wake: func() {}, roundDone: make(chan struct{}),
		}
		known.relays[id] = d
	}
	d.c = client{who: c.who, caps: c.caps, roots: c.roots}
	return d
}

// askOnStanding notes that the client of a session knows of a task that asks, so that it may be asked on its standing stream.
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

// standingOpened lets the client of a session be asked on its standing stream what it was asked before.
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

// recheckAll lets the desks of a session look again at the streams there are.
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

// askDuringCall lets the client of a waiting call answer what the call asks. A result means that the call is handed back.
func (ds *relays) askDuringCall(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	if r.atOnce(c) && !r.spec.AsksFirst {
		return nil, &taskStartedError{submittedStatus(r.id, r.at, r.ttl)}
	}
	mine, err := ds.questions.pending(ctx, c, r.id)
	switch {
	case err != nil:
		return nil, err
	case len(mine) == 0:
		return ds.questions.waitsForOthers(ctx, c, r, nil)
	}
	if answered, err := ds.questions.answerAll(ctx, c, mine, r.answers); answered || err != nil {
		r.answers = nil
		return nil, err
	}
	if c.modern {
		return ds.questions.inputRequired(c, r, mine), nil
	}
	waiter := ds.join(c, r.id, false)
	defer waiter.stop()
	seen, err := waiter.wait(ctx, true)
	if err != nil || !seen.waits {
		return nil, err
	}
	return ds.questions.waitsForOthers(ctx, c, r, seen.refused)
}

// askInSession lets the user of a client answer what a call has just asked for its session, before the call returns. A result asks a
// client of 2026-07-28, which calls again with the answer and is asked once.
func (ds *relays) askInSession(ctx context.Context, c client, r *run) *mcp.CallToolResult {
	if r.session == "" || r.resumed || c.session == nil || !c.showsForms() {
		return nil
	}
	if c.modern {
		if mine, err := ds.questions.pending(ctx, c, r.session); err == nil && len(mine) > 0 {
			return ds.questions.inputRequired(c, r, mine)
		}
		return nil
	}
	waiter := ds.join(c, r.session, false)
	defer waiter.stop()
	_, _ = waiter.wait(ctx, true)
	return nil
}
