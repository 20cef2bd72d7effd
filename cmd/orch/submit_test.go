package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const typedPlan = `orch: v1
name: typed
inputs:
  type: object
  properties:
    repo: { type: string, format: path, default: . }
    files: { type: array, items: { type: string, format: path } }
    n: { type: integer }
    x: { type: number }
    yes: { type: boolean }
    any: { type: [string, integer] }
    map: { type: object }
steps:
  - id: a
    set: { v: 1 }
`

// accepting returns a session that accepts a task and stores the request.
func accepting(got *api.SubmitRequest) *fakeSession {
	return &fakeSession{submit: func(r api.SubmitRequest) (api.SubmitReply, error) {
		*got = r
		return api.SubmitReply{ID: taskID, State: statemachine.NeedsAction}, nil
	}}
}

func TestSubmitTypesTheInputs(t *testing.T) {
	t.Parallel()
	var got api.SubmitRequest
	p := newProbe(t, accepting(&got))
	p.write(t, "typed.yaml", typedPlan)
	p.write(t, "inputs.json", `{"n": 1, "map": {"b": 12345678901234567890}}`)
	require.Zero(t, p.run(t.Context(), []string{
		"submit", "typed.yaml", "-d", "-I", "inputs.json", "-i", "n=7", "-i", "x=1.5", "-i", "yes=true", "-i", "any=42", "-i", `files=["a", "/b"]`,
		"--label", "k=v", "--priority", "high", "--queue", "q", "--idempotency-key", "key", "--delay", "3s", "--name", "other", "--depends-on", "@last",
	}))
	assert.JSONEq(t, fmt.Sprintf(
		`{"repo":%q,"files":[%q,"/b"],"n":7,"x":1.5,"yes":true,"any":"42","map":{"b":12345678901234567890}}`, p.dir, filepath.Join(p.dir, "a")), string(got.Inputs))
	assert.Contains(t, string(got.Inputs), "12345678901234567890", "big integers survive")
	assert.Equal(t, map[string]string{"k": "v"}, got.Labels)
	assert.Equal(t, "high q key other user:ada 3s", fmt.Sprint(got.Priority, " ", got.Queue, " ", got.IdempotencyKey, " ", got.Name, " ", got.Actor, " ", got.Delay))
	assert.Equal(t, []events.TaskID{taskID}, got.DependsOn)
	assert.Equal(t, string(taskID)+"\n", p.out.String())
	assert.Equal(t, string(taskID)+" submitted\n", p.err.String())
}

func TestWrongInputs(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"n=x":           `"x" is not of the type integer`,
		"n=1.5":         `"1.5" is not of the type integer`,
		"yes=1":         `"1" is not of the type boolean`,
		"files=a":       `write it as JSON: files='["a", "b"]'`,
		"map=[]":        `"[]" is not of the type object`,
		"n:={":          `"{" is not valid JSON`,
		"rep=x":         "rep",
		"=x":            "is not of the form name=value",
		"plain":         "is not of the form name=value",
		"any:=[1,2]":    "any",
		"any=a\xff":     "any is not valid UTF-8",
		"any:=\"\xff\"": "any is not valid UTF-8",
		"\xff=a":        "? is not valid UTF-8",
	} {
		p := newProbe(t, &fakeSession{})
		p.write(t, "typed.yaml", typedPlan)
		assert.Equal(t, exitUsage, p.run(t.Context(), []string{"submit", "typed.yaml", "-i", input}), input)
		assert.Contains(t, p.err.String(), want, input)
	}
}

// A file of inputs that decoding would change is refused.
func TestInputsFileThatIsNoText(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{})
	p.write(t, "typed.yaml", typedPlan)
	p.write(t, "inputs.json", "{\"any\": \"a\xff\"}")
	assert.Equal(t, exitUsage, p.run(t.Context(), []string{"submit", "typed.yaml", "-I", "inputs.json"}))
	assert.Contains(t, p.err.String(), "inputs.json is not valid UTF-8")
}

