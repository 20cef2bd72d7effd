package decide_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/work"
)

// ledger returns a budget of the node of which something was spent and is held, in tokens.
func ledger(limit, spent, held int64) decide.Ledger {
	return decide.Ledger{
		Name: "tokens a day", Limit: events.Spent{Tokens: limit}, Spent: events.Spent{Tokens: spent}, Held: events.Spent{Tokens: held},
		Until: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), Counts: func(models []string) bool { return models[0] == "m/x" },
	}
}

// most is what the first turn of agentWorld with max_tokens: 100 reserves, in tokens.
const most = 1024 + 10 + 100 + 2

// A turn begins if each budget of the node that counts it has enough left, also for the turns in flight. If only these are too many, it
// waits for them.
func TestBudgetsOfTheNode(t *testing.T) {
	t.Parallel()
	const fails = "task.started, agent.started a, step.failed a, task.ending, task.failed"
	const begins = "task.started, agent.started a, turn.requested a, step.ready a.t1.m"
	const waits = "task.started, agent.started a"
	other := ledger(1, 1, 1)
	other.Counts = func([]string) bool { return false }
	for name, test := range map[string]struct {
		ledgers []decide.Ledger
		want    string
	}{
		"enough":                       {[]decide.Ledger{ledger(5000, 1000, 1000), other}, begins},
		"too little":                   {[]decide.Ledger{ledger(5000, 4500, 0)}, fails},
		"too little in the second one": {[]decide.Ledger{ledger(5000, 0, 0), ledger(5000, 4500, 0)}, fails},
		"too many in flight":           {[]decide.Ledger{ledger(5000, 1000, 3500)}, waits},
		"in flight, and too little":    {[]decide.Ledger{ledger(5000, 1000, 3500), ledger(5000, 4500, 0)}, fails},
		"never enough":                 {[]decide.Ledger{ledger(500, 0, 0)}, fails},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, "max_tokens: 100")
			w.ledgers = test.ledgers
			assert.Equal(t, test.want, w.wake())
			if test.want == fails {
				err := w.task.Steps["a"].Error
				assert.Equal(t, fault.QuotaExceeded, err.Code)
				assert.Equal(t, "models.budgets", err.Field)
				assert.Contains(t, err.Message, "the budget of tokens a day")
			}
		})
	}
	w := agentWorld(t, "max_tokens: 100")
	w.ledgers, w.unknownLedgers = []decide.Ledger{ledger(5000, 0, 0)}, true
	assert.Equal(t, waits, w.wake(), "it is not known what was spent")
	w.unknownLedgers = false
	assert.Equal(t, "turn.requested a, step.ready a.t1.m", w.wake())
	reserved := w.task.Steps["a"].Agent.Reserved.Tokens
	assert.InDelta(t, most, reserved, 20)
}

// The turns of one decision are held together, and a budget in dollars needs prices.
func TestBudgetsOfTheNodeInOneDecision(t *testing.T) {
	t.Parallel()
	w := submitted(t, "steps:\n  - {id: a, agent: {model: m/x, prompt: one, max_tokens: 100}}\n  - {id: b, agent: {model: m/x, prompt: two, max_tokens: 100}}\n", nil)
	w.catalogue = toolbox(t)
	w.ledgers = []decide.Ledger{ledger(2000, 0, 0)}
	assert.Equal(t, "task.started, agent.started a, agent.started b, turn.requested a, step.ready a.t1.m", w.wake())

	w = submitted(t, "steps: [{id: a, agent: {model: m/free, prompt: one}}]\n", nil)
	w.catalogue = toolbox(t)
	dollars := ledger(0, 0, 0)
	dollars.Limit = events.Spent{NanoUSD: 1e9}
	w.ledgers = []decide.Ledger{dollars}
	w.wake()
	assert.NotEqual(t, "task.failed", w.task.Steps["a"].State, "the budget does not count the model")
	w = submitted(t, "steps: [{id: a, agent: {model: m/free, prompt: one}}]\n", nil)
	w.catalogue = toolbox(t)
	dollars.Counts = func([]string) bool { return true }
	w.ledgers = []decide.Ledger{dollars}
	w.wake()
	require.NotNil(t, w.task.Steps["a"].Error)
	assert.Contains(t, w.task.Steps["a"].Error.Message, "the price of the model m/free is not known")
}

