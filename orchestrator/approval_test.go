package orchestrator_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
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
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

const guardedPlan = `
orch: v1
steps:
  - id: a
    tool: WRITE
    with: {text: hi}
    on_error: continue
  - id: b
    tool: READ
    needs: [a]
`

func ask() *work.ApprovalRequest {
	return &work.ApprovalRequest{Rule: "outside_workspace", Reason: "it lies outside", Type: "checkpoint", Risk: "medium", ArgsSHA256: "ab"}
}

// park returns a call that needs an approval.
func (n *node) park(worker string, c work.Call, a *work.ApprovalRequest) {
	n.t.Helper()
	require.NoError(n.t, n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: worker, ApprovalRequest: a, StartedAt: time.Now()}))
}

// pending returns the one approval that is pending.
func (n *node) pending() api.ApprovalView {
	n.t.Helper()
	r, err := n.Approvals(n.ctx(), api.ApprovalsRequest{})
	require.NoError(n.t, err)
	require.Len(n.t, r.Approvals, 1)
	return r.Approvals[0]
}

func (n *node) decide(id, as, actor string) (api.ApprovalView, error) {
	return n.Decide(n.ctx(), api.DecideRequest{ID: id, As: as, Reason: "so", Actor: actor})
}

func (n *node) view(id events.TaskID) api.TaskView {
	n.t.Helper()
	v, err := n.Get(n.ctx(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	return v
}

// S0-034, S0-053: a parked call holds no worker, runs after the grant with exactly its arguments, once.
func TestGrantedCallRunsOnce(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(guardedPlan)
	c := n.take("w")
	n.park("w", c, ask())

	p := n.pending()
	assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
	assert.JSONEq(t, `{"rule":"outside_workspace"}`, string(p.Details), "what the call affects is not known")
	assert.Equal(t, "WRITE", p.Tool)
	assert.JSONEq(t, `{"text":"hi"}`, string(p.Args))
	assert.Equal(t, "task:"+string(id), p.Requester)
	assert.Equal(t, "user:test", p.Submitter)
	assert.Empty(t, n.poll("w", 1).Calls, "nothing to do while it waits")

	v, err := n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	assert.Equal(t, "user:ada", v.Approver)
	assert.Equal(t, statemachine.InProgress, v.TaskState)
	c = n.take("w")
	assert.Equal(t, 2, c.Attempt)
	assert.Equal(t, 1, n.step(id, "a").Tries, "it was not tried before")
	require.NotNil(t, c.Grant)
	assert.Equal(t, work.Grant{ID: p.ID, ArgsSHA256: "ab"}, *c.Grant)
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w", Effect: "destructive"}))
	require.NoError(t, n.report("w", c, `{}`))

	all, err := n.Approvals(n.ctx(), api.ApprovalsRequest{ID: p.ID})
	require.NoError(t, err)
	assert.True(t, all.Approvals[0].Spent)
	assert.Len(t, n.view(id).Checkpoints, 1, "a destructive call has a checkpoint before it (S0-171, A-44)")
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A grant is valid for the retries of its call, if it is known how the previous attempt ended. After any other attempt it is
// spent.
func TestSpentGrant(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: IDEM, retry: {max_attempts: 4, initial: 1ms}}]}`)
	n.park("w", n.take("w"), ask())
	p := n.pending()
	_, err := n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	for _, class := range []string{"tool_error", "tool_error", "timeout"} {
		c := n.take("w")
		require.NotNil(t, c.Grant, class)
		assert.Equal(t, p.ID, c.Grant.ID)
		require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
		require.NoError(t, n.fail("w", c, class))
	}
	c := n.take("w")
	assert.Nil(t, c.Grant, "nobody knows whether the attempt that took too long has happened")
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// It is not valid for the same call in another step, or once the call has succeeded.
func TestGrantOfARetryIsForItsStep(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, with: {text: x}, retry: {max_attempts: 2, initial: 1ms}}, {id: b, tool: WRITE, with: {text: x}, needs: [a]}]}`)
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	c := n.take("w")
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
	require.NoError(t, n.fail("w", c, "tool_error"))
	c = n.take("w")
	require.NotNil(t, c.Grant)
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Nil(t, n.take("w").Grant)
}

// the rejection of a gate fails the call alone.
func TestRejectedCall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(guardedPlan)
	n.park("w", n.take("w"), ask())
	_, err := n.Decide(n.ctx(), api.DecideRequest{ID: n.pending().ID, As: "rejected", Actor: "user:ada"})
	assert.Equal(t, fault.RequiredField, fault.CodeOf(err), "a rejection has a reason")
	_, err = n.decide(n.pending().ID, "rejected", "user:ada")
	require.NoError(t, err)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Equal(t, fault.ApprovalRejected, n.view(id).Steps[0].Error.Code)
}

