package task_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/task"
	"github.com/orch-dev/orch/tools/toolstest"
)

const taskID = events.TaskID("TASK_01JD0000000000000000000000")

// call checks the arguments, runs the tool and returns its output and the recorded facts.
func call(t *testing.T, name, args string, checkpoints map[string]json.RawMessage) (string, []events.Event, error) {
	t.Helper()
	catalogue, err := tools.New(task.Tools()...)
	require.NoError(t, err)
	tool, ok := catalogue.Get(name)
	require.True(t, ok)
	checked, err := tool.Check(json.RawMessage(args))
	if err != nil {
		return "", nil, err
	}
	var facts []events.Event
	env := &tools.Env{
		Task: taskID, Step: "one", Checkpoints: checkpoints,
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("", 3600)) },
		Record: func(kind events.Kind, data events.Payload) {
			facts = append(facts, events.Event{Kind: kind, Data: data})
		},
	}
	out, err := tool.Call(t.Context(), env, checked)
	if err == nil {
		toolstest.Output(t, tool, out)
	}
	return string(out), facts, err
}

func at() time.Time { return time.Date(2026, 1, 2, 2, 4, 5, 678_901_000, time.UTC) }

// S0-150, S0-151: one entry, whatever the message contains.
func TestLogWrite(t *testing.T) {
	t.Parallel()
	out, facts, err := call(t, "LOG_WRITE", `{"level":"WARN","message":"a\n[…] [INFO] forged","context":{"n":12345678901234567890,"a":"<"}}`, nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"written":true,"timestamp":"2026-01-02T02:04:05.678901Z"}`, out)
	assert.Equal(t, []events.Event{{Kind: events.LogWritten, Data: &events.Logged{
		Step: "one", Level: "WARN", Message: "a\n[…] [INFO] forged", Context: json.RawMessage(`{"n":12345678901234567890,"a":"<"}`), At: at(),
	}}}, facts)
	_, facts, err = call(t, "LOG_WRITE", `{"level":"DEBUG","message":""}`, nil)
	require.NoError(t, err)
	assert.Len(t, facts, 1)
}

func TestLogWriteRefusals(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]fault.Code{
		`{"message":"x"}`:                                                 fault.RequiredField,
		`{"level":"INFO"}`:                                                fault.RequiredField,
		`{"level":"info","message":"x"}`:                                  fault.ValidationError,
		`{"level":"INFO","message":"x","context":[]}`:                     fault.ValidationError,
		`{"level":"INFO","message":"x","context":"a"}`:                    fault.ValidationError,
		`{"level":"INFO","message":"` + strings.Repeat("x", 65537) + `"}`: fault.ValidationError,
		`{"level":"INFO","message":"","context":{"a":"` + strings.Repeat("x", 65536) + `"}}`: fault.ValidationError,
	} {
		_, facts, err := call(t, "LOG_WRITE", args, nil)
		assert.Equal(t, code, fault.CodeOf(err), args)
		assert.Empty(t, facts)
	}
}

// S0-170: the state data is unchanged byte for byte.
func TestCheckpointCreate(t *testing.T) {
	t.Parallel()
	state := `{"big":12345678901234567890123,"é":null,"a":[1.0,"<&>"]}`
	out, facts, err := call(t, "CHECKPOINT_CREATE", `{"checkpoint_name":"before","state_data":`+state+`}`, nil)
	require.NoError(t, err)
	var got struct {
		ID        string    `json:"checkpoint_id"`
		Timestamp time.Time `json:"timestamp"`
		Location  string    `json:"location"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	owner, ok := events.TaskOfCheckpoint(got.ID)
	assert.True(t, ok, got.ID)
	assert.Equal(t, taskID, owner)
	assert.Equal(t, at(), got.Timestamp)
	assert.Equal(t, "KV/ORCH_CHECKPOINTS/"+string(taskID)+"."+got.ID, got.Location)
	assert.Equal(t, []events.Event{{Kind: events.CheckpointCreated, Data: &events.Checkpointed{
		ID: got.ID, Name: "before", State: events.Inline(json.RawMessage(state)), At: at(),
	}}}, facts)
	second, _, err := call(t, "CHECKPOINT_CREATE", `{"checkpoint_name":"before","state_data":{}}`, nil)
	require.NoError(t, err)
	assert.NotContains(t, second, got.ID)
}

// S0-165: data of another task is not shown, but the error names that task.
func TestCheckOfAnotherTask(t *testing.T) {
	t.Parallel()
	for id, hint := range map[string]string{
		"APR_01JD0000000000000000000001_AAAAAAAA":                          "TASK_01JD0000000000000000000001",
		"APR_" + strings.TrimPrefix(string(taskID), "TASK_") + "_AAAAAAAA": "",
		"APR_x": "",
	} {
		_, _, err := call(t, "APPROVAL_CHECK", `{"approval_id":"`+id+`"}`, nil)
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), id)
		assert.Contains(t, fault.From(err).Hint, hint)
		assert.Equal(t, hint == "", fault.From(err).Hint == "", id)
	}
	_, _, err := call(t, "CHECKPOINT_RESTORE", `{"checkpoint_id":"CKPT_2"}`, nil)
	assert.Equal(t, "orch checkpoint list "+string(taskID)+" shows its checkpoints", fault.From(err).Hint)
}

func TestCheckpointCreateRefusals(t *testing.T) {
	t.Parallel()
	for args, code := range map[string]fault.Code{
		`{"state_data":{}}`:                         fault.RequiredField,
		`{"checkpoint_name":"a"}`:                   fault.RequiredField,
		`{"checkpoint_name":"","state_data":{}}`:    fault.ValidationError,
		`{"checkpoint_name":"a","state_data":[]}`:   fault.ValidationError,
		`{"checkpoint_name":"a","state_data":"{}"}`: fault.ValidationError,
		`{"checkpoint_name":"a","state_data":null}`: fault.RequiredField,
	} {
		_, facts, err := call(t, "CHECKPOINT_CREATE", args, nil)
		assert.Equal(t, code, fault.CodeOf(err), args)
		assert.Empty(t, facts)
	}
}

// S0-175.
func TestCheckpointRestore(t *testing.T) {
	t.Parallel()
	state := `{"big":12345678901234567890123,"é":null,"a":[1.0,"<&>"]}`
	out, facts, err := call(t, "CHECKPOINT_RESTORE", `{"checkpoint_id":"CKPT_1"}`, map[string]json.RawMessage{"CKPT_1": json.RawMessage(state)})
	require.NoError(t, err)
	assert.Equal(t, `{"checkpoint_id":"CKPT_1","state_data":`+state+`,"restored_at":"2026-01-02T02:04:05.678901Z"}`, out)
	assert.Equal(t, []events.Event{{Kind: events.CheckpointRestored, Data: &events.Restored{ID: "CKPT_1", At: at()}}}, facts)
	for args, code := range map[string]fault.Code{
		`{"checkpoint_id":"CKPT_01JD0000000000000000000001_AAAAAAAA"}`: fault.Forbidden, // S0-175: of another task
		`{"checkpoint_id":"CKPT_2"}`:                                   fault.NotFound,
		`{"checkpoint_id":""}`:                                         fault.ValidationError,
		`{}`:                                                           fault.RequiredField,
	} {
		_, facts, err := call(t, "CHECKPOINT_RESTORE", args, nil)
		assert.Equal(t, code, fault.CodeOf(err), args)
		assert.Empty(t, facts)
	}
}
