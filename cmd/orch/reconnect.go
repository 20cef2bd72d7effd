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

// reconnectingSession is a session that outlives the node it speaks to: when that is gone, the next one is found, or started in
// this process. A client of MCP stays for days; the node of another client, or that of orch serve, may not.
type reconnectingSession struct {
	// reopen finds or starts another node; one that it starts lives until the session is closed.
	reopen func() (session, error)
	// now tells the time for new ids.
	now func() time.Time

	mu      sync.Mutex
	current session
	// lent are nodes of this process that were handed over: calls may go on in them.
	lent []session
}

// newReconnectingSession makes a session one that reconnects.
func newReconnectingSession(s session, reopen func() (session, error), now func() time.Time) *reconnectingSession {
	return &reconnectingSession{reopen: reopen, now: now, current: s}
}

// restartGrace is how long a node that is gone may take to be started again, before this process starts one. Without
// that, who restarts orch serve would find its data directory taken.
const restartGrace = 5 * time.Second

// dialOrOpen waits for a node that somebody starts again, and otherwise opens one. A node that holds the data directory
// may take longer to start.
func dialOrOpen(ctx context.Context, n nodes, cfg config.Config, m mode) (session, error) {
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := n.Dial(ctx, cfg); err == nil {
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
	all := append(slices.Clone(l.lent), l.current)
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

// handedOver reports whether a session is a node of this process that another node has taken over from.
func handedOver(s session) bool {
	own, ok := s.(embedded)
	return ok && own.node.HandedOver()
}

// live returns the session for a request. One whose node was handed over is left for that of the other one.
func (l *reconnectingSession) live(ctx context.Context) session {
	s := l.session()
	if handedOver(s) {
		l.renew(ctx, s)
	}
	return l.session()
}

// renew takes another session in the place of one whose node is gone; false when there is none. Who comes while
// another one renews gets what that one found.
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
		l.lent = append(l.lent, gone)
	} else {
		_ = gone.Close(ctx) // its node is gone
	}
	l.current = s
	return true
}

// sendOnce sends a request. When the node is gone the caller hears of it, and the next request goes to another one.
func sendOnce[R, A any](ctx context.Context, l *reconnectingSession, send func(api.API, context.Context, R) (A, error), r R) (A, error) {
	s := l.live(ctx)
	reply, err := send(s, ctx, r)
	if fault.Has(err, fault.Unavailable) && !s.Embedded() {
		l.renew(ctx, s)
	}
	return reply, err
}

// sendRepeatable sends a request that may be repeated: to another node when the first one is gone.
func sendRepeatable[R, A any](ctx context.Context, l *reconnectingSession, send func(api.API, context.Context, R) (A, error), r R) (A, error) {
	s := l.live(ctx)
	reply, err := send(s, ctx, r)
	if fault.Has(err, fault.Unavailable) && !s.Embedded() && ctx.Err() == nil && l.renew(ctx, s) {
		return send(l.session(), ctx, r)
	}
	return reply, err
}

// Ask implements session. It takes no other node: the connection finds one that is started again, and what is asked
// in the background is no reason to start one here.
func (l *reconnectingSession) Ask(ctx context.Context, method string, in, out any) error {
	return l.live(ctx).Ask(ctx, method, in, out)
}

// Submit implements session. The id makes a repeated request the same task.
func (l *reconnectingSession) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	if r.ID == "" {
		r.ID = events.NewTaskID(l.now())
	}
	return sendRepeatable(ctx, l, api.API.Submit, r)
}

// SubmitBatch implements session. The ids make repeated requests the same tasks.
func (l *reconnectingSession) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	r.Tasks = slices.Clone(r.Tasks)
	for i := range r.Tasks {
		if r.Tasks[i].ID == "" {
			r.Tasks[i].ID = events.NewTaskID(l.now())
		}
	}
	return sendRepeatable(ctx, l, api.API.SubmitBatch, r)
}

// Find implements session.
func (l *reconnectingSession) Find(ctx context.Context, r api.FindRequest) (api.FindReply, error) {
	return sendRepeatable(ctx, l, api.API.Find, r)
}

// Get implements session.
func (l *reconnectingSession) Get(ctx context.Context, r api.GetRequest) (api.TaskView, error) {
	return sendRepeatable(ctx, l, api.API.Get, r)
}

// Result implements session.
func (l *reconnectingSession) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	return sendRepeatable(ctx, l, api.API.Result, r)
}

// List implements session.
func (l *reconnectingSession) List(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	return sendRepeatable(ctx, l, api.API.List, r)
}