// S0-168: who asks cannot decide, and neither can agents, workers or other tasks.
func TestWhoMayDecide(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.FourEyes = true })
	n.submit(guardedPlan)
	n.park("w", n.take("w"), ask())
	p := n.pending()
	for _, actor := range []string{"", "agent:x", "worker:w", p.Requester, "node", "user:test"} {
		_, err := n.decide(p.ID, "granted", actor)
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), actor)
	}
	_, err := n.decide(p.ID, "perhaps", "user:ada")
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	_, err = n.decide("APR_x", "granted", "user:ada")
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	_, err = n.decide(p.ID[:len(p.ID)-8]+"AAAAAAAA", "granted", "user:ada")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
}

// Exactly one of two deciders wins (S0-166).
func TestTwoDeciders(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(guardedPlan)
	n.park("w", n.take("w"), ask())
	p := n.pending()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = n.decide(p.ID, []string{"granted", "rejected"}[i%2], "user:ada")
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	}
	assert.Equal(t, 1, won)
}

// A-43, M-3: nobody decides; the task is blocked at the timeout, asks again when it is resumed.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(guardedPlan)
		n.park("w", n.take("w"), ask())
		p := n.pending()
		<-time.After(31 * time.Minute)
		synctest.Wait()
		v := n.view(id)
		assert.Equal(t, statemachine.Blocked, v.State)
		assert.Equal(t, "expired", v.Block)
		_, err := n.decide(p.ID, "granted", "user:ada")
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "a late grant")
		why, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, "approval", why.Causes[0].Kind)
		assert.Equal(t, "orch resume "+string(id), why.Causes[0].Next)

		_, err = n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:ada"})
		require.NoError(t, err)
		c := n.take("w")
		assert.Nil(t, c.Grant)
		n.park("w", c, ask())
		assert.NotEqual(t, p.ID, n.pending().ID)
		_, err = n.decide(n.pending().ID, "granted", "user:ada")
		require.NoError(t, err)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.stop()
	})
}

// S0-167: the time passes while the node is away.
func TestExpiryAcrossRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit(guardedPlan)
		n.park("w", n.take("w"), ask())
		n.stop()
		<-time.After(time.Hour)
		n = start(t, log)
		synctest.Wait()
		assert.Equal(t, statemachine.Blocked, n.view(id).State)
		n.checkReplay(id)
		n.stop()
	})
}

// a critical approval is replaced by one successor.
func TestEscalation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(guardedPlan, func(r *api.SubmitRequest) { r.Priority = "critical" })
		n.park("w", n.take("w"), ask())
		first := n.pending()
		<-time.After(31 * time.Minute)
		synctest.Wait()
		second := n.pending()
		assert.Equal(t, first.ID, second.Follows)
		assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
		_, err := n.decide(second.ID, "granted", "user:ada")
		require.NoError(t, err)
		assert.Equal(t, second.ID, n.take("w").Grant.ID)
		n.stop()
	})
}

// A granted scope opens its target for the whole task, and requests for the same scope share one approval.
func TestScopes(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: WRITE}]}`)
	scope := ask()
	scope.Scopes = []string{"endpoint https://h:443"}
	batch := n.poll("w", 2)
	require.Len(t, batch.Calls, 2)
	n.park("w", *batch.Calls[0], scope)
	n.park("w", *batch.Calls[1], scope)
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	batch = n.poll("w", 2)
	require.Len(t, batch.Calls, 2)
	for _, c := range batch.Calls {
		require.NoError(t, n.report("w", *c, `{}`))
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// S0-163: while the task waits, calls that need IN_PROGRESS stay, and others run.
func TestBarredCalls(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: IP_ONLY}, {id: c, tool: READ}]}`)
	n.park("w", n.take("w"), ask())
	batch := n.poll("w", 5)
	require.Len(t, batch.Calls, 1)
	assert.Equal(t, "READ", batch.Calls[0].Tool)
	require.NoError(t, n.report("w", *batch.Calls[0], `{}`))
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	batch = n.poll("w", 5)
	require.Len(t, batch.Calls, 2)
	for _, c := range batch.Calls {
		require.NoError(t, n.report("w", *c, `{}`))
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// a tool that runs only while an approval is awaited runs then, and the task continues afterwards.
func TestCallWhileAwaiting(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		cat, err := tools.New(echo("DELETE", tools.Destructive, tools.AwaitingApproval), echo("READ", tools.Read, tools.InProgress))
		require.NoError(t, err)
		c.Catalogue = cat
	})
	id := n.submit(`{orch: v1, steps: [{id: a, tool: DELETE}, {id: b, tool: READ, needs: [a]}]}`)
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	c := n.take("w")
	assert.Equal(t, "AWAITING_APPROVAL", c.State)
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w"}))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.InProgress, n.view(id).State)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

