package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// Why no agent has a call: it was never registered, is offline, was removed, is busy, or works for others.
func TestExplainAgents(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ada := func(change func(*orchestrator.RegisteredAgent)) []orchestrator.RegisteredAgent {
		r := orchestrator.RegisteredAgent{Agent: work.Agent{Name: "ada", Capabilities: []string{"cite"}}, Online: true, LastSeen: at, Slots: 1}
		change(&r)
		return []orchestrator.RegisteredAgent{r}
	}
	call := orchestrator.HeldCall{Ref: work.Ref{Task: "TASK_1", Step: "draw", Attempt: 1}, Since: at, Until: at.Add(time.Hour)}
	for name, test := range map[string]struct {
		all  []orchestrator.RegisteredAgent
		gone bool
		want string
	}{
		"never registered": {want: "Step ada waits for the agent ada capable of cite, which was never registered."},
		"removed":          {gone: true, want: ", which was removed."},
		"another ability":  {ada(func(r *orchestrator.RegisteredAgent) { r.Capabilities = nil }), false, "; ada is registered, but not with this type or these capabilities."},
		"offline":          {ada(func(r *orchestrator.RegisteredAgent) { r.Online = false }), false, ", and all are offline: ada (since 2026-01-02 03:04:05 UTC)."},
		"not heard of": {
			ada(func(r *orchestrator.RegisteredAgent) { r.Online, r.LastSeen = false, time.Time{} }), false,
			"ada (not heard of since the node started).",
		},
		"for others": {ada(func(r *orchestrator.RegisteredAgent) { r.For = "user:eve" }), false, "work only for whoever registered them"},
		"free":       {ada(func(*orchestrator.RegisteredAgent) {}), false, " to ask for it; ada is online, with a free slot."},
		"busy": {
			ada(func(r *orchestrator.RegisteredAgent) { r.Calls = []orchestrator.HeldCall{call} }), false,
			" to be free: ada has draw of TASK_1 since 2026-01-02 03:04:05 UTC; one is free at 2026-01-02 04:04:05 UTC at the latest.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}), patient, func(c *orchestrator.Config) {
				c.Hooks.Agents = func(context.Context) ([]orchestrator.RegisteredAgent, func(string) bool) {
					return test.all, func(string) bool { return test.gone }
				}
			})
			id := n.submit("orch: v1\nlimits: {deadline: 1h}\nsteps:\n  - {id: ada, tool: AGENT, with: {agent: ada, requires: [cite]}}\n")
			assert.Contains(t, n.cause(id).Sentence, test.want)
			all, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
			require.NoError(t, err)
			last := all.Causes[len(all.Causes)-1]
			assert.Equal(t, "deadline", last.Kind)
			assert.Contains(t, last.Sentence, "The deadline of the task is ")
		})
	}
}

// An agent that beats as the protocol says is never called silent.
func TestHealthyAgentIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(oneForAgents)
		ref := n.hold("ada")
		for range 3 {
			<-time.After(30 * time.Second)
			assert.Contains(t, n.cause(id).Sentence, "is running on agent ada since")
			_, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "agent:ada", Calls: []work.CallHeartbeat{{Ref: ref}}})
			require.NoError(t, err)
		}
		<-time.After(50 * time.Second)
		assert.Contains(t, n.cause(id).Sentence, "which was last heard of 50s ago")
	})
}

// A task that has made all its calls says so.
func TestExplainBudget(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit("orch: v1\nlimits: {max_steps: 1}\nsteps:\n  - {id: a, tool: AGENT}\n")
	n.hold("ada")
	all, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, "budget", all.Causes[1].Kind)
	assert.Contains(t, all.Causes[1].Sentence, "all 1 calls")
}
