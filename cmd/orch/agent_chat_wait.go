package main

import (
	"context"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// chatQuiet is how long an agent may be silent before a chat says what it waits for.
	chatQuiet = 2 * time.Second
	// maxBelow limits how far below its agent a chat looks for what is waited for.
	maxBelow = 8
)

// noteRetries says that a model is asked again, and why.
func (t *chatting) noteRetries(commits []api.CommitView) {
	for _, commit := range commits {
		for _, e := range commit.Events {
			d, ok := e.Data.(*events.Retrying)
			if !ok || !isRequest(d.Step) || d.Error == nil {
				continue
			}
			t.note("  the model is asked again in %s: %s", max(d.At.Sub(t.now()), 0).Round(time.Second), screen.Line(d.Error.Message))
		}
	}
}

// isRequest reports whether a step asks the model of an agent.
func isRequest(key string) bool {
	agent, call := statemachine.SplitCall(key)
	turn, asks := strings.CutSuffix(call, ".m")
	name, _ := statemachine.SplitTurn(agent + "." + turn)
	return asks && name != ""
}

// noteWait says what the agent waits for, unless the chat has just said the same. Where that cannot be read, it says nothing.
func (t *chatting) noteWait(ctx context.Context) {
	text := waitBelow(ctx, t.session, t.id, 0)
	if text == "" || text == t.waits {
		return
	}
	t.waits = text
	t.note("  %s", text)
}

// waitBelow returns what a task of a chat waits for, or a task below it; "" if its model or a call works. The chat itself shows
// approvals, questions and retries of its own task.
func waitBelow(ctx context.Context, s session, id events.TaskID, depth int) string {
	why, err := s.Explain(ctx, api.GetRequest{ID: id})
	if err != nil || depth > maxBelow {
		return ""
	}
	shown := map[string]bool{"agent": true, "running": true, "message": depth == 0, "deadline": true, "approval": depth == 0, "question": depth == 0, "retry": depth == 0}
	for _, c := range why.Causes {
		switch {
		case c.Kind == "child":
			if below := waitBelow(ctx, s, c.Task, depth+1); below != "" {
				return below
			}
			return "task " + string(c.Task) + " works for it: orch watch " + string(c.Task)
		case shown[c.Kind]:
		case depth > 0:
			return "task " + string(id) + " waits: " + causeLine(c)
		default:
			return causeLine(c)
		}
	}
	return ""
}

// causeLine returns a cause with what somebody can do about it.
func causeLine(c api.Cause) string {
	if c.Next == "" {
		return screen.Line(c.Sentence)
	}
	return screen.Line(strings.TrimSuffix(c.Sentence, ".")) + ": " + c.Next
}
