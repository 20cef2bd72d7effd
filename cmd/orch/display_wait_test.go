package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

// Of an agent that waits, the line says for what.
func TestWaitText(t *testing.T) {
	t.Parallel()
	agent := api.Cause{Kind: "agent", Sentence: "Step a waits for the calls of its model."}
	question := api.Cause{Kind: "question", Sentence: "Step a.t1.c1 waits for an answer.", Next: "orch questions ASK_1"}
	running := api.Cause{Kind: "running", Sentence: "Step a.t1.m is running."}
	task := api.TaskView{ID: parentID, State: statemachine.InProgress, Steps: []api.StepView{
		{Key: "a.t1.c1", Tool: "TASK_SPAWN", State: statemachine.StepRunning, Worker: "w1", Child: childID},
		{Key: "b", Tool: "GIT_STATUS", State: statemachine.StepRunning, Worker: "w2"},
	}}
	begin := "waiting for " + string(parentID) + ", which is IN_PROGRESS"
	assert.Equal(t, begin+". Step a.t1.c1 waits for an answer.\n  try: orch questions ASK_1", waitText(task, []api.Cause{agent, question}))
	assert.Equal(t, begin+". "+agent.Sentence, waitText(task, []api.Cause{agent, running, question}), "the agent of another step waits for its model")
	assert.Equal(t, begin+". "+running.Sentence, waitText(task, []api.Cause{running, question}))
	assert.Equal(t, begin+": step b (GIT_STATUS) runs on w2", waitText(task, nil), "a call with a child task does not run itself")
}