const askingPlan = `
orch: v1
inputs: {type: object, properties: {v: {type: string, default: "1.2"}}}
steps:
  - id: ok
    approve:
      description: 'Release ${{ inputs.v }}?'
      show: {version: '${{ inputs.v }}'}
      quorum: 2
      form: {type: object, required: [region], properties: {region: {enum: [eu, us]}}, additionalProperties: false}
  - id: go
    tool: READ
    with: {text: '${{ steps.ok.output.form.region }}'}
`

// An approve step: templates, form, quorum.
func TestApproveStep(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(askingPlan)
	p := n.pending()
	assert.Equal(t, "Release 1.2?", p.Description)
	assert.JSONEq(t, `{"version":"1.2"}`, string(p.Details))
	say := func(who, form string) error {
		_, err := n.Decide(n.ctx(), api.DecideRequest{ID: p.ID, As: "granted", Form: json.RawMessage(form), Actor: who})
		return err
	}
	assert.Equal(t, fault.ValidationError, fault.CodeOf(say("user:ada", `{"region":"mars"}`)))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(say("user:ada", ``)))
	require.NoError(t, say("user:ada", `{"region":"eu"}`))
	assert.Equal(t, fault.Conflict, fault.CodeOf(say("user:ada", `{"region":"eu"}`)), "one person is not two")
	assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
	require.NoError(t, say("user:bob", `{"region":"us"}`))
	c := n.take("w")
	assert.JSONEq(t, `{"text":"us"}`, string(c.Args))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// What an approve step does when nobody decides, or somebody says no.
func TestApproveStepEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule, decision string
		state          statemachine.State
		output         string
	}{
		"rejected":           {``, "rejected", statemachine.Failed, ""},
		"rejected, goes on":  {`, on_reject: continue`, "rejected", statemachine.Done, "rejected"},
		"expired, reject":    {`, on_expiry: reject`, "", statemachine.Failed, ""},
		"expired, approve":   {`, on_expiry: approve`, "", statemachine.Done, "granted"},
		"expired, default":   {`, on_expiry: default, default: {x: 1}`, "", statemachine.Done, "expired"},
		"expired, blocks":    {``, "", statemachine.Blocked, ""},
		"expired, escalates": {`, on_expiry: escalate`, "", statemachine.AwaitingApproval, ""},
		"revise":             {``, "revise", statemachine.NeedsAction, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, memlog.New(memlog.Config{}))
				id := n.submit(`{orch: v1, steps: [{id: ok, approve: {description: d, timeout: 1m` + tc.rule + `}}], outputs: {s: '${{ steps.ok.output.status }}'}}`)
				if tc.decision != "" {
					_, err := n.decide(n.pending().ID, tc.decision, "user:ada")
					require.NoError(t, err)
				}
				<-time.After(90 * time.Second)
				synctest.Wait()
				v := n.view(id)
				assert.Equal(t, tc.state, v.State)
				if tc.output != "" {
					assert.JSONEq(t, `{"s":"`+tc.output+`"}`, string(v.Output))
				}
				n.checkReplay(id)
				n.stop()
			})
		})
	}
}

// S0-162, A-41, A-42: a task asks by itself; the rejection fails it, and its `always` steps run.
func TestRequestByTool(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]string{
		"plain":  `{orch: v1, steps: [{id: a, tool: READ}, {id: b, tool: IP_ONLY, needs: [a]}]}`,
		"always": `{orch: v1, steps: [{id: a, tool: READ}, {id: b, tool: IP_ONLY, needs: [a]}], always: [{id: c, tool: IP_ONLY}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}))
			id := n.submit(plan)
			c := n.take("w")
			fact := events.Event{Kind: events.ApprovalRequested, Data: &events.Approval{
				ID: "APR_" + string(id)[5:] + "_AAAAAAAA", Type: "checkpoint", Description: "d", Priority: "high",
				Requester: "user:evil", ExpiresAt: time.Now().Add(time.Hour), OnReject: "fail", OnExpiry: "block",
			}}
			require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{}`), Facts: []events.Event{fact}, StartedAt: time.Now()}))
			p := n.pending()
			assert.Equal(t, "task:"+string(id), p.Requester, "a tool cannot say who asks")
			assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
			assert.Empty(t, n.poll("w", 5).Calls)
			_, err := n.decide(p.ID, "rejected", "user:ada")
			require.NoError(t, err)
			if name == "always" {
				c := n.take("w")
				assert.Equal(t, "c", c.Step)
				require.NoError(t, n.report("w", c, `{}`))
			}
			r := n.result(id)
			assert.Equal(t, statemachine.Failed, r.State)
			assert.Equal(t, fault.ApprovalRejected, r.Error.Code)
		})
	}
}

