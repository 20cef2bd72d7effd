package node_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const stubTurns = `  - calls: [{tool: FILE_READ, args: {file_path: ROOT/notes.txt}}, {tool: FILE_READ, args: {file_path: /elsewhere.txt}}, {tool: GLOB_SEARCH, args: {path: ROOT, pattern: '*.txt'}}]
  - calls: [{tool: FILE_WRITE, args: {file_path: ROOT/notes.txt, content: tea}}, {tool: FILE_DELETE, args: {file_path: ROOT/notes.txt}}, {tool: FILE_READ, args: {file_path: ROOT/notes.txt}}]
  - calls: [{tool: FILE_READ, args: {file_path: ROOT/notes.txt}}, {tool: GREP_SEARCH, args: {path: ROOT, pattern: tea}}]
  - text: Done.
`

const stubPlan = `
orch: v1
steps:
  - id: a
    agent:
      model: script:talk
      prompt: Look.
      tools: [FILE_*, GLOB_SEARCH, GREP_SEARCH]
      stubs:
        from: TASK_01JD0000000000000000000000
        calls:
          - {tool: FILE_READ, args: {file_path: ROOT/notes.txt}, output: milk from the record}
          - {tool: FILE_READ, args: {file_path: ROOT/notes.txt}, output: tea from the record}
          - {tool: FILE_WRITE, output: {written: true}}
          - {tool: FILE_READ, args: {file_path: /elsewhere.txt}, error: {code: NOT_FOUND, message: no such file, hint: look again}}
        reads: ["*", "!GREP_SEARCH"]
`

// The calls of an agent with stubs get their recorded results in order. Other reads are made if they may be; nothing else is.
func TestStubs(t *testing.T) {
	t.Parallel()
	n, root := talkingIn(t, stubTurns)
	id := submit(t, n.API(), strings.ReplaceAll(stubPlan, "ROOT", root))
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	c := conversationOf(t, n, id)
	require.Len(t, c.Turns, 4)
	seen := func(turn, call int) string { return c.Turns[turn-1].Calls[call-1].Result }
	assert.Equal(t, "milk from the record", seen(1, 1))
	assert.Equal(t, "NOT_FOUND: no such file (look again)", seen(1, 2))
	assert.Contains(t, seen(1, 3), "notes.txt", "a read without a stub is made")
	assert.True(t, c.Turns[0].Calls[0].Recorded)
	assert.False(t, c.Turns[0].Calls[2].Recorded)
	assert.JSONEq(t, `{"written":true}`, seen(2, 1))
	refused := c.Turns[1].Calls[1]
	assert.Equal(t, []any{fault.Forbidden, "NO_STUB", "FILE_DELETE"}, []any{refused.Error.Code, refused.Error.Reason, refused.Tool})
	assert.Equal(t, "tea from the record", seen(2, 3), "the second call gets the second result")
	assert.Equal(t, "tea from the record", seen(3, 1), "the last result answers all further calls")
	assert.Equal(t, fault.Forbidden, c.Turns[2].Calls[1].Error.Code, "GREP_SEARCH is excluded")
	assert.FileExists(t, root+"/notes.txt")
	assert.Equal(t, 8, c.Used.Calls)

	view, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	at := slices.IndexFunc(view.Steps, func(s api.StepView) bool { return s.Key == "a.t1.c1" })
	require.GreaterOrEqual(t, at, 0)
	assert.Contains(t, view.Steps[at].Reason, "TASK_01JD0000000000000000000000")
	assert.Zero(t, view.Steps[at].Attempt, "no worker has made the call")
	replay, err := n.API().Replay(t.Context(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	assert.True(t, *replay.Live)
	history, err := n.API().History(t.Context(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	called := map[string]bool{}
	for _, commit := range history.Commits {
		for _, e := range commit.Events {
			if e.Kind == events.StepReady {
				called[events.StepOf(e.Data)] = true
			}
		}
	}
	assert.True(t, called["a.t1.c3"])
	assert.False(t, called["a.t1.c1"] || called["a.t2.c1"] || called["a.t2.c2"], "%v", called)
}
