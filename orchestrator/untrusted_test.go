package orchestrator_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const hidden = "hunter2hunter2"

// hiding redacts one secret from everything that is recorded.
func hiding(c *orchestrator.Config) {
	c.Redact = func(data []byte) ([]byte, bool) {
		return bytes.ReplaceAll(data, []byte(hidden), []byte("[REDACTED]")), bytes.Contains(data, []byte(hidden))
	}
}

// The node does not rely on its workers to remove secrets: nothing that a worker reports about a call is recorded or shown with
// secrets.
func TestWorkersAreNotTrusted(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), hiding)
	id := n.submit(guardedPlan)
	c := n.take("w")
	long := strings.Repeat("x", 995) + hidden // truncating it first would leave half of it
	_, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{Ref: c.Ref, Tool: c.Tool, Progress: &work.Progress{Message: hidden}}}})
	require.NoError(t, err)
	assert.Equal(t, "[REDACTED]", n.step(id, "a").Progress.Message)
	n.park("w", c, &work.ApprovalRequest{
		Rule: hidden, Reason: long, Type: hidden, Risk: hidden, ArgsSHA256: hidden, Impact: []string{"/ok", "/" + hidden},
	})
	p := n.pending()
	assert.Equal(t, "pre_execution", p.Type)
	assert.Equal(t, "high", p.Risk)
	assert.Contains(t, string(p.Details), `"/ok"`)
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	c = n.take("w")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: c.Ref, Worker: "w", Class: hidden, StartedAt: time.Now(), Effect: hidden,
		Error: &fault.Error{Code: hidden, Message: long, Reason: hidden, Field: hidden, Hint: hidden},
	}))
	require.NoError(t, n.report("w", n.take("w"), `{"text":"`+hidden+`"}`))
	h, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	assert.NotContains(t, string(text), hidden[:4])
}

// Scopes of a requested grant are accepted unchanged or refused.
func TestScopesOfAnAsk(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), hiding)
	n.submit(guardedPlan)
	c := n.take("w")
	for _, scopes := range [][]string{{"connection " + hidden}, {strings.Repeat("x", 2000)}, make([]string, 2000)} {
		a := ask()
		a.Scopes = scopes
		err := n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: "w", ApprovalRequest: a, StartedAt: time.Now()})
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	}
	n.park("w", c, ask())
}

// A request for approval shows the call that its grant lets through, and no call hidden by keys that differ in case or are
// repeated.
// under the same key.
func TestDetailsSayWhatIsBound(t *testing.T) {
	t.Parallel()
	digest, err := policy.Digest("WRITE", json.RawMessage(`{"text":"good"}`))
	require.NoError(t, err)
	for details, bound := range map[string]bool{
		`{"tool":"WRITE","arguments":{"text":"good"}}`:                                true,
		`{"tool":"WRITE","arguments":{"text":"good"},"Arguments":{"text":"evil"}}`:    true,
		`{"tool":"WRITE","arguments":{"text":"evil"},"arguments":{"text":"good"}}`:    true,
		`{"tool":"READ","Tool":"WRITE","arguments":{"text":"good"}}`:                  false,
		`{"Tool":"WRITE","Arguments":{"text":"good"}}`:                                false,
		`{"tool":"WRITE","arguments":{"text":"good","text":"good"},"tool":["WRITE"]}`: false,
	} {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\n")
		c := n.take("w")
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{}`), StartedAt: time.Now(),
			Facts: []events.Event{{Kind: events.ApprovalRequested, Data: &events.Approval{
				ID: events.ApprovalIDFrom(id, rand.Reader), Type: "pre_execution", Description: "d", Rationale: "r", Priority: "low",
				Details: events.Inline(json.RawMessage(details)), ExpiresAt: time.Now().Add(time.Hour),
			}}},
		}))
		p := n.pending()
		assert.Equal(t, bound, p.Tool == "WRITE" && p.ArgsSHA256 == digest, details)
		assert.LessOrEqual(t, strings.Count(string(p.Details), `"tool"`), 1, details)
		assert.LessOrEqual(t, strings.Count(string(p.Details), `"arguments"`), 1, details)
		n.stop()
	}
}

// The results of expressions are checked like the plan itself, because the log stores everything permanently.
func TestExpressionsMakeNoSecrets(t *testing.T) {
	t.Parallel()
	const made = `${{ "hunter2" + "hunter2" }}`
	for name, plan := range map[string]string{
		"args":     "steps:\n  - {id: a, tool: READ, with: {text: '" + made + "'}}\n",
		"set":      "steps:\n  - {id: a, set: {x: '" + made + "'}}\n",
		"name":     "steps:\n  - {id: a, set: {x: '${{ {(\"hunter2\" + \"hunter2\"): 1} }}'}}\n",
		"fail":     "steps:\n  - {id: a, set: {x: '${{ fail(\"hunter2\" + \"hunter2\") }}'}}\n",
		"outputs":  "steps:\n  - {id: a, set: {x: 1}}\noutputs: {x: '" + made + "'}\n",
		"items":    "steps:\n  - {id: a, for_each: '[\"hunter2\" + \"hunter2\"]', do: [{id: b, set: {x: 1}}]}\n",
		"question": "steps:\n  - {id: a, approve: {description: '" + made + "'}}\n",
		"signal":   "steps:\n  - {id: a, wait: {signal: s, timeout: 1s, default: '" + made + "'}}\n",
		"sub-plan": "steps:\n  - {id: a, run: {orch: v1, inputs: {type: object, properties: {x: {type: string}}}, steps: [{id: b, set: {y: 1}}]}, with: {x: '" + made + "'}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}), hiding, func(c *orchestrator.Config) {
				c.FindSecret = func(data []byte) (string, bool) { return "test", bytes.Contains(data, []byte(hidden)) }
			})
			id := n.submit("orch: v1\n" + plan)
			assert.Equal(t, statemachine.Failed, n.result(id).State)
			h, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
			require.NoError(t, err)
			text, err := json.Marshal(h)
			require.NoError(t, err)
			assert.NotContains(t, string(text), hidden)
		})
	}
}
