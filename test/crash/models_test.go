package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

// modelJobs are the tasks with agents that run a model.
func modelJobs() []job {
	agent := func(name, more string) string {
		return "orch: v1\nname: " + name + "\nsteps:\n  - id: a\n    agent: {prompt: go, tools: ['CRASH_*'], max_tokens: 100, " + more + "}\n"
	}
	const much = "budget: {tokens: 1000000}"
	return []job{
		{name: "model", plan: agent("model", "model: 'script:script', "+much) + "  - id: b\n    tool: CRASH_READ\n    needs: [a]\n    retry: {max_attempts: 100, initial: 20ms, max: 100ms}\n"},
		{name: "billed", plan: agent("billed", "model: bill/x, "+much), labels: map[string]string{"team": "other"}},
		{name: "told", says: 2, plan: agent("told", "model: bill/x, "+much)},
		{name: "chat", says: 3, chat: true, plan: agent("chat", "model: bill/x, chat: true, "+much)},
		{name: "granted", plan: agent("granted", "model: bill/x, max_turns: 1, budget: {tokens: 1000000, on_exceeded: ask}")},
		{name: "unwanted", cancel: true, cancelWithin: 200 * time.Millisecond, plan: agent("unwanted", "model: bill/x")},
		{name: "daily", plan: agent("daily", "model: bill/day")},
		{name: "team", plan: agent("team", "model: bill/team"), labels: map[string]string{"team": "crash"}},
		{name: "each", plan: agent("each", "model: bill/each")},
	}
}

// modelScript is the model of the job model: its calls read and write, one after the other and side by side.
const modelScript = `
turns:
  - calls: [{tool: CRASH_IDEM}, {tool: CRASH_WRITE}]
    delay: 20ms
  - text: Once more.
    calls: [{tool: CRASH_WRITE}, {tool: CRASH_READ}, {tool: CRASH_NONE}]
  - calls: [{tool: CRASH_CHILD}]
    delay: 5ms
  - text: Done.
`

// budgets are the budgets of the node. They grow with the rounds, so that in each round some turns fit into them and others do not.
type budgets struct {
	mu  sync.Mutex
	now []crash.Budget
}

const (
	// budgetAtFirst is the limit of each budget in tokens, budgetPerRound what it grows by with each round. tokenPrice is what a
	// token costs at most.
	budgetAtFirst  = 6_000
	budgetPerRound = 800
	tokenPrice     = 3_000
)

// begin returns the budgets of a node that starts now.
func (b *budgets) begin(round int) []settings.ModelBudget {
	tokens := int64(budgetAtFirst + budgetPerRound*round)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil {
		b.now = []crash.Budget{{Model: "bill/day"}, {Model: "bill/team", Key: "team", Value: "crash", Monthly: true}, {Model: "bill/each", Each: true}}
	}
	limit := crash.Limit{From: time.Now(), Spent: events.Spent{Tokens: tokens}}
	for i := range b.now {
		limit.NanoUSD = 0
		if b.now[i].Monthly {
			limit.NanoUSD = tokens * tokenPrice / 2
		}
		b.now[i].Limits = append(b.now[i].Limits, limit)
	}
	return []settings.ModelBudget{
		{Tokens: tokens, Per: costs.PerDay, Model: "bill/day"},
		{Tokens: tokens, NanoUSD: limit.NanoUSD, Per: costs.PerMonth, Model: "bill/t*", Labels: map[string]string{"team": "crash"}},
		{Tokens: tokens, Per: costs.PerDay, Model: "bill/each", By: costs.ByIdentity},
	}
}

func (b *budgets) all() []crash.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// askCosts asks the node what models have cost, when it has counted everything.
func (r *run) askCosts() {
	r.t.Helper()
	r.costs = map[string][]costs.Row{}
	for _, by := range []string{costs.ByDay, costs.ByModel, costs.ByTask, costs.ByIdentity, crash.LabelOfCosts} {
		for end := time.Now().Add(settleWithin); ; wait(50 * time.Millisecond) {
			reply, _, err := insist(r.t.Context(), r.api.Costs, api.CostsRequest{GroupBy: by})
			require.NoError(r.t, err)
			if r.costs[by] = reply.Rows; !reply.Behind {
				break
			}
			require.True(r.t, time.Now().Before(end), "the node still counts costs")
		}
	}
}

