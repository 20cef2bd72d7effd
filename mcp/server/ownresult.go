package server

import (
	"context"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// maxWait is the longest wait of orch_result. It is below the usual timeouts of clients.
const maxWait = 50 * time.Second

// ownResult implements orch_result: it waits for the end of a task and returns its result. Meanwhile it sends the questions of
// the task to the client.
func (tt *taskTools) ownResult(ctx context.Context, c *client, in *ownInput) (any, error) {
	id, err := tt.ownTaskID(ctx, c, in)
	if err != nil {
		return nil, err
	}
	if err := tt.answerRound(ctx, *c, id, in); err != nil {
		return nil, err
	}
	wait := min(time.Duration(in.Wait*float64(time.Second)), maxWait)
	if wait <= 0 {
		wait = tt.cfg.Limits.SyncWait
	}
	r, err := tt.resultWithAnswers(ctx, *c, id, tt.cfg.Now().Add(wait))
	if err != nil {
		return nil, err
	}
	if r.Waits && c.modern {
		list, err := tt.questions.pending(ctx, *c, id)
		if err == nil {
			list, err = tt.questions.whole(ctx, *c, list)
		}
		if err != nil || len(list) > 0 {
			return tt.questions.inputRequired(*c, &run{id: id}, list), err
		}
	}
	if r.State == statemachine.Done {
		r.Output = tt.cfg.Hooks.Reveal(ctx, id, c.who.Name, r.Output)
	}
	switch {
	case r.State == statemachine.Done && (in.Field != "" || in.Offset != nil):
		return pieceOf(r, in)
	case r.Ended && !tt.answers.showsAll(*c):
		return flatten(r), nil
	}
	r.Output = c.reservation.valueKey(r.Output)
	if r.Ended {
		return r, nil
	}
	fields := fieldsOf(r)
	h, err := tt.answers.describePending(ctx, *c, id, "")
	fields["waits_for"], fields["reason"], fields["poll_interval_ms"] = h.WaitsFor, h.Reason, h.PollIntervalMs
	return fields, err
}

// resultWithAnswers waits for the end of a task until limit. A client with protocol version 2025-11-25 is asked the questions of
// the task meanwhile. For a client with version 2026-07-28, the wait ends when the task has a question that the client can answer.
func (tt *taskTools) resultWithAnswers(ctx context.Context, c client, id events.TaskID, limit time.Time) (api.ResultReply, error) {
	canAsk := !c.sessionless && c.session != nil && !c.modern
	for attend := canAsk || c.modern; ; {
		r, err := tt.result(ctx, c.reservation, api.ResultRequest{ID: id, Wait: max(limit.Sub(tt.cfg.Now()), 0), Attend: attend})
		switch {
		case err != nil || r.Ended || !r.Waits || !attend || !tt.cfg.Now().Before(limit):
			return r, err
		case canAsk:
			err = tt.askUntil(ctx, c, id, limit)
		default:
			var list []question
			if list, err = tt.questions.pending(ctx, c, id); len(list) > 0 {
				return r, err
			}
			attend = false // the client cannot answer: keep waiting
		}
		if err != nil {
			return r, err
		}
	}
}

// askUntil sends the questions of a task to the client, and waits until the task continues or the limit is reached.
func (tt *taskTools) askUntil(ctx context.Context, c client, id events.TaskID, limit time.Time) error {
	within, stop := context.WithTimeout(ctx, limit.Sub(tt.cfg.Now()))
	defer stop()
	waiter := tt.relays.join(c, id, false)
	defer waiter.stop()
	if _, err := waiter.wait(within, false); err != nil && within.Err() == nil {
		return err
	}
	return ctx.Err()
}

// answerRound delivers the answers of a client with protocol version 2026-07-28 that repeats its call to answer questions.
func (tt *taskTools) answerRound(ctx context.Context, c client, id events.TaskID, in *ownInput) error {
	if in.state == "" {
		return nil
	}
	state, ok := tt.questions.seal.open(c.who.Name, in.state)
	if sealedTask, _, _ := strings.Cut(state, " "); !ok || sealedTask != string(id) {
		return fault.New(fault.ValidationError, "is not a state that this server has given to this client for this task").WithField("requestState")
	}
	list, err := tt.questions.pending(ctx, c, id)
	if err != nil {
		return err
	}
	_, err = tt.questions.answerAll(ctx, c, list, in.answers)
	return err
}

// readRound copies the request state and the answers from a request, which are not among the arguments of the tool.
func (in *ownInput) readRound(p *mcp.CallToolParamsRaw) {
	in.state, in.answers = p.RequestState, p.InputResponses
}
