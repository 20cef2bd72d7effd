package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
)

// leak is the error text of a system behind a tool. It must not leave the node: it contains internal words, a path, a trace.
const leak = "verbatim words of the system: open /srv/canary/rows.db: goroutine 7 [running]: main.go:42"

// leaky is a database whose every error contains leak.
type leaky struct{}

// Read implements firebase.Backend.
func (leaky) Read(context.Context, string, firebase.Query) (firebase.Snapshot, error) {
	return firebase.Snapshot{}, errors.New(leak)
}

// Write implements firebase.Backend.
func (leaky) Write(context.Context, string, firebase.Write) (firebase.Written, error) {
	return firebase.Written{}, errors.New(leak)
}

// Watch implements firebase.Backend.
func (leaky) Watch(context.Context, string, firebase.EventType) (firebase.Watching, error) {
	return firebase.Watching{}, errors.New(leak)
}

// dottedCalls are calls of the sixteen tools of the S3 rules: one that reaches the system behind the tool, and one that is wrong.
func dottedCalls() map[string][2]object {
	at := func(more object) object {
		in := object{"database": "firestore", "path": "rooms/a"}
		maps.Copy(in, more)
		return in
	}
	repo := func(more object) object {
		in := object{"owner": "o", "repo": "r"}
		maps.Copy(in, more)
		return in
	}
	outside := "../../srv/canary"
	return map[string][2]object{
		"firebase.read":            {at(nil), at(object{"path": outside})},
		"firebase.write":           {at(object{"data": 1}), at(object{"path": outside, "data": 1})},
		"firebase.subscribe":       {at(object{"subscriptionId": "s"}), at(object{"path": outside, "subscriptionId": "s"})},
		"firebase.unsubscribe":     {{"subscriptionId": "s"}, {}},
		"github.readFile":          {repo(object{"path": "f"}), repo(object{"path": outside})},
		"github.searchCode":        {{"query": "q"}, {"query": ""}},
		"github.createIssue":       {repo(object{"title": "t"}), repo(nil)},
		"github.createPR":          {repo(object{"title": "t", "head": "h", "base": "b"}), repo(nil)},
		"github.getWorkflowRuns":   {repo(nil), {"owner": outside, "repo": "r"}},
		"onboarding.getWelcome":    {{"agentName": "n", "role": "boss"}, {}},
		"onboarding.registerAgent": {{"agentInfo": object{"name": "op", "type": "analyst", "version": "1.0.0"}, "capabilities": []object{{"name": "a", "category": "b"}}}, {}},
		"onboarding.getChecklist":  {{"agentId": outside}, {}},
		"system.listSkills":        {{"limit": 0}, {"no": 1}},
		"system.getAgents":         {{"status": "none"}, {"no": 1}},
		"system.getTaskQueue":      {{"limit": 0}, {"no": 1}},
		"system.getSystemStatus":   {{"no": outside}, {"includeServices": "x"}},
	}
}

// S3-009: no error of the sixteen tools tells a trace, a path of the machine, a token or the words of another system. The
// log of the node has them.
func TestErrorsOfDottedToolsTellNothing(t *testing.T) {
	t.Parallel()
	need.Long(t)
	const token = "ghp_canaryOfTheTokenOfGitHub000000000000"
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		assert.NoError(t, json.NewEncoder(w).Encode(object{"message": leak + r.Header.Get("Authorization")}))
	}))
	t.Cleanup(github.Close)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	var dir string
	e := serveRPC(t, func(c *node.Config) {
		c.Realtime, c.Firestore, dir = leaky{}, leaky{}, c.DataDir
		c.Tools.GitHubURL, c.Tools.GitHubToken = github.URL, settings.Secret("file:"+file)
	})
	calls := dottedCalls()
	require.Len(t, calls, 16, "S3-001")
	t.Run("calls", func(t *testing.T) {
		for method, tries := range calls {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				caller := &endpoint{Node: e.Node, t: t, token: e.token, log: e.log}
				for _, params := range tries {
					for _, said := range caller.errorsOf(method, params) {
						for _, secret := range []string{"verbatim words", "/srv/", "goroutine", ".go:", token, e.token, file, dir, github.URL} {
							assert.NotContains(t, said, secret, "%v", params)
						}
					}
				}
			})
		}
	})
	assert.Contains(t, e.log.String(), "verbatim words", "the log of the node tells it all")
}

// errorsOf calls a method that must fail, approves it if necessary, and returns the errors as JSON.
func (e *endpoint) errorsOf(method string, params object) []string {
	e.t.Helper()
	r := e.call(method, params)
	require.NotNil(e.t, r.Error, "%v: %v", params, r.Result)
	delete(r.Error.Data, "value") // the input of the caller
	text, err := json.Marshal(r.Error)
	require.NoError(e.t, err)
	all := []string{string(text)}
	if approval := str(r.Error.Data["approval"]); approval != "" {
		_, err = e.API().Decide(e.t.Context(), api.DecideRequest{ID: approval, As: "granted", Actor: "user:bob"})
		require.NoError(e.t, err)
		_, err = e.API().Result(e.t.Context(), api.ResultRequest{ID: events.TaskID(str(r.Error.Data["task"])), Wait: time.Minute, Attend: true})
		require.NoError(e.t, err)
		end := e.call("orch_status", object{"task_id": r.Error.Data["task"]})
		require.Nil(e.t, end.Error)
		text, err = json.Marshal(end.Result)
		require.NoError(e.t, err)
		all = append(all, string(text))
	}
	return all
}
