package compare_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/compare"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

func raw(text string) events.Value { return events.Value{Raw: json.RawMessage(text)} }

func inline(v events.Value) json.RawMessage { return v.Raw }

// task returns a finished task of one step, after some changes.
func task(change ...func(*statemachine.Task)) *statemachine.Task {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	t := &statemachine.Task{
		ID: events.KeyedTaskID("", "a"), State: statemachine.Done, CreatedAt: began, UpdatedAt: began.Add(time.Second),
		Submitted: &events.Submitted{Name: "n", Plan: raw(`{"steps":[{"id":"s","tool":"ONE"},{"id":"t","tool":"TWO"}]}`), Inputs: raw(`{"k":1}`)},
		Steps:     map[string]*statemachine.Step{"s": {Key: "s", State: statemachine.StepSucceeded, Tool: "ONE", Args: raw(`{"x":[1,2]}`), Output: raw(`"out"`), Attempt: 1}},
		Order:     []string{"s"},
	}
	for _, c := range change {
		c(t)
	}
	return t
}

func TestTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*statemachine.Task)
		want   []string
	}{
		"nothing": {func(*statemachine.Task) {}, nil},
		"state":   {func(x *statemachine.Task) { x.State = statemachine.Failed; x.Error = fault.New(fault.NotFound, "no") }, []string{"task state", "task error"}},
		"a step of the plan": {
			func(x *statemachine.Task) {
				x.Submitted.Plan = raw(`{"steps":[{"id":"new"},{"id":"s","tool":"ONE"},{"id":"t","tool":"2"}]}`)
			},
			[]string{"plan plan.steps.new", "plan plan.steps.t.tool"},
		},
		"the order of fields": {func(x *statemachine.Task) {
			x.Submitted.Plan = raw(`{"steps":[{"tool":"ONE","id":"s"},{"tool":"TWO","id":"t"}]}`)
		}, nil},
		"an input":     {func(x *statemachine.Task) { x.Submitted.Inputs = raw(`{"k":1.0,"l":null}`) }, []string{"inputs inputs.k"}},
		"an argument":  {func(x *statemachine.Task) { x.Steps["s"].Args = raw(`{"x":[1,3,4]}`) }, []string{"steps s.args.x[1]", "steps s.args.x[2]"}},
		"an output":    {func(x *statemachine.Task) { x.Steps["s"].Output = raw(`{"a":1}`) }, []string{"steps s.output"}},
		"invalid JSON": {func(x *statemachine.Task) { x.Steps["s"].Output = raw(`{`) }, []string{"steps s.output"}},
		"attempts and time": {
			func(x *statemachine.Task) { x.Steps["s"].Attempt, x.Steps["s"].Duration = 2, time.Second },
			[]string{"steps s.attempts", "times s"},
		},
		"a step more": {func(x *statemachine.Task) {
			x.Order = append(x.Order, "t")
			x.Steps["t"] = &statemachine.Step{Key: "t", State: statemachine.StepReady}
		}, []string{"steps t.state"}},
		"a step less":   {func(x *statemachine.Task) { x.Order, x.Steps = nil, nil }, []string{"steps s.state"}},
		"the time":      {func(x *statemachine.Task) { x.UpdatedAt = x.UpdatedAt.Add(time.Minute) }, []string{"times duration"}},
		"a label":       {func(x *statemachine.Task) { x.Submitted.Labels = map[string]string{"l": "v"} }, []string{"task labels"}},
		"no submission": {func(x *statemachine.Task) { x.Submitted = nil }, nil},
		"a reused result": {func(x *statemachine.Task) {
			s := x.Steps["s"]
			s.Tool, s.Args, s.Attempt, s.Reason = "", events.Value{}, 0, "reused from TASK_1"
		}, nil},
		"who approved": {func(x *statemachine.Task) {
			x.Approvals = []*statemachine.Approval{{Approval: events.Approval{Step: "s"}, Status: statemachine.ApprovalGranted, Decision: &events.Decision{Approver: "user:ada"}}}
		}, []string{"task approvers.s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := compare.Tasks(compare.Side{Task: task(), Value: inline}, compare.Side{Task: task(c.change), Value: inline})
			var got []string
			for _, e := range reply.Entries {
				got = append(got, e.Part+" "+e.Path)
			}
			assert.Equal(t, c.want, got)
			back := compare.Tasks(compare.Side{Task: task(c.change), Value: inline}, compare.Side{Task: task(), Value: inline})
			require.Len(t, back.Entries, len(reply.Entries), "the other way round")
			for _, e := range reply.Entries {
				assert.Contains(t, back.Entries, api.Difference{Part: e.Part, Path: e.Path, A: e.B, B: e.A})
			}
		})
	}
}

// Equal large values are not read, and a reply is bounded.
func TestTasksBounds(t *testing.T) {
	t.Parallel()
	large := func(x *statemachine.Task) { x.Steps["s"].Output = events.InBlobs("r", 1) }
	read := 0
	count := func(v events.Value) json.RawMessage {
		if v.Ref() != "" {
			read++
		}
		return v.Raw
	}
	reply := compare.Tasks(compare.Side{Task: task(large), Value: count}, compare.Side{Task: task(large), Value: count})
	assert.Empty(t, reply.Entries)
	assert.Zero(t, read)

	long := strings.Repeat("x", api.MaxDiffValue)
	reply = compare.Tasks(compare.Side{Task: task(), Value: inline}, compare.Side{Task: task(func(x *statemachine.Task) { x.Steps["s"].Output = raw(strconv.Quote(long)) }), Value: inline})
	require.Len(t, reply.Entries, 1)
	assert.Contains(t, string(reply.Entries[0].B), `"$size":`+strconv.Itoa(len(long)+2))

	many := "[" + strings.TrimSuffix(strings.Repeat("1,", api.MaxDiffs+10), ",") + "]"
	reply = compare.Tasks(compare.Side{Task: task(func(x *statemachine.Task) { x.Output = raw(`[]`) }), Value: inline}, compare.Side{Task: task(func(x *statemachine.Task) { x.Output = raw(many) }), Value: inline})
	assert.Len(t, reply.Entries, api.MaxDiffs)
	assert.Equal(t, 10, reply.Omitted)
}
