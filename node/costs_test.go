package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// spender is an agent whose request may cost 1024 + 100 + some 200 tokens, and costs what modelstest.Said says.
const spender = "orch: v1\nname: spend\nsteps: [{id: a, agent: {model: test/x, prompt: 'Go.', max_tokens: 100}}]\n"

func costsOf(t *testing.T, n *node.Node, by string) api.CostsReply {
	t.Helper()
	r, err := n.API().Costs(t.Context(), api.CostsRequest{GroupBy: by})
	require.NoError(t, err)
	return r
}

// Fifty agents at once on a budget for twenty never make the provider bill more than the budget, however often the node ends meanwhile.
// What the node has counted is never less than the bill.
func TestBudgetHoldsOverRestarts(t *testing.T) {
	t.Parallel()
	const tokens = 1000 // that the provider bills for each request
	const agents, limit = 50, 20*tokens + 1500
	var billed atomic.Int64
	stopAt := make(chan int64, 2)
	server := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply {
		n := billed.Add(1)
		answer := says("done")
		answer.Usage = models.Usage{Input: tokens - 10, Output: 10}
		if n == 6 || n == 12 {
			stopAt <- n
			return modelstest.Reply{Answer: answer, Fault: modelstest.Stall}
		}
		return modelstest.Reply{Answer: answer}
	})
	cfg := asking(t, server, modelstest.OpenAI)
	cfg.Models.Budgets = []settings.ModelBudget{{Tokens: limit, Per: "month"}}
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	var ids []events.TaskID
	for range agents {
		ids = append(ids, submit(t, n.API(), spender))
	}
	for range 2 {
		select {
		case <-stopAt:
		case <-time.After(time.Minute):
			t.Fatal("no request stalls")
		}
		stop, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_ = n.Stop(stop) // the requests that stall do not end
		cancel()
		n, err = node.Start(t.Context(), cfg)
		require.NoError(t, err)
	}
	done := 0
	for _, id := range ids {
		switch r := result(t, n.API(), id); r.State {
		case statemachine.Done:
			done++
		default:
			require.Equal(t, fault.QuotaExceeded, r.Error.Code, "%v", r.Error)
		}
	}
	r := costsOf(t, n, costs.ByModel)
	bill := billed.Load() * tokens
	most := r.Total.Most().Tokens
	assert.LessOrEqual(t, bill, int64(limit))
	assert.LessOrEqual(t, bill, most, "the node knows everything that is billed")
	assert.LessOrEqual(t, most, int64(limit))
	assert.Positive(t, r.Total.Lost)
	assert.GreaterOrEqual(t, done, 10)
	require.Len(t, r.Budgets, 1)
	assert.Equal(t, most, r.Budgets[0].Spent.Tokens)
	assert.Zero(t, r.Budgets[0].Held)
	require.NoError(t, n.Stop(t.Context()))

	again := start(t, cfg)
	require.Eventually(t, func() bool { return !costsOf(t, again, "").Behind }, time.Minute, time.Millisecond)
	assert.Equal(t, r, costsOf(t, again, costs.ByModel), "a restart changes nothing")
}

// What is held by turns in flight is given to those that wait, so that a small budget serves many cheap turns.
func TestTurnsWaitForOthers(t *testing.T) {
	t.Parallel()
	var inFlight, most atomic.Int64
	answers := make(chan struct{})
	server := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply {
		<-answers
		now := inFlight.Add(1)
		defer inFlight.Add(-1)
		for {
			if before := most.Load(); now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		answer := says("done")
		answer.Usage = models.Usage{Input: 9, Output: 1}
		return modelstest.Reply{Answer: answer}
	})
	cfg := asking(t, server, modelstest.OpenAI)
	cfg.Models.Budgets = []settings.ModelBudget{{Tokens: 3000, Per: "day"}}
	n := start(t, cfg)
	var ids []events.TaskID
	for range 40 {
		ids = append(ids, submit(t, n.API(), spender))
	}
	why, err := n.API().Explain(t.Context(), api.GetRequest{ID: ids[len(ids)-1]})
	require.NoError(t, err)
	assert.Equal(t, "budget", why.Causes[0].Kind)
	assert.Contains(t, why.Causes[0].Sentence, "whose turns hold what is left of a budget that they share")
	close(answers)
	for _, id := range ids {
		r := result(t, n.API(), id)
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	}
	assert.LessOrEqual(t, most.Load(), int64(2), "3000 tokens are enough for two at once")
	r := costsOf(t, n, costs.ByAgent)
	assert.Equal(t, int64(400), r.Total.Most().Tokens)
	require.Len(t, r.Rows, 1)
	assert.Equal(t, "spend/a", r.Rows[0].Key)
}

// A retry does not count the turns again that it takes over, and tasks in the archive count as before.
func TestCostsOfRetries(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var root atomic.Pointer[string]
	server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
		if asked.Add(1) == 2 {
			return modelstest.Reply{Status: 400, Message: "no"}
		}
		answer := reads(filepath.Join(*root.Load(), "notes.txt"))
		if strings.Contains(string(s.Body), "milk") {
			answer = says("Buy milk.")
		}
		answer.Usage = models.Usage{Input: 90, Output: 10}
		return modelstest.Reply{Answer: answer}
	})
	cfg := asking(t, server, modelstest.OpenAI)
	root.Store(&cfg.Root)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "notes.txt"), []byte("milk\n"), 0o600))
	n := start(t, cfg)
	id := submit(t, n.API(), agentPlan)
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	again, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id, Actor: "user:bob"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), again.ID).State)
	r := costsOf(t, n, costs.ByTask)
	assert.EqualValues(t, 2, r.Total.Turns)
	assert.EqualValues(t, 2*(90*1000+10*2000), r.Total.NanoUSD)
	keys := []string{r.Rows[0].Key, r.Rows[1].Key}
	assert.ElementsMatch(t, []string{string(id), string(again.ID)}, keys)
	_, err = n.API().Archive(t.Context(), api.ArchiveRequest{Wait: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, r, costsOf(t, n, costs.ByTask))
	_, err = n.API().Costs(t.Context(), api.CostsRequest{GroupBy: "colour"})
	assert.True(t, fault.Has(err, fault.ValidationError), fmt.Sprint(err))
}
