package traces_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
)

const task = events.TaskID("TASK_01M8HX1ARCG7ZDBTAJP0BRM23R")

// folded gives commits of one event each, a second apart, to a fold, and returns the spans as lines of text: name, parent, seconds of the
// start and the end, attributes, events.
func folded(t *testing.T, list ...events.Event) []string {
	t.Helper()
	start := time.Unix(1000, 0).UTC()
	fold, names := traces.NewFold(task), map[traces.SpanID]string{}
	var spans []traces.Span
	for i, e := range list {
		spans = append(spans, fold.Add(start.Add(time.Duration(i)*time.Second), "user:ada", []events.Event{e})...)
	}
	assert.Zero(t, fold.Open())
	for _, s := range spans {
		assert.Empty(t, names[s.ID])
		names[s.ID] = s.Name
	}
	var lines []string
	for _, s := range spans {
		var line strings.Builder
		fmt.Fprintf(&line, "%s < %s %g-%g", s.Name, names[s.Parent], s.Start.Sub(start).Seconds(), s.End.Sub(start).Seconds())
		for _, a := range s.Attributes {
			fmt.Fprintf(&line, " %s=%v", a.Key[strings.LastIndex(a.Key, ".")+1:], a.Value)
		}
		for _, e := range s.Events {
			fmt.Fprintf(&line, " %s@%g", e.Name, e.At.Sub(start).Seconds())
		}
		for _, l := range s.Links {
			line.WriteString(" ^" + names[l])
		}
		if s.Failed {
			line.WriteString(" FAILED " + s.Message)
		}
		lines = append(lines, line.String())
	}
	return lines
}

func event(kind events.Kind, data events.Payload) events.Event {
	return events.Event{Kind: kind, Data: data}
}

func at(second float64) time.Time {
	return time.Unix(1000, 0).UTC().Add(time.Duration(second * float64(time.Second)))
}

func TestAttemptsAndApproval(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{
		"approval < push 2-3 id=APR_1 type=pre_execution tool=GIT_PUSH decision=granted approver=user:bo",
		"GIT_PUSH < push 4.5-6 tool=GIT_PUSH attempt=1 worker=w1 effect=write outcome=failed type=NETWORK_ERROR ^approval FAILED away",
		"GIT_PUSH < push 7-7.25 tool=GIT_PUSH attempt=2 worker=w2 effect=write outcome=succeeded",
		"push < deploy 1-9 step=push state=succeeded step.parked@1 step.retrying@6",
		"deploy <  0-10 id=" + string(task) + " requester=user:ada team=a state=DONE task.finished@10",
	}, folded(t,
		event(events.TaskSubmitted, &events.Submitted{Name: "deploy", Labels: map[string]string{"team": "a"}}),
		event(events.StepParked, &events.Parked{Step: "push", Approval: "APR_1"}),
		event(events.ApprovalRequested, &events.Approval{ID: "APR_1", Step: "push", Type: "pre_execution", Tool: "GIT_PUSH"}),
		event(events.ApprovalGranted, &events.Decision{ID: "APR_1", Approver: "user:bo"}),
		event(events.StepReady, &events.Ready{Step: "push", Attempt: 1, Tool: "GIT_PUSH", Effect: "write", Approval: "APR_1"}),
		event(events.StepCalled, &events.Called{Step: "push", Attempt: 1, Worker: "w1", At: at(4.5)}),
		event(events.StepRetrying, &events.Retrying{Step: "push", Attempt: 1, Error: fault.New(fault.NetworkError, "away"), At: at(7)}),
		event(events.StepReady, &events.Ready{Step: "push", Attempt: 2, Tool: "GIT_PUSH", Effect: "write"}),
		event(events.StepCalled, &events.Called{Step: "push", Attempt: 2, Worker: "w2", At: at(7)}),
		event(events.StepSucceeded, &events.Succeeded{Step: "push", Attempt: 2, Duration: time.Second / 4}),
		event(events.TaskFinished, &events.Moved{}),
		event(events.StepResolved, &events.Resolved{Step: "push", As: "failed"}),
	))
}

