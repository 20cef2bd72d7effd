package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

// reconnectingSession is a session that outlives its node. If the node has stopped, it connects to another node, or starts one
// in this process. It is for MCP clients, which stay connected for days while nodes start and stop.
type reconnectingSession struct {
	api.Client

	// reopen connects to or starts another node. A node that it starts lives until the session is closed.
	reopen func() (session, error)
	// now returns the time for new ids.
	now func() time.Time

	mu      sync.Mutex
	current session
	// formerNodes are the nodes of this process that were handed over. Their calls may still run.
	formerNodes []session
}

// newReconnectingSession returns a session that starts with s and reconnects with reopen.
func newReconnectingSession(s session, reopen func() (session, error), now func() time.Time) *reconnectingSession {
	l := &reconnectingSession{reopen: reopen, now: now, current: s}
	l.Client = api.NewClient(l.send)
	return l
}

// restartGrace is how long a stopped node may take to restart before this process starts a node. Otherwise a restarting orch
// serve would find its data directory in use.
const restartGrace = 5 * time.Second

// dialOrOpen waits up to restartGrace for a restarting node, and otherwise starts a node. While another process holds the data
// directory, it waits longer.
func dialOrOpen(ctx context.Context, n nodes, cfg config.Config, m mode) (session, error) {
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := n.Attach(ctx, cfg, m); err == nil {
			return s, nil
		}
		if waited := time.Since(began); waited > restartGrace {
			if s, err := n.Open(ctx, cfg, m); !fault.Has(err, fault.Conflict) || waited > patience {
				return s, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		case <-tick.C:
		}
	}
}

// Embedded implements session.
func (l *reconnectingSession) Embedded() bool { return l.session().Embedded() }

// Identity implements session.
func (l *reconnectingSession) Identity() string { return l.session().Identity() }

// Close implements session.
func (l *reconnectingSession) Close(ctx context.Context) error {
	l.mu.Lock()
	all := append(slices.Clone(l.formerNodes), l.current)
	l.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close(ctx))
	}
	return errors.Join(errs...)
}

func (l *reconnectingSession) session() session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// handedOver reports whether s is the session of a node in this process that was handed over to another node.
func handedOver(s session) bool {
	own, ok := s.(embedded)
	return ok && own.node.HandedOver()
}

// currentSession returns the session for a request. If the node of the session was handed over, it first replaces the session.
func (l *reconnectingSession) currentSession(ctx context.Context) session {
	s := l.session()
	if handedOver(s) {
		l.renew(ctx, s)
	}
	return l.session()
}

// renew replaces a session after its node has stopped. It returns false if no other node can be used. Of concurrent callers,
// only the first one replaces the session.
func (l *reconnectingSession) renew(ctx context.Context, gone session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != gone {
		return true
	}
	s, err := l.reopen()
	if err != nil {
		return false
	}
	if handedOver(gone) {
		l.formerNodes = append(l.formerNodes, gone)
	} else {
		_ = gone.Close(ctx) // the node has stopped, so an error does not matter
	}
	l.current = s
	return true
}

// send sends a request. If the node has stopped, it repeats the request at another node, provided that the request may be
// repeated. Otherwise it returns the error, and the next request uses another node.
func (l *reconnectingSession) send(ctx context.Context, c api.Call) error {
	s := l.currentSession(ctx)
	err := c.Make(ctx, s)
	if !fault.Has(err, fault.Unavailable) || fault.IsOverloaded(err) || s.Embedded() {
		return err
	}
	if c.Repeat < api.Idempotent {
		l.renew(ctx, s)
		return err
	}
	for range renewals {
		if ctx.Err() != nil || !l.renew(ctx, s) {
			return err
		}
		s = l.session()
		if err = c.Make(ctx, s); !fault.Has(err, fault.Unavailable) || s.Embedded() {
			return err
		}
	}
	return err
}

// renewals is how often a request is repeated at another node. Beside a loop of short commands, each of these nodes may end at once.
const renewals = 5

// Ask implements session. It does not start another node, because such requests run in the background. The connection itself
// reconnects to a restarted node.
func (l *reconnectingSession) Ask(ctx context.Context, method string, in, out any) error {
	return l.currentSession(ctx).Ask(ctx, method, in, out)
}

// Submit implements session. It sets the id of the task, so that a repeated request does not create a second task.
func (l *reconnectingSession) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	if r.ID == "" {
		r.ID = events.NewTaskID(l.now())
	}
	return l.Client.Submit(ctx, r)
}

// SubmitBatch implements session. It sets the ids of the tasks, so that a repeated request does not create them twice.
func (l *reconnectingSession) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	r.Tasks = slices.Clone(r.Tasks)
	for i := range r.Tasks {
		if r.Tasks[i].ID == "" {
			r.Tasks[i].ID = events.NewTaskID(l.now())
		}
	}
	return l.Client.SubmitBatch(ctx, r)
}

// Register implements session.
func (l *reconnectingSession) Register(ctx context.Context, in agents.Registration) (agents.Registered, error) {
	return l.currentSession(ctx).Register(ctx, in)
}

// Collect implements session.
func (l *reconnectingSession) Collect(ctx context.Context, in agents.Collection) (agents.Collected, error) {
	return l.currentSession(ctx).Collect(ctx, in)
}

// Agents implements session.
func (l *reconnectingSession) Agents(ctx context.Context) ([]agents.View, error) {
	return l.currentSession(ctx).Agents(ctx)
}

// Remove implements session.
func (l *reconnectingSession) Remove(ctx context.Context, in agents.Removal) (agents.Member, error) {
	return l.currentSession(ctx).Remove(ctx, in)
}