// talk is a conversation with the agent of a task.
type talk struct {
	task  events.TaskID
	name  string
	round int
}

// saidTexts finds the texts of messages to agents.
var saidTexts = regexp.MustCompile(`said:[0-9-]+`)

// sayEvery is the longest pause between two messages to an agent.
const sayEvery = 250 * time.Millisecond

// talk says things to the agent of a task, one after the other. The last message to a chat ends it, or another one does without a text.
func (l *load) talk(ctx context.Context, j job, t talk) {
	for n := 1; n <= j.says; n++ {
		_ = pause.For(ctx, rand.N(sayEvery))
		last := j.chat && n == j.says
		if with := rand.IntN(2) == 0; !l.say(ctx, j, t, n, last && with) {
			return
		} else if last && !with {
			l.say(ctx, j, t, 0, true)
		}
	}
}

// say says something to an agent, number n, or nothing if it is 0. It is said anew, with another text, when the outcome is unknown, and
// again while the agent has not begun. It reports whether the node has acknowledged it.
func (l *load) say(ctx context.Context, j job, t talk, n int, end bool) bool {
	ended := false // by a message whose outcome is unknown
	for try, until := 1, time.Now().Add(answerWithin); time.Now().Before(until); try++ {
		s := crash.Say{Task: t.task, End: end}
		if n > 0 {
			s.Text = fmt.Sprintf("said:%s-%d-%d", t.name, n, try)
		}
		one, stop := context.WithTimeout(ctx, oneAnswer)
		_, err := l.api.Say(one, api.SayRequest{ID: t.task, Step: "a", Text: s.Text, End: end, Actor: operator})
		stop()
		switch {
		case err == nil, unknown(err):
			s.Acked = err == nil
			l.said(s)
			if ended = ended || end; s.Acked {
				return true
			}
		case !fault.Has(err, fault.StateNotAllowed):
			l.violate("I19", t.task, t.round, "%q was refused: %v", s.Text, err)
			return false
		case l.endOf(ctx, t.task) != "":
			if j.chat && !ended {
				l.violate("I19", t.task, t.round, "the chat has ended before its end: %v", err)
			}
			return false
		}
		_ = pause.For(ctx, retryEvery)
	}
	l.violate("I19", t.task, t.round, "message %d is not accepted within %s", n, answerWithin)
	return false
}

func (l *load) said(s crash.Say) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.says = append(l.says, s)
}

// endOf returns the state in which a task has ended; "" if it has not.
func (l *load) endOf(ctx context.Context, id events.TaskID) statemachine.State {
	view, _, err := insist(ctx, l.api.Get, api.GetRequest{ID: id})
	if err != nil || !view.State.Terminal() {
		return ""
	}
	return view.State
}

// grantAll grants what agents ask for, until stop is closed.
func (l *load) grantAll(ctx context.Context, stop <-chan struct{}, round int) {
	for !closed(stop) && pause.For(ctx, 2*retryEvery) == nil {
		reply, _, err := insist(ctx, l.api.Approvals, api.ApprovalsRequest{})
		if err != nil {
			l.violate("I1", "", round, "approvals cannot be listed: %v", err)
			return
		}
		for _, a := range reply.Approvals {
			l.grant(ctx, a, round)
		}
	}
}

// grant grants an approval. A repeated request finds it granted.
func (l *load) grant(ctx context.Context, a api.ApprovalView, round int) {
	_, _, err := insist(ctx, l.api.Decide, api.DecideRequest{ID: a.ID, As: "granted", Actor: operator})
	if err != nil && !fault.Has(err, fault.Conflict) {
		l.violate("I1", a.Task, round, "the grant of %s was refused: %v", a.ID, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
}
