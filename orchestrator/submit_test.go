package orchestrator_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

const (
	onePlan   = "orch: v1\nsteps: [{id: a, tool: READ, with: {n: 1}}]\noutputs: {n: \"${{ steps.a.output.n }}\"}\n"
	otherPlan = "orch: v1\nsteps: [{id: a, tool: READ, with: {n: 2}}]\n"
	writePlan = "orch: v1\nsteps: [{id: a, tool: WRITE}]\n"
	setPlan   = "orch: v1\nsteps: [{id: a, set: {x: 1}}]\noutputs: {x: \"${{ steps.a.output.x }}\"}\n"
)

func hasCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, fault.CodeOf(err), "%v", err)
}

// one key is one task.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[events.TaskID]int{}
	fresh := 0
	for range 50 {
		wg.Go(func() {
			r, err := n.trySubmit(onePlan, keyed("k"))
			if !assert.NoError(t, err) { //nolint:testifylint // require must not be called in a goroutine
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[r.ID]++
			if !r.Existing {
				fresh++
			}
		})
	}
	wg.Wait()
	assert.Len(t, ids, 1)
	assert.Equal(t, 1, fresh)
	_, err := n.trySubmit(otherPlan, keyed("k"))
	hasCode(t, err, fault.Conflict)
	n.serve(echoArgs)
	id := events.KeyedTaskID("", "k")
	n.result(id)
	r, err := n.trySubmit(onePlan, keyed("k"))
	require.NoError(t, err)
	assert.True(t, r.Existing)
	assert.Equal(t, statemachine.Done, r.State)
	n.checkIdle()
}

// A repeated request returns the task that it created, whatever the concurrency key says.
func TestIdempotencyGoesBeforeConcurrency(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"reject", "cancel_running"} {
		n := start(t, memlog.New(memlog.Config{}))
		plan := "orch: v1\nconcurrency: {key: k, on_conflict: " + rule + "}\nsteps: [{id: a, tool: READ}]\n"
		id := n.submit(plan, keyed("x"))
		r, err := n.trySubmit(plan, keyed("x"))
		require.NoError(t, err)
		assert.True(t, r.Existing)
		assert.Equal(t, statemachine.NeedsAction, n.get(id).State, "the task goes on")
	}
}

func TestChosenID(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := events.KeyedTaskID("", "chosen")
	choose := func(r *api.SubmitRequest) { r.ID = id }
	assert.Equal(t, id, n.submit(onePlan, choose))
	r, err := n.trySubmit(onePlan, choose)
	require.NoError(t, err)
	assert.True(t, r.Existing)
	_, err = n.trySubmit(otherPlan, choose)
	hasCode(t, err, fault.Conflict)
	assert.Equal(t, "id", fault.From(err).Field)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	text := func(s string) json.RawMessage { raw, _ := json.Marshal(s); return raw }
	r, err := n.SubmitBatch(context.Background(), api.SubmitBatchRequest{Tasks: []api.SubmitRequest{
		{Plan: text(onePlan)}, {Plan: text("nonsense")}, {Plan: text(setPlan), Name: "last"},
	}})
	require.NoError(t, err)
	require.Len(t, r.Tasks, 3)
	assert.Equal(t, statemachine.NeedsAction, r.Tasks[0].State)
	require.NotNil(t, r.Tasks[1].Error)
	assert.Equal(t, fault.InvalidPlan, r.Tasks[1].Error.Code)
	assert.Equal(t, statemachine.Done, r.Tasks[2].State)
	assert.Equal(t, "last", n.get(r.Tasks[2].ID).Name)
	_, err = n.SubmitBatch(context.Background(), api.SubmitBatchRequest{Tasks: make([]api.SubmitRequest, 10_001)})
	hasCode(t, err, fault.ValidationError)
}

// every limit of a submission is refused by name.
func TestSubmitLimits(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		c.FindSecret = func(data []byte) (string, bool) { return "rule", strings.Contains(string(data), "hunter2") }
	})
	own := events.KeyedTaskID("", "own")
	for name, tc := range map[string]struct {
		change func(*api.SubmitRequest)
		code   fault.Code
		field  string
	}{
		"no plan":      {func(r *api.SubmitRequest) { r.Plan = nil }, fault.RequiredField, "plan"},
		"long name":    {func(r *api.SubmitRequest) { r.Name = strings.Repeat("x", 257) }, fault.ValidationError, "name"},
		"priority":     {func(r *api.SubmitRequest) { r.Priority = "urgent" }, fault.ValidationError, "priority"},
		"queue":        {func(r *api.SubmitRequest) { r.Queue = "a b" }, fault.InvalidFormat, "queue"},
		"label":        {func(r *api.SubmitRequest) { r.Labels = map[string]string{"A": "x"} }, fault.InvalidFormat, "labels"},
		"delay":        {func(r *api.SubmitRequest) { r.Delay = -1 }, fault.ValidationError, "delay"},
		"id":           {func(r *api.SubmitRequest) { r.ID = "TASK_x" }, fault.InvalidFormat, "task"},
		"inputs":       {func(r *api.SubmitRequest) { r.Inputs = make(json.RawMessage, 5<<20) }, fault.ValidationError, "inputs"},
		"dependency":   {func(r *api.SubmitRequest) { r.DependsOn = []events.TaskID{"x"} }, fault.InvalidFormat, "depends_on"},
		"itself":       {func(r *api.SubmitRequest) { r.ID, r.DependsOn = own, []events.TaskID{own} }, fault.ValidationError, "depends_on"},
		"secret label": {func(r *api.SubmitRequest) { r.Labels = map[string]string{"a": "hunter2"} }, fault.SecretDetected, "labels"},
		"secret name":  {func(r *api.SubmitRequest) { r.Name = "hunter2" }, fault.SecretDetected, "name"},
		"secret plan":  {func(r *api.SubmitRequest) { r.Plan = json.RawMessage(`"name: hunter2"`) }, fault.SecretDetected, "plan:1"},
		"secret step": {func(r *api.SubmitRequest) {
			r.Plan = json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"READ"},{"id":"b","tool":"READ","with":{"n":1,"t":"hunter2"}}]}`)
		}, fault.SecretDetected, "steps[1].with.t"},
		"secret argument": {func(r *api.SubmitRequest) {
			r.Plan = json.RawMessage(`{"orch":"v1","steps":[{"id":"call","tool":"READ","with":{"n":1,"t":"hunter2"}}]}`)
		}, fault.SecretDetected, "t"},
		"secret allowed": {func(r *api.SubmitRequest) {
			r.Plan = json.RawMessage(`{"orch":"v1","inputs":{"additionalProperties":true},"allow":{"paths":["hun${{ inputs.x }}"]},"steps":[{"id":"a","set":{"b":1}}]}`)
			r.Inputs = json.RawMessage(`{"x":"ter2"}`)
		}, fault.SecretDetected, "allow"},
		"secret prompt": {func(r *api.SubmitRequest) {
			r.Plan = json.RawMessage(`{"orch":"v1","steps":[{"id":"a","approve":{"show":"hunter2"}}]}`)
		}, fault.SecretDetected, "steps[0].approve"},
	} {
		_, err := n.trySubmit(onePlan, tc.change)
		require.Error(t, err, name)
		assert.Equal(t, tc.code, fault.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, tc.field, fault.From(err).Field, name)
	}
	list, err := n.List(context.Background(), api.ListRequest{})
	require.NoError(t, err)
	assert.Empty(t, list.Tasks)
}
