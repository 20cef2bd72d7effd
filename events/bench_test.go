package events_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
)

// lifeOfATask returns the two commits of a task of one step.
func lifeOfATask() []*events.Commit {
	plan := json.RawMessage(`{"limits":{"max_steps":10000},"orch":"v1","outputs":{"n":"${{ steps.a.output.n }}"},"priority":"normal","steps":[{"id":"a","on_error":"fail","tool":"READ","with":{"n":1,"text":"hello"}}]}`)
	args, at := events.Inline(json.RawMessage(`{"n":1,"text":"hello"}`)), goldenTime()
	return []*events.Commit{
		{Task: goldenTask, Rev: 1, At: at, Actor: "user:ada", Events: []events.Event{
			{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "one", Plan: events.Inline(plan), PlanSHA256: events.Hash(plan), RequestSHA256: events.Hash(plan), Inputs: events.Inline(json.RawMessage(`{}`)), Priority: "normal", MaxSteps: 10000}},
			{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 1, Tool: "READ", Args: args, Effect: "read"}},
		}},
		{Task: goldenTask, Rev: 2, At: at, Actor: "worker:w", Prev: events.Hash(nil), Events: []events.Event{
			{Kind: events.TaskStarted, Data: &events.Moved{}},
			{Kind: events.StepCalled, Data: &events.Called{Step: "a", Attempt: 1, Worker: "w", At: at}},
			{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a", Attempt: 1, Output: args, Duration: 1000}},
			{Kind: events.TaskFinished, Data: &events.Moved{Output: args}},
		}},
	}
}

// BenchmarkEncode and BenchmarkDecode measure one commit of the two (half of the figure per task).
func BenchmarkEncode(b *testing.B) {
	commits := lifeOfATask()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := events.Encode(commits[i%2]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	var wire [2][]byte
	for i, c := range lifeOfATask() {
		var err error
		wire[i], err = events.Encode(c)
		require.NoError(b, err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := events.Decode(wire[i%2]); err != nil {
			b.Fatal(err)
		}
	}
}