// Watch implements session.
func (l *reconnectingSession) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	return sendRepeatable(ctx, l, api.API.Watch, r)
}

// History implements session.
func (l *reconnectingSession) History(ctx context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	return sendRepeatable(ctx, l, api.API.History, r)
}

// Replay implements session.
func (l *reconnectingSession) Replay(ctx context.Context, r api.ReplayRequest) (api.ReplayReply, error) {
	return sendRepeatable(ctx, l, api.API.Replay, r)
}

// Explain implements session.
func (l *reconnectingSession) Explain(ctx context.Context, r api.GetRequest) (api.ExplainReply, error) {
	return sendRepeatable(ctx, l, api.API.Explain, r)
}

// Cancel implements session.
func (l *reconnectingSession) Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error) {
	return sendRepeatable(ctx, l, api.API.Cancel, r)
}

// Pause implements session.
func (l *reconnectingSession) Pause(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	return sendRepeatable(ctx, l, api.API.Pause, r)
}

// Resume implements session.
func (l *reconnectingSession) Resume(ctx context.Context, r api.PauseRequest) (api.ControlReply, error) {
	return sendRepeatable(ctx, l, api.API.Resume, r)
}

// Retry implements session.
func (l *reconnectingSession) Retry(ctx context.Context, r api.RetryRequest) (api.SubmitReply, error) {
	return sendOnce(ctx, l, api.API.Retry, r)
}

// Redrive implements session.
func (l *reconnectingSession) Redrive(ctx context.Context, r api.RedriveRequest) (api.SubmitReply, error) {
	return sendOnce(ctx, l, api.API.Redrive, r)
}

// Signal implements session.
func (l *reconnectingSession) Signal(ctx context.Context, r api.SignalRequest) (api.TaskView, error) {
	return sendOnce(ctx, l, api.API.Signal, r)
}

// Resolve implements session.
func (l *reconnectingSession) Resolve(ctx context.Context, r api.ResolveRequest) (api.TaskView, error) {
	return sendOnce(ctx, l, api.API.Resolve, r)
}

// Call implements session.
func (l *reconnectingSession) Call(ctx context.Context, r api.CallRequest) (api.CallReply, error) {
	return sendOnce(ctx, l, api.API.Call, r)
}

// Checkpoint implements session.
func (l *reconnectingSession) Checkpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	return sendOnce(ctx, l, api.API.Checkpoint, r)
}

// Approvals implements session.
func (l *reconnectingSession) Approvals(ctx context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error) {
	return sendRepeatable(ctx, l, api.API.Approvals, r)
}

// Decide implements session.
func (l *reconnectingSession) Decide(ctx context.Context, r api.DecideRequest) (api.ApprovalView, error) {
	return sendRepeatable(ctx, l, api.API.Decide, r)
}

// Questions implements session.
func (l *reconnectingSession) Questions(ctx context.Context, r api.QuestionsRequest) (api.QuestionsReply, error) {
	return sendRepeatable(ctx, l, api.API.Questions, r)
}

// Answer implements session.
func (l *reconnectingSession) Answer(ctx context.Context, r api.AnswerRequest) (api.TaskView, error) {
	return sendRepeatable(ctx, l, api.API.Answer, r)
}

// Archive implements session.
func (l *reconnectingSession) Archive(ctx context.Context, r api.ArchiveRequest) (api.ArchiveReply, error) {
	return sendRepeatable(ctx, l, api.API.Archive, r)
}

// Queue implements session.
func (l *reconnectingSession) Queue(ctx context.Context, r api.QueueRequest) (api.QueueReply, error) {
	return sendRepeatable(ctx, l, api.API.Queue, r)
}

// Status implements session.
func (l *reconnectingSession) Status(ctx context.Context, r api.StatusRequest) (api.StatusReply, error) {
	return sendRepeatable(ctx, l, api.API.Status, r)
}

// Register implements session.
func (l *reconnectingSession) Register(ctx context.Context, in agents.Registration) (agents.Registered, error) {
	return l.live(ctx).Register(ctx, in)
}

// Collect implements session.
func (l *reconnectingSession) Collect(ctx context.Context, in agents.Collection) (agents.Collected, error) {
	return l.live(ctx).Collect(ctx, in)
}

// Agents implements session.
func (l *reconnectingSession) Agents(ctx context.Context) ([]agents.View, error) {
	return l.live(ctx).Agents(ctx)
}

// Remove implements session.
func (l *reconnectingSession) Remove(ctx context.Context, in agents.Removal) (agents.Member, error) {
	return l.live(ctx).Remove(ctx, in)
}
