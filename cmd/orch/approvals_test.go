package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// An approval shows how many people have to agree, the form, and what happens otherwise.
func TestAnApprovalIsShownWhole(t *testing.T) {
	t.Parallel()
	p := api.ApprovalView{
		ID: "APR_1", Status: statemachine.ApprovalPending, Quorum: 2, Votes: []string{"user:ann"}, OnExpiry: "approve",
		Form: json.RawMessage(`{"type":"object","required":["region"],"properties":{"region":{"type":"string"}}}`),
	}
	lines := approvalLines(p)
	assert.Contains(t, lines, "  quorum       1 of 2 have agreed")
	assert.Contains(t, lines, "  agreed       user:ann")
	assert.Contains(t, lines, "  on expiry    approve")
	assert.Contains(t, lines, "decide: orch approve APR_1 region=… | orch reject APR_1 --reason …")

	lines = approvalLines(api.ApprovalView{ID: "APR_1", Status: statemachine.ApprovalPending, Quorum: 1, OnExpiry: "block"})
	assert.NotContains(t, lines, "quorum")
	assert.NotContains(t, lines, "on expiry")
}

// A command whose call waits for people says so.
func TestACallSaysThatItWaits(t *testing.T) {
	t.Parallel()
	s := &fakeSession{
		task: api.TaskView{ID: taskID, Steps: []api.StepView{{Key: plan.CallID, State: statemachine.StepSucceeded, Output: json.RawMessage(`{}`)}}},
		watch: answers(reply(api.WatchReply{Ended: true, State: statemachine.Done, Commits: []api.CommitView{
			{Rev: 1, Events: []events.Event{{Kind: events.ApprovalRequested, Data: &events.Approval{ID: "APR_1"}}}},
			{Rev: 2, Events: []events.Event{{Kind: events.QuestionAsked, Data: &events.Question{ID: "ASK_1", Kind: events.Elicitation}}}},
		}})),
		submit: func(api.SubmitRequest) (api.SubmitReply, error) {
			return api.SubmitReply{ID: taskID}, nil
		},
	}
	p := newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"tools", "call", "GIT_STATUS"}))
	assert.Equal(t, "the call waits for approval APR_1; orch approvals APR_1\nthe call asks something (elicitation); orch questions ASK_1\n", p.err.String())
}
