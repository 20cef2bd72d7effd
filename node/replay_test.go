package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// replaying returns a plan whose agent is asked from a record; its prompt is an argument.
func replaying(model, prompt string) string {
	return "orch: v1\nsteps:\n  - {id: a, agent: {model: '" + model + "', instructions: Be brief., prompt: " + prompt + ", tools: [GLOB_SEARCH], budget: {tokens: 100000}}}\n" +
		"outputs: {text: '${{ steps.a.output.text }}', usd: '${{ steps.a.output.usd }}'}\n"
}

func conversationOf(t *testing.T, n *node.Node, id events.TaskID) api.ConversationReply {
	t.Helper()
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	return r
}

// An agent is answered from the history of another one: same texts, calls and tokens, and nothing to pay. Its calls are made.
func TestReplayOfAnAgent(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	past := conversed(t, n, talker)
	for _, model := range []string{"replay:" + string(past), "replay:" + string(past) + "/a?strict"} {
		id := submit(t, n.API(), replaying(model, "Look."))
		r := result(t, n.API(), id)
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
		assert.JSONEq(t, `{"text":"There are notes.","usd":0}`, string(r.Output))
		before, after := conversationOf(t, n, past), conversationOf(t, n, id)
		require.Len(t, after.Turns, 2)
		for i := range after.Turns {
			assert.Equal(t, before.Turns[i].Text, after.Turns[i].Text)
			assert.Equal(t, before.Turns[i].Usage, after.Turns[i].Usage)
			assert.Empty(t, after.Turns[i].Differs)
		}
		assert.Equal(t, model, after.Turns[0].Model)
		assert.Equal(t, before.Used, after.Used)
	}
}

// A request that differs is answered, and the conversation says so; strictly it is refused at once.
func TestReplayThatDiffers(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	past := conversed(t, n, talker)
	id := submit(t, n.API(), replaying("replay:"+string(past), "Look closely."))
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	c := conversationOf(t, n, id)
	assert.Equal(t, []string{"the prompt"}, c.Turns[0].Differs)
	assert.Empty(t, c.Turns[1].Differs)
	r := result(t, n.API(), submit(t, n.API(), replaying("replay:"+string(past)+"?strict", "Look closely.")))
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, "DIFFERS_FROM_RECORD", r.Error.Reason)
	assert.Equal(t, fault.ValidationError, r.Error.Code)
}

// What is not in the record is an error that says what is missing, and is not tried again.
func TestReplayOfWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	n := talking(t, "  - {text: Once.}\n  - {error: {kind: invalid, message: broken}}\n")
	once := conversed(t, n, talker)
	failed := submit(t, n.API(), "orch: v1\nsteps: [{id: a, agent: {model: 'script:talk', prompt: Look., result: {type: object}}}]\n")
	require.Equal(t, statemachine.Failed, result(t, n.API(), failed).State)
	plain := submit(t, n.API(), "orch: v1\nsteps: [{id: a, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	require.Equal(t, statemachine.Done, result(t, n.API(), plain).State)
	for name, test := range map[string]struct {
		model, want string
		code        fault.Code
	}{
		"beyond":   {"replay:" + string(once), "the record ends: the agent of step a of " + string(once) + " has 1 turn, and turn 2 is asked for", fault.ValidationError},
		"failed":   {"replay:" + string(failed), "turn 2 of step a of " + string(failed) + " has no answer: VALIDATION_ERROR: ", fault.StateNotAllowed},
		"no task":  {"replay:TASK_01JD0000000000000000000000", "there is no task TASK_01JD0000000000000000000000", fault.ValidationError},
		"no step":  {"replay:" + string(once) + "/b", `the task has no step "b"`, fault.ValidationError},
		"no agent": {"replay:" + string(plain), "the task has no agent step", fault.ValidationError},
		"no name":  {"replay:TASK_1", `"TASK_1" is not the id of a task`, fault.ValidationError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := "orch: v1\nsteps: [{id: a, agent: {model: '" + test.model + "', prompt: Look., result: {type: object}}}]\n"
			r := result(t, n.API(), submit(t, n.API(), plan))
			require.Equal(t, statemachine.Failed, r.State)
			assert.Contains(t, r.Error.Message, test.want)
			assert.Equal(t, test.code, r.Error.Code)
		})
	}
}

// For an identity that sees only its own tasks, the conversations of others do not exist.
func TestReplayOfOthers(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	ofAda := conversed(t, n, talker)
	run := func(model, actor, keysOf string) api.ResultReply {
		reply, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: []byte(replaying(model, "Look.")), Actor: actor, KeysOf: keysOf})
		require.NoError(t, err)
		return result(t, n.API(), reply.ID)
	}
	r := run("replay:"+string(ofAda), "agent:ci", "agent:ci")
	require.Equal(t, statemachine.Failed, r.State)
	assert.Contains(t, r.Error.Message, "there is no task "+string(ofAda))
	assert.Equal(t, statemachine.Done, run("replay:"+string(ofAda), "user:test", "").State, "operators read all tasks")
	own, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: []byte(replaying("script:talk", "Look.")), Actor: "agent:ci", KeysOf: "agent:ci"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), own.ID).State)
	assert.Equal(t, statemachine.Done, run("replay:"+string(own.ID), "agent:ci", "agent:ci").State)
	assert.Equal(t, statemachine.Failed, run("replay:"+string(own.ID), "agent:other", "agent:other").State)
}

// The record of a task outlives the script, and the provider, that it was made with.
func TestReplayWithoutItsProvider(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	dir := filepath.Join(cfg.Root, ".orch", "models")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "talk.yaml"), []byte("turns: [{text: Hello.}]\n"), 0o600))
	n := start(t, cfg)
	past := conversed(t, n, talker)
	require.NoError(t, os.RemoveAll(dir))
	require.Equal(t, statemachine.Done, result(t, n.API(), submit(t, n.API(), replaying("replay:"+string(past), "Look."))).State)
}
