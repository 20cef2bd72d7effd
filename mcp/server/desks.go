package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// desks put the questions of tasks to the clients of sessions, and take their answers.
type desks struct {
	*core

	clients   *connections
	questions *questioner
}

// attendDesk lets a request wait at the desk of a task, which its client knows by its id or not. It asks anew what was put away
// before. It has to be left.
func (ds *desks) attendDesk(c client, id events.TaskID, related bool) *attendance {
	session := c.session.ID()
	known := ds.clients.sessions.of(session)
	known.mu.Lock()
	defer known.mu.Unlock()
	d := ds.deskFor(known, c, session, id)
	clear(d.away)
	d.related = d.related || related
	a := &attendance{d: d, at: ds.clients.streams.of(c), from: d.rounds}
	d.waiting = append(d.waiting, a)
	if a.at != nil {
		context.AfterFunc(a.at.life, d.kick)
	}
	d.start()
	return a
}

// deskFor returns the desk of a task, a new one if need be. known.mu is held.
func (ds *desks) deskFor(known *session, c client, session string, id events.TaskID) *desk {
	d := known.desks[id]
	if d == nil {
		d = &desk{
			desks: ds, session: session, known: known, task: id, handed: map[string]handedQuestion{}, away: map[string]error{},
			taken: map[string]int{}, wake: func() {}, looked: make(chan struct{}),
		}
		known.desks[id] = d
	}
	d.c = client{who: c.who, caps: c.caps, roots: c.roots}
	return d
}

// askSoon notes that the client of a session knows of a task that asks, so that it may be asked on its standing stream.
func (ds *desks) askSoon(c client, id events.TaskID) {
	session := c.session.ID()
	known := ds.clients.sessions.of(session)
	known.mu.Lock()
	d := ds.deskFor(known, c, session, id)
	fresh := !d.told
	d.told, d.related = true, true
	d.start()
	known.mu.Unlock()
	if fresh {
		d.keep()
	}
}

// standingOpened lets the client of a session be asked on its standing stream what it was asked before.
func (ds *desks) standingOpened(session string, who Identity) {
	known := ds.clients.sessions.find(session)
	if known == nil {
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	c := clientOfInitialize(known.Initialize)
	c.who = who
	for _, id := range known.Asked {
		d := ds.deskFor(known, c, session, id)
		d.told = true
		d.start()
	}
}

// kickDesks lets the desks of a session look again at the streams there are.
func (ds *desks) kickDesks(session string) {
	known := ds.clients.sessions.find(session)
	if known == nil {
		return
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	for _, d := range known.desks {
		if d.running {
			d.start()
		}
	}
}

// askOn lets the client of a waiting call answer what the call asks. A result means that the call is handed back.
func (ds *desks) askOn(ctx context.Context, c client, r *run) (*mcp.CallToolResult, error) {
	if r.atOnce(c) && !r.spec.AsksFirst {
		return nil, &taskStartedError{begun(r.id, r.at, r.ttl)}
	}
	mine, err := ds.questions.pending(ctx, c, r.id)
	switch {
	case err != nil:
		return nil, err
	case len(mine) == 0:
		return ds.questions.needsOthers(ctx, c, r, nil)
	}
	if answered, err := ds.questions.answerAll(ctx, c, mine, r.answers); answered || err != nil {
		r.answers = nil
		return nil, err
	}
	if c.modern {
		return ds.questions.inputRequired(c, r, mine), nil
	}
	desk := ds.attendDesk(c, r.id, false)
	defer desk.leave()
	seen, err := desk.wait(ctx, true)
	if err != nil || !seen.waits {
		return nil, err
	}
	return ds.questions.needsOthers(ctx, c, r, seen.refused)
}

// askInSession lets the user of a client answer what a call has just asked for its session, before the call returns. A result asks a
// client of 2026-07-28, which calls again with the answer and is asked once.
func (ds *desks) askInSession(ctx context.Context, c client, r *run) *mcp.CallToolResult {
	if r.session == "" || r.resumed || c.session == nil || !c.fills() {
		return nil
	}
	if c.modern {
		if mine, err := ds.questions.pending(ctx, c, r.session); err == nil && len(mine) > 0 {
			return ds.questions.inputRequired(c, r, mine)
		}
		return nil
	}
	desk := ds.attendDesk(c, r.session, false)
	defer desk.leave()
	_, _ = desk.wait(ctx, true)
	return nil
}
