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

// Approvals of one call say in a list which argument tells them apart.
func TestApprovalsOfOneCallDiffer(t *testing.T) {
	t.Parallel()
	call := func(step, args string) api.ApprovalView {
		return api.ApprovalView{Tool: "BASH_EXECUTE", TaskName: "deploy", Step: step, Args: json.RawMessage(args)}
	}
	shows := func(details string) api.ApprovalView {
		return api.ApprovalView{Description: "Drop it?", Details: json.RawMessage(details)}
	}
	for name, test := range map[string]struct {
		list []api.ApprovalView
		want []string
	}{
		"a list": {
			[]api.ApprovalView{call("run", `{"command":"x","argv":["web-17"]}`), call("run", `{"command":"x","argv":["web-18"]}`), call("other", `{"command":"x"}`)},
			[]string{`argv ["web-17"]`, `argv ["web-18"]`, ""},
		},
		"within a long text": {
			[]api.ApprovalView{call("run", `{"command":"sudo systemctl restart web-17 --now"}`), call("run", `{"command":"sudo systemctl restart web-18 --now"}`)},
			[]string{"command …web-17 --now", "command …web-18 --now"},
		},
		"what people are shown": {[]api.ApprovalView{shows(`{"host":"db-01"}`), shows(`{"host":"db-02"}`), shows(`{"n":1}`)}, []string{"host db-01", "host db-02", ""}},
		"the field with the most values": {
			[]api.ApprovalView{call("run", `{"a":"x","b":1}`), call("run", `{"a":"x","b":2}`), call("run", `{"a":"y","b":3}`)},
			[]string{"b 1", "b 2", "b 3"},
		},
		"nothing differs":   {[]api.ApprovalView{call("run", `{"a":1}`), call("run", `{"a":1}`)}, []string{"", ""}},
		"no arguments":      {[]api.ApprovalView{call("run", ""), call("run", "null")}, []string{"", ""}},
		"one letter in two": {[]api.ApprovalView{shows(`{"n":"the first word é and more"}`), shows(`{"n":"the first word è and more"}`)}, []string{"n …é and more", "n …è and more"}},
	} {
		assert.Equal(t, test.want, differing(test.list), name)
	}
}
