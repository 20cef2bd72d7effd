package orchestrator_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const coveringPlan = `
orch: v1
inputs: {type: object, properties: {text: {type: string, default: x}}}
steps:
  - {id: list, set: {all: [one, two]}}
  - {id: ok, approve: {description: "Write?", covers: [a, each]}}
  - {id: a, tool: WRITE, needs: [ok], with: {text: "${{ inputs.text }}"}, retry: {max_attempts: 3, initial: 1ms}}
  - id: each
    for_each: steps.list.output.all
    needs: [a]
    max_parallel: 1
    do:
      - {id: w, tool: IDEM, with: {text: "${{ item }}", n: "${{ index }}"}, retry: {max_attempts: 3, initial: 1ms}}
`

// digest is the digest of a call as its worker computes it.
func digest(t *testing.T, tool, args string) string {
	t.Helper()
	d, err := policy.Digest(tool, json.RawMessage(args))
	require.NoError(t, err)
	return d
}

// An approve step shows the calls that it covers, and its grant lets each of them through once, with these arguments.
func TestCoveredCallsDoNotAsk(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(coveringPlan)
	p := n.pending()
	assert.JSONEq(t, `[{"step":"a","tool":"WRITE","args":{"text":"x"}},
		{"step":"each[0].w","tool":"IDEM","args":{"text":"one","n":0}},{"step":"each[1].w","tool":"IDEM","args":{"text":"two","n":1}}]`, string(p.Calls))
	_, err := n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	for _, want := range []struct{ tool, args string }{{"WRITE", `{"text":"x"}`}, {"IDEM", `{"text":"one","n":0}`}, {"IDEM", `{"text":"two","n":1}`}} {
		for attempt := 1; attempt <= 2; attempt++ { // the first of each fails
			c := n.take("w")
			require.NotNil(t, c.Grant, "%s %d", c.Step, attempt)
			assert.Equal(t, work.Grant{ID: p.ID, ArgsSHA256: digest(t, want.tool, want.args), Whole: true}, *c.Grant)
			require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
			if attempt == 1 {
				require.NoError(t, n.fail("w", c, "tool_error"))
				continue
			}
			require.NoError(t, n.report("w", c, `{}`))
		}
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Equal(t, 2, n.step(id, "a").Tries)
}

// A covered call asks for approval if it is not known how its attempt ended, or if its worker computes another digest.
func TestCoveredCallsAskAnew(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(coveringPlan)
	covering := n.pending().ID
	_, err := n.decide(covering, "granted", "user:ada")
	require.NoError(t, err)
	n.park("w", n.take("w"), ask()) // with another digest
	p := n.pending()
	assert.NotEqual(t, covering, p.ID)
	assert.Contains(t, p.Rationale, "approval "+covering+" covers this step, but not this call")
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	c := n.take("w")
	assert.Equal(t, p.ID, c.Grant.ID)
	require.NoError(t, n.report("w", c, `{}`))

	c = n.take("w")
	assert.Equal(t, covering, c.Grant.ID)
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
	require.NoError(t, n.fail("w", c, "timeout"))
	assert.Nil(t, n.take("w").Grant)
}

// A rejected or expired approval covers nothing, nor does one that has been granted too long ago.
func TestCoverOfNoGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		n.submit(strings.Replace(coveringPlan, "covers:", "on_reject: continue, covers:", 1))
		_, err := n.decide(n.pending().ID, "rejected", "user:ada")
		require.NoError(t, err)
		c := n.take("w")
		assert.Nil(t, c.Grant)
		require.NoError(t, n.fail("w", c, "denied"))

		n.submit(strings.Replace(coveringPlan, "covers:", "on_expiry: default, default: {}, covers:", 1))
		<-time.After(2 * time.Hour)
		c = n.take("w")
		assert.Nil(t, c.Grant)
		require.NoError(t, n.fail("w", c, "denied"))

		n.submit(coveringPlan)
		_, err = n.decide(n.pending().ID, "granted", "user:ada")
		require.NoError(t, err)
		<-time.After(25 * time.Hour)
		assert.Nil(t, n.take("w").Grant)
	})
}

// A retry of the task asks again, once, for the covered calls that are repeated.
func TestCoveredCallsOfARetry(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(coveringPlan)
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	require.NoError(t, n.fail("w", n.take("w"), "denied"))
	require.Equal(t, statemachine.Failed, n.result(id).State)

	again, err := n.Retry(n.ctx(), api.RetryRequest{ID: id, Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, 2, again.Reused, "list and a")
	p := n.pending()
	assert.JSONEq(t, `[{"step":"each[0].w","tool":"IDEM","args":{"text":"one","n":0}},{"step":"each[1].w","tool":"IDEM","args":{"text":"two","n":1}}]`, string(p.Calls))
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	for range 2 {
		c := n.take("w")
		require.NotNil(t, c.Grant)
		require.NoError(t, n.report("w", c, `{}`))
	}
	assert.Equal(t, statemachine.Done, n.result(again.ID).State)
}

// An approve step is refused for calls that would be refused themselves, and for too many calls.
func TestCoveredCallsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(strings.Replace(coveringPlan, `"${{ item }}", n: "${{ index }}"`, `"${{ item }}", n: "${{ item }}"`, 1))
	r := n.result(id)
	assert.Equal(t, fault.ValidationError, r.Error.Code)
	assert.Contains(t, r.Error.Message, "step each[0].w, which it covers")

	id = n.submit(strings.Replace(coveringPlan, "steps.list.output.all", "map(1..1001, string(#))", 1))
	r = n.result(id)
	assert.Equal(t, "LIMIT_EXCEEDED", r.Error.Reason)

	all, err := n.Approvals(n.ctx(), api.ApprovalsRequest{All: true, Task: id})
	require.NoError(t, err)
	assert.Empty(t, all.Approvals)
}