func TestSubmitATool(t *testing.T) {
	t.Parallel()
	var got api.SubmitRequest
	p := newProbe(t, accepting(&got))
	require.Zero(t, p.run(t.Context(), []string{"submit", "--tool", "file_read", "file_path=123", "-d", "-o", "json"}))
	var plan struct {
		Steps []struct {
			Tool string
			With map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(got.Plan, &plan))
	require.Len(t, plan.Steps, 1)
	assert.Equal(t, "FILE_READ", plan.Steps[0].Tool)
	assert.Equal(t, filepath.Join(p.dir, "123"), plan.Steps[0].With["file_path"], "the schema makes it text, the contract a path")
	assert.JSONEq(t, `{"id":"`+string(taskID)+`","state":"NEEDS_ACTION"}`, p.out.String())
	assert.Empty(t, p.err.String())
}

// Without a running node the command has to wait, because the node is embedded in it.
func TestSubmitWaitsForAnEmbeddedNode(t *testing.T) {
	t.Parallel()
	var got api.SubmitRequest
	s := accepting(&got)
	s.embedded = true
	s.watch = answers(reply(api.WatchReply{State: statemachine.Done, Ended: true}))
	s.result = api.ResultReply{ID: taskID, State: statemachine.Done, Ended: true}
	p := newProbe(t, s)
	p.write(t, "report.md", "# Report")
	s.result.Output = json.RawMessage(fmt.Sprintf(`{"report":%q,"n":2}`, filepath.Join(p.dir, "report.md")))
	p.write(t, "typed.yaml", typedPlan)
	require.Zero(t, p.run(t.Context(), []string{"submit", "typed.yaml", "--detach"}))
	assert.Contains(t, p.err.String(), "start one to detach: orch serve")
	assert.Equal(t, "report: report.md\nn: 2\n", p.out.String())
	assert.True(t, s.closed)
}

func TestAFailedTaskEndsWithSeven(t *testing.T) {
	t.Parallel()
	var got api.SubmitRequest
	s := accepting(&got)
	s.watch = answers(reply(api.WatchReply{State: statemachine.Failed, Ended: true}))
	s.result = api.ResultReply{
		ID: taskID, State: statemachine.Failed, Ended: true, Error: fault.New(fault.ExecFailed, "exit \x1b1").WithHint("read it"),
	}
	p := newProbe(t, s)
	p.write(t, "typed.yaml", typedPlan)
	assert.Equal(t, exitFailed, p.run(t.Context(), []string{"submit", "typed.yaml", "-q"}))
	assert.Equal(t, string(taskID)+" submitted\n"+string(taskID)+" FAILED: EXEC_FAILED: exit \\x1b1\nhint: read it\n", p.err.String())
	assert.Empty(t, p.out.String())
}

func TestBatchesAreSentInChunks(t *testing.T) {
	t.Parallel()
	var sizes []int
	var last api.SubmitRequest
	s := &fakeSession{batch: func(r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
		sizes = append(sizes, len(r.Tasks))
		var reply api.SubmitBatchReply
		for range r.Tasks {
			reply.Tasks = append(reply.Tasks, api.SubmitBatchItem{SubmitReply: api.SubmitReply{ID: taskID}})
		}
		last = r.Tasks[len(r.Tasks)-1]
		reply.Tasks[0] = api.SubmitBatchItem{Error: fault.New(fault.Conflict, "the key is used").WithHint("choose another")}
		return reply, nil
	}}
	p := newProbe(t, s)
	p.write(t, "tasks.jsonl", strings.Repeat(`{"tool":"LOG_WRITE","args":{"level":"INFO","message":"m"},"delay":"2s","labels":{"a":"b"}}`+"\n", 1200))
	assert.Equal(t, exitConflict, p.run(t.Context(), []string{"submit", "-f", "tasks.jsonl", "--detach", "--label", "c=d"}))
	assert.Equal(t, []int{500, 500, 200}, sizes)
	assert.Equal(t, map[string]string{"a": "b", "c": "d"}, last.Labels)
	assert.Equal(t, "2s", last.Delay.String())
	assert.Contains(t, p.err.String(), "submitted 1,000 of 1,200")
	assert.Contains(t, p.err.String(), "tasks.jsonl:501: CONFLICT: the key is used (choose another)")
	assert.Contains(t, p.err.String(), "submitted 1,197 of 1,200 tasks")
	assert.Equal(t, 1197, strings.Count(p.out.String(), "\n"))
}

func TestBatchWaitsForTheWorstEnd(t *testing.T) {
	t.Parallel()
	s := &fakeSession{
		batch: func(api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
			return api.SubmitBatchReply{Tasks: []api.SubmitBatchItem{{SubmitReply: api.SubmitReply{ID: taskID}}}}, nil
		},
		result: api.ResultReply{State: statemachine.Failed, Ended: true},
	}
	p := newProbe(t, s)
	p.write(t, "one.jsonl", `{"plan":{"orch":"v1","name":"x","steps":[{"id":"a","set":{"v":1}}]}}`)
	assert.Equal(t, exitFailed, p.run(t.Context(), []string{"submit", "-f", "one.jsonl"}))
	assert.Contains(t, p.err.String(), "1 FAILED")
}