// An answer that begins the next turn at once gives back what it had reserved. An answer that is lost is not asked for again if what is
// left does not suffice.
func TestBudgetsOfTheNodeAfterAnAnswer(t *testing.T) {
	t.Parallel()
	begin := func(limit int64) *world {
		w := agentWorld(t, "tools: [FILE_READ], max_tokens: 100")
		w.ledgers = []decide.Ledger{ledger(limit, 0, 0)}
		w.wake()
		reserved := w.task.Steps["a"].Agent.Reserved.Tokens
		w.ledgers = []decide.Ledger{ledger(limit, 0, reserved)}
		return w
	}
	w := begin(2200)
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.failed a.t1.c1, turn.requested a, step.ready a.t2.m", w.hears(1, says("", "NO_TOOL {}")))

	gone := work.Outcome{Error: fault.New(fault.NetworkError, "cut"), Class: fault.ClassTransport}
	w = begin(2200)
	w.begin("a.t1.m")
	assert.Equal(t, "turn.lost a, step.failed a.t1.m, step.failed a, task.ending, task.failed", w.end("a.t1.m", gone))
	assert.Equal(t, "models.budgets", w.task.Steps["a"].Error.Field)
	w = begin(20_000)
	w.begin("a.t1.m")
	assert.Equal(t, "turn.lost a, step.retrying a.t1.m", w.end("a.t1.m", gone))
}

// The budget of an agent above a task holds its turns as one of the node does, and a person can let the agent go on beyond it.
func TestBudgetOfAnAgentAbove(t *testing.T) {
	t.Parallel()
	above := func(limit, spent, held int64) []decide.Ledger {
		l := ledger(limit, spent, held)
		l.Above, l.Name, l.Until = true, "the agent of step boss", time.Time{}
		return []decide.Ledger{l}
	}
	w := agentWorld(t, "max_tokens: 100")
	w.above = above(5000, 1000, 3500)
	assert.Equal(t, "task.started, agent.started a", w.wake(), "other children are in flight")
	w.above = above(5000, 1000, 0)
	assert.Equal(t, "turn.requested a, step.ready a.t1.m", w.wake())
	w.above = above(5000, 1000, 4500)
	w.begin("a.t1.m")
	gone := work.Outcome{Error: fault.New(fault.NetworkError, "cut"), Class: fault.ClassTransport}
	assert.Equal(t, "turn.lost a, step.failed a.t1.m, step.failed a, task.ending, task.failed", w.end("a.t1.m", gone))
	err := w.task.Steps["a"].Error
	assert.Equal(t, "the next request may use more than what is left of the budget of the agent of step boss", err.Message)
	assert.Equal(t, "budget of the agent above", err.Field)

	w = agentWorld(t, "max_tokens: 100, budget: {tokens: 2000, on_exceeded: ask}")
	w.above = above(5000, 4900, 0)
	assert.Equal(t, "task.started, agent.started a, approval.requested a.b1, task.approval_requested, step.parked a.b1", w.wake())
	assert.Equal(t, "let the agent of step a go on with 50 turns, 2000 tokens more, beyond the budget of the agent above it", w.task.Approvals[0].Description)

	w = submitted(t, "steps: [{id: a, agent: {model: m/free, prompt: one}}]\n", nil)
	w.catalogue = toolbox(t)
	dollars := above(0, 0, 0)
	dollars[0].Limit, dollars[0].Counts = events.Spent{NanoUSD: 1e9}, func([]string) bool { return true }
	w.above = dollars
	w.wake()
	require.NotNil(t, w.task.Steps["a"].Error)
	assert.Equal(t, "the price of the model m/free is not known, so the budget of the agent of step boss cannot be kept", w.task.Steps["a"].Error.Message)
}

