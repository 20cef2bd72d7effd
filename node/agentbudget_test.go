package node_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// office is a server of models. A boss gives work to clerks, all at once, and then ends. Each answer costs 1100 tokens.
type office struct {
	cfg    node.Config
	clerks int
	// full is closed when as many clerks as atOnce are asked at the same time. No answer comes before.
	atOnce int
	full   chan struct{}

	mu                sync.Mutex
	asked, busy, most int
}

func newOffice(t *testing.T, clerks, atOnce int, clerk string) *office {
	t.Helper()
	o := &office{clerks: clerks, atOnce: atOnce, full: make(chan struct{})}
	o.cfg = asking(t, modelstest.NewServer(t, o.answer), modelstest.OpenAI)
	o.cfg.Worker.Concurrency = 8
	writeAgentFile(t, filepath.Join(o.cfg.Root, ".orch", "agents", "clerk.yaml"), clerk)
	return o
}

func (o *office) answer(s modelstest.Seen) modelstest.Reply {
	answer := says("Done.")
	body := string(s.Body)
	switch {
	case strings.Contains(body, "Count the"):
		o.clerk()
	case !strings.Contains(body, "call_1"):
		answer = modelstest.Said(models.StopCalls)
		for i := range o.clerks {
			answer.Message.Parts = append(answer.Message.Parts, models.Part{Call: &models.Call{
				ID: fmt.Sprintf("call_%d", i+1), Name: "TASK_SPAWN", Args: fmt.Sprintf(`{"subagent_type":"clerk","prompt":"Count the files in folder %d."}`, i+1),
			}})
		}
	}
	answer.Usage = models.Usage{Input: 1000, Output: 100}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	return modelstest.Reply{Answer: answer}
}

// clerk waits until as many clerks as may work at once do.
func (o *office) clerk() {
	o.mu.Lock()
	o.busy++
	o.most = max(o.most, o.busy)
	if o.busy == o.atOnce {
		close(o.full)
		o.atOnce = -1
	}
	o.mu.Unlock()
	<-o.full
	o.mu.Lock()
	o.busy--
	o.mu.Unlock()
}

// bossPlan is a plan of an agent that starts others, with a budget in tokens.
func bossPlan(tokens int) string {
	return fmt.Sprintf(`
orch: v1
name: boss
steps:
  - id: boss
    agent: {model: test/x, prompt: "Let the clerks work.", tools: [TASK_SPAWN], max_tokens: 1000, budget: {tokens: %d, wall: 1h}}
`, tokens)
}

// Agents that an agent starts draw from its budget. One whose turn does not fit beside those of the others waits until they have answered.
func TestChildrenDrawFromTheBudgetAbove(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 5, 4, "model: test/x\nmax_tokens: 1000\n")
	n := start(t, o.cfg)
	id := submit(t, n.API(), bossPlan(11_000))
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	task := replayed(t, n, id)
	boss := task.Steps["boss"].Agent
	assert.Equal(t, events.Spent{Tokens: 7 * 1100, NanoUSD: 7 * 1200_000, Calls: 5}, boss.Spent)
	assert.Equal(t, events.Spent{Tokens: 5 * 1100, NanoUSD: 5 * 1200_000}, boss.Turns[0].Charged)
	assert.Empty(t, task.Children)
	assert.Equal(t, 4, o.most, "the fifth clerk waits for the others")
	child := replayed(t, n, task.Steps["boss.t1.c1"].Child)
	assert.Equal(t, *boss.Spec.Until, *child.Submitted.Deadline)
}

// A child that needs more than what is left of the budget above fails. The agent above hears why, and goes on.
func TestBudgetAboveIsUsedUp(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 1, 1, "model: test/x\nmax_tokens: 3000\n")
	n := start(t, o.cfg)
	id := submit(t, n.API(), bossPlan(5000))
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	task := replayed(t, n, id)
	call := task.Steps["boss.t1.c1"]
	child := replayed(t, n, call.Child)
	require.NotNil(t, child.Error)
	assert.Equal(t, fault.QuotaExceeded, child.Error.Code)
	assert.Contains(t, child.Error.Message, "what is left of the budget of the agent of step boss in "+string(id))
	assert.Contains(t, call.Error.Message, child.Error.Message, "the model of the boss hears why")
	assert.Equal(t, 2, o.asked, "the boss was told, and no clerk was asked")
}

// The budget of an agent holds for the tasks below it also after a restart of the node while their models are asked.
func TestBudgetAboveSurvivesARestart(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 2, 2, "model: test/x\nmax_tokens: 1000\n")
	o.full = make(chan struct{})
	o.atOnce = -1
	first := start(t, o.cfg)
	id := submit(t, first.API(), bossPlan(12_000))
	require.Eventually(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.most == 2 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, first.Stop(t.Context()))
	close(o.full)
	n := start(t, o.cfg)
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	boss := replayed(t, n, id).Steps["boss"].Agent
	lost := boss.Turns[0].Charged.Tokens - 2*1100
	assert.Greater(t, lost, int64(4000), "the answers that the restart has lost count")
	assert.Equal(t, 4*1100+lost, boss.Spent.Tokens)
}

// What the children of an agent may have cost when its task is cancelled counts against its budget, also in a retry.
func TestCancelledChildrenCountAgainstTheBudgetAbove(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 2, -1, "model: test/x\nmax_tokens: 1000\n")
	defer close(o.full)
	n := start(t, o.cfg)
	id := submit(t, n.API(), bossPlan(12_000))
	require.Eventually(t, func() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.most == 2 }, time.Minute, 10*time.Millisecond)
	_, err := n.API().Cancel(t.Context(), api.CancelRequest{ID: id})
	require.NoError(t, err)
	require.Equal(t, statemachine.Cancelled, result(t, n.API(), id).State)
	task := replayed(t, n, id)
	boss := task.Steps["boss"].Agent
	assert.Empty(t, task.Children)
	assert.Greater(t, boss.Spent.Tokens, int64(1100+2*2000), "both clerks may be billed for what they have asked")

	again, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	next := replayed(t, n, again.ID).Steps["boss"].Agent
	assert.Equal(t, boss.Spent.Tokens-1100, next.Spec.Carried.Tokens)
}
