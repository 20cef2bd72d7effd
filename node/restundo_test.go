package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/undo"
)

// changedBy opens a session of an identity, and lets a call of it write a file of the project.
func (e *endpoint) changedBy(who, keysOf, file string) (session, call events.TaskID) {
	e.t.Helper()
	session = events.NewTaskID(time.Now())
	_, err := e.API().Submit(e.t.Context(), api.SubmitRequest{
		ID: session, Session: session, Plan: api.SessionPlan(time.Hour), Actor: who, KeysOf: keysOf, Writes: policy.WritesAllow,
	})
	require.NoError(e.t, err)
	reply, err := e.API().Submit(e.t.Context(), api.SubmitRequest{
		Plan:  fmt.Appendf(nil, `{"orch":"v1","steps":[{"id":"a","tool":"FILE_WRITE","with":{"file_path":%q,"content":"new\n"}}]}`, file),
		Actor: who, KeysOf: keysOf, Session: session, Shares: true,
	})
	require.NoError(e.t, err)
	require.Equal(e.t, statemachine.Done, result(e.t, e.API(), reply.ID).State)
	return session, reply.ID
}

// undo asks for an undo over HTTP.
func (e *endpoint) undo(token string, id events.TaskID, body string) (status int, out undo.Outcome, answer string) {
	e.t.Helper()
	status, answer, _ = e.request(http.MethodPost, "/api/v1/tasks/"+string(id)+"/undo", token, body)
	if status == http.StatusOK {
		require.NoError(e.t, json.Unmarshal([]byte(answer), &out), answer)
	}
	return status, out, answer
}

// Whoever sees the sessions of all sees what an undo of them would do, and may undo them; nobody else may.
func TestHTTPUndoOfOthers(t *testing.T) {
	t.Parallel()
	var cfg node.Config
	e := serveNode(t, func(c *node.Config) { c.Operator, cfg = "user:ada", *c })
	bob := e.issue(bus.NewToken{Name: "bob", Role: bus.RoleOperator})
	file := filepath.Join(cfg.Root, "a.txt")
	session, call := e.changedBy("user:eve", "user:eve", file)
	for _, id := range []events.TaskID{session, call} {
		status, out, answer := e.undo(bob, id, `{"dry_run":true}`)
		require.Equal(t, http.StatusOK, status, answer)
		assert.Equal(t, []string{file}, out.Removed, answer)
		assert.FileExists(t, file)
	}

	for name, token := range map[string]string{
		"whose it is":   e.issue(bus.NewToken{Name: "eve", Role: bus.RoleSubmitter}),
		"somebody else": e.issue(bus.NewToken{Name: "mallory", Role: bus.RoleSubmitter}),
		"a viewer":      e.issue(bus.NewToken{Name: "vi", Role: bus.RoleViewer}),
		"reads only":    e.issue(bus.NewToken{Name: "ro", Role: bus.RoleOperator, ReadOnly: true}),
	} {
		status, _, answer := e.undo(token, session, `{"dry_run":true}`)
		redrive, _, _ := e.request(http.MethodPost, "/api/v1/tasks/"+string(session)+"/redrive", token, "")
		assert.Equal(t, http.StatusForbidden, status, "%s: %s", name, answer)
		assert.Equal(t, redrive, status, "%s is told the same as of other acts", name)
	}
	status, _, answer := e.undo(bob, "TASK_01JD0000000000000000000009", `{"dry_run":true}`)
	assert.Equal(t, http.StatusNotFound, status, answer)

	status, out, answer := e.undo(bob, session, `{}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.True(t, out.Done)
	assert.NoFileExists(t, file)
}

// A call of an identity that sees only its own tasks undoes no session of others, and hears of none.
func TestUndoByWhoSeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	var cfg node.Config
	e := serveNode(t, func(c *node.Config) { c.Operator, cfg = "user:ada", *c })
	file := filepath.Join(cfg.Root, "a.txt")
	session, _ := e.changedBy("user:eve", "user:eve", file)
	preview := func(who, keysOf string) *api.ResultReply {
		reply, err := e.API().Submit(t.Context(), api.SubmitRequest{
			Plan:  fmt.Appendf(nil, `{"orch":"v1","steps":[{"id":"a","tool":"PROJECT_UNDO","with":{"session":%q,"dry_run":true}}]}`, session),
			Actor: who, KeysOf: keysOf,
		})
		require.NoError(t, err)
		r := result(t, e.API(), reply.ID)
		return &r
	}
	for _, who := range []string{"user:mallory", "agent:mallory"} {
		r := preview(who, who)
		require.NotNil(t, r.Error, who)
		assert.Contains(t, r.Error.Message, "there is no session", who)
	}
	require.NotNil(t, preview("agent:mallory", "").Error, "an agent sees only its own, whoever has submitted its task")
	assert.Nil(t, preview("user:eve", "user:eve").Error)
	assert.FileExists(t, file)
}