// The budget of an agent above counts an answer also in the decision that records it, which may begin the next turn.
func TestBudgetOfAnAgentAboveAfterAnAnswer(t *testing.T) {
	t.Parallel()
	const cost = 110 // of the answer
	next := func(limit int64) (emitted string, reserved int64) {
		w := agentWorld(t, "tools: [FILE_READ], max_tokens: 100")
		l := ledger(limit, 0, 0)
		l.Above = true
		w.wake()
		w.above = []decide.Ledger{l}
		emitted = w.hears(1, says("", "NO_TOOL {}"))
		return emitted, w.task.Steps["a"].Agent.Reserved.Tokens
	}
	_, reserved := next(1_000_000)
	begun, _ := next(reserved + cost)
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.failed a.t1.c1, turn.requested a, step.ready a.t2.m", begun)
	begun, _ = next(reserved + cost - 1)
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.failed a.t1.c1, step.failed a, task.ending, task.failed", begun)
}

// A node that starts does not know at first what answers have cost that were lost with the node before. A request is not repeated until it
// does, and not at all if they have used up the budget.
func TestBudgetsOfTheNodeAfterARestart(t *testing.T) {
	t.Parallel()
	for spent, want := range map[int64]string{
		1000: "step.ready a.t1.m",
		4500: "step.failed a.t1.m, step.failed a, task.ending, task.failed",
	} {
		w := agentWorld(t, "max_tokens: 100")
		w.ledgers = []decide.Ledger{ledger(5000, 0, 0)}
		w.wake()
		w.begin("a.t1.m")
		reserved := w.task.Steps["a"].Agent.Reserved.Tokens
		w.ledgers, w.unknownLedgers = []decide.Ledger{ledger(5000, 0, reserved)}, true
		gone := work.Outcome{Error: fault.New(fault.WorkerLost, "gone"), Class: fault.ClassWorkerLost}
		assert.Equal(t, "turn.lost a, step.retrying a.t1.m", w.end("a.t1.m", gone))
		w.now = w.now.Add(time.Minute)
		assert.Empty(t, w.wake(), "it is not known what was spent")
		w.ledgers, w.unknownLedgers = []decide.Ledger{ledger(5000, spent, reserved)}, false
		assert.Equal(t, want, w.wake())
	}
}

// A person can let an agent go on beyond a budget of the node, as far as its own budget goes once more.
func TestBeyondABudgetOfTheNode(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], max_tokens: 100, budget: {tokens: 2000, on_exceeded: ask}")
	w.ledgers = []decide.Ledger{ledger(5000, 4900, 0)}
	assert.Equal(t, "task.started, agent.started a, approval.requested a.b1, task.approval_requested, step.parked a.b1", w.wake())
	a := w.task.Approvals[0]
	assert.Equal(t, "let the agent of step a go on with 50 turns, 2000 tokens more, beyond a budget of the node", a.Description)
	assert.Contains(t, a.Rationale, "the budget of tokens a day")
	grant := func(as string) string {
		return w.decide(func(t *decide.Turn) error {
			return t.Approvals().DecideApproval(w.task.Approvals[len(w.task.Approvals)-1], api.DecideRequest{As: as, Actor: "user:ada", Reason: "why not"}, nil)
		})
	}
	assert.Equal(t, "approval.granted, step.succeeded a.b1, task.approved, agent.extended a, turn.requested a, step.ready a.t1.m", grant("granted"))
	assert.True(t, w.task.Steps["a"].Agent.BeyondBudgets)
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.ready a.t1.c1", w.hears(1, costs(500, says("", "FILE_READ {}"))))
	assert.Equal(t, "step.succeeded a.t1.c1, approval.requested a.b2, task.approval_requested, step.parked a.b2", w.calls(1, 1, good()), "its own budget")
	assert.Equal(t, "approval.rejected, step.failed a.b2, task.declined, step.failed a, task.ending, task.failed", grant("rejected"))
}