// A turn lasts until the model has answered. What an agent has asked when its task ends is unfinished.
func TestTurns(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{
		"chat small < review 2-4 name=chat turn=1 name=local model=small input_tokens=12 output_tokens=3 nano_usd=70 stop=calls calls=1 turn.lost@3",
		"chat < review 5-8 name=chat turn=2 compaction=true",
		"review < task 1-8 step=review name=invoke_agent model=local/small, far/large state=unfinished",
		"MODEL_CALL < review.t.m 6-8 tool=MODEL_CALL attempt=1 outcome=unfinished",
		"review.t.m < chat 6-8 step=review.t2.m state=unfinished",
		"task <  0-8 id=" + string(task) + " requester=user:ada state=FAILED type=TIMEOUT task.failed@8 FAILED over",
	}, folded(t,
		event(events.TaskSubmitted, &events.Submitted{}),
		event(events.AgentStarted, &events.Agent{Step: "review", Models: []events.Model{{Name: "local/small"}, {Name: "far/large"}}}),
		event(events.TurnRequested, &events.Turn{Step: "review", Turn: 1}),
		event(events.TurnLost, &events.LostTurn{Step: "review", Turn: 1, Attempt: 1}),
		event(events.TurnAnswered, &events.Answered{Step: "review", Turn: 1, Stop: "calls", Calls: 1, NanoUSD: 70, Usage: events.Usage{Input: 10, CacheRead: 2, Output: 3}}),
		event(events.TurnRequested, &events.Turn{Step: "review", Turn: 2, Summarizes: 1}),
		event(events.StepReady, &events.Ready{Step: "review.t2.m", Attempt: 1, Tool: "MODEL_CALL"}),
		event(events.StepCalled, &events.Called{Step: "review.t2.m", Attempt: 1, At: at(6)}),
		event(events.TaskFailed, &events.Moved{Error: fault.New(fault.Timeout, "over")}),
		event(events.TurnLost, &events.LostTurn{Step: "review", Turn: 2}),
	))
}

// Names of spans have no numbers, which the attribute orch.step has: steps of a loop are one operation.
func TestNamesOfSteps(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"push": "push", "step2": "step2", "each[12].read2": "each[].read2", "each[0].in[3].x": "each[].in[].x", "each[0]": "each[]",
		"review.t12.c3": "review.t.c", "r2.t1.m": "r2.t.m", "each[2].r2.t3.c1": "each[].r2.t.c", "review.b2": "review.b",
	} {
		fold := traces.NewFold(task)
		fold.Add(at(0), "user:ada", []events.Event{event(events.TaskSubmitted, &events.Submitted{})})
		spans := fold.Add(at(1), "user:ada", []events.Event{event(events.StepSkipped, &events.Skipped{Step: key})})
		require.Len(t, spans, 1)
		assert.Equal(t, want, spans[0].Name)
		assert.Equal(t, []traces.Attribute{{Key: "orch.step", Value: key}, {Key: "orch.state", Value: "skipped"}}, spans[0].Attributes)
	}
}

// A span has the newest 128 events, without the checkpoints that orch makes by itself.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	fold := traces.NewFold(task)
	fold.Add(at(0), "user:ada", []events.Event{event(events.TaskSubmitted, &events.Submitted{})})
	for i := range 200 {
		fold.Add(at(float64(i)), "user:ada", []events.Event{
			event(events.CheckpointCreated, &events.Checkpointed{Name: events.BeforeCall("rm", "FILE_DELETE")}),
			event(events.SignalReceived, &events.Signal{Name: "go"}),
		})
	}
	spans := fold.Add(at(200), "user:ada", []events.Event{event(events.CheckpointCreated, &events.Checkpointed{Name: "mine"}), event(events.TaskFinished, &events.Moved{})})
	require.Len(t, spans, 1)
	got := spans[0].Events
	require.Len(t, got, 128)
	assert.Equal(t, 202-128, spans[0].Dropped)
	assert.Equal(t, []string{"checkpoint.created", "task.finished"}, []string{got[126].Name, got[127].Name})
	for i, e := range got[:126] {
		assert.Equal(t, traces.Event{At: at(float64(74 + i)), Name: "signal.received", Attributes: []traces.Attribute{{Key: "orch.signal", Value: "go"}}}, e)
	}
}

func TestInvalidTraceID(t *testing.T) {
	t.Parallel()
	id, err := traces.Of(task)
	require.NoError(t, err)
	assert.Equal(t, "01a223d0ab0c81fed5e952b0178a0878", id.String())
	_, err = traces.Of("TASK_1")
	require.Error(t, err)
	assert.Equal(t, fault.InvalidFormat, fault.From(err).Code)
}