// S0-050, M-3: a request that names a call lets this call through once it is granted, and no other.
func TestRequestForACall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(`{orch: v1, steps: [{id: a, tool: READ}, {id: b, tool: WRITE, needs: [a], with: {text: hi}}, {id: c, tool: WRITE, needs: [b], with: {text: hi}}]}`)
	c := n.take("w")
	digest, err := policy.Digest("WRITE", json.RawMessage(`{"text": "hi"}`))
	require.NoError(t, err)
	fact := events.Event{Kind: events.ApprovalRequested, Data: &events.Approval{
		ID: "APR_" + string(c.Task)[5:] + "_AAAAAAAA", Type: "checkpoint", Description: "d", Priority: "high", OnExpiry: "approve",
		Details: events.Inline(json.RawMessage(`{"tool":"WRITE","arguments":{"text":"hi"}}`)), ExpiresAt: time.Now().Add(time.Hour),
	}}
	foreign := events.Event{Kind: events.ApprovalRequested, Data: &events.Approval{ID: "APR_01JD0000000000000000000000_AAAAAAAA", ExpiresAt: time.Now().Add(time.Hour)}}
	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{}`), Facts: []events.Event{fact, foreign}, StartedAt: time.Now()}))
	p := n.pending()
	assert.Equal(t, digest, p.ArgsSHA256)
	assert.Equal(t, "block", p.OnExpiry, "a tool cannot let its request be granted by itself")
	_, err = n.decide(p.ID, "granted", "user:ada")
	require.NoError(t, err)
	named := ask()
	named.ArgsSHA256 = digest
	n.park("w", n.take("w"), named)
	c = n.take("w")
	require.NotNil(t, c.Grant)
	assert.Equal(t, p.ID, c.Grant.ID)
	require.NoError(t, n.report("w", c, `{}`))
	n.park("w", n.take("w"), named)
	assert.NotEqual(t, p.ID, n.pending().ID, "the grant is spent")
}

// A cancelled task waits for no approval.
func TestCancelWhileAwaiting(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(guardedPlan)
	n.park("w", n.take("w"), ask())
	p := n.pending()
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id, Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	_, err = n.decide(p.ID, "granted", "user:ada")
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
}

// S0-113: a call beyond the limit waits for its minute and then runs.
func TestRateLimitedCallWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Hooks.Limited = func(r tools.Rate) bool { return r == tools.Reads } })
		id := n.submit(`{orch: v1, steps: [{id: a, tool: READ}, {id: b, tool: READ, needs: [a]}]}`)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		c := n.take("w")
		assert.Equal(t, 1, c.Recent)
		assert.InDelta(t, time.Minute, c.RetryAfter, float64(time.Second))
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: c.Ref, Worker: "w", Error: fault.New(fault.RateLimited, "slow"), Class: "rate_limited", RetryAfter: c.RetryAfter, StartedAt: time.Now(),
		}))
		<-time.After(61 * time.Second)
		synctest.Wait()
		c = n.take("w")
		assert.Zero(t, c.Recent)
		require.NoError(t, n.report("w", c, `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.stop()
	})
}

// The end of a rate limit is waited for if it is later than the retry rule says.
func TestRetryAtIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(`{orch: v1, steps: [{id: a, tool: READ}]}`)
		c, reset := n.take("w"), time.Now().Add(10*time.Minute)
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: c.Ref, Worker: "w", Error: fault.New(fault.RateLimited, "slow").WithRetryAt(reset), Class: "rate_limited", StartedAt: time.Now(),
		}))
		<-time.After(9 * time.Minute)
		assert.Empty(t, n.poll("w", 1).Calls, "the rule of retries alone would have made it by now")
		<-time.After(time.Until(reset) + time.Second)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.stop()
	})
}
