package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// failed checks the code and the reason of an answer.
func failed(t *testing.T, r rpcReply, code fault.Code, reason string) {
	t.Helper()
	require.NotNil(t, r.Error, "%v", r.Result)
	assert.Equal(t, code.RPC(), r.Error.Code, "%v", r.Error)
	assert.Equal(t, string(code), r.Error.Data["name"])
	assert.Equal(t, reason, r.Error.Data["reason"])
}

// dead returns the address of a server that closes every connection. An unused port could be taken by another test.
func dead(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			assert.NoError(t, conn.Close())
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// refusing is a database that refuses everything, with the error that the last segment of the path names.
type refusing struct{}

func (refusing) why(at string) error { return refusal.New(path.Base(at), "the database says no") }

// Read implements firebase.Backend.
func (r refusing) Read(_ context.Context, at string, _ firebase.Query) (firebase.Snapshot, error) {
	return firebase.Snapshot{}, r.why(at)
}

// Write implements firebase.Backend.
func (r refusing) Write(_ context.Context, at string, _ firebase.Write) (firebase.Written, error) {
	return firebase.Written{}, r.why(at)
}

// Watch implements firebase.Backend.
func (r refusing) Watch(_ context.Context, at string, _ firebase.EventType) (firebase.Watching, error) {
	return firebase.Watching{}, r.why(at)
}

// S3-025, S3-035, S3-147 to S3-157: each error of a database reaches the client of /rpc under its number, with the name
// that the specification has for it.
func TestRPCErrorsOfDatabases(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Realtime, c.Firestore = refusing{}, refusing{} })
	for _, tc := range []struct {
		reason string
		code   fault.Code
	}{
		{refusal.PermissionDenied, fault.Forbidden},
		{refusal.NotFound, fault.NotFound},
		{refusal.InvalidPath, fault.InvalidFormat},
		{refusal.QuotaExceeded, fault.QuotaExceeded},
		{refusal.ConnectionError, fault.FirebaseError},
		{refusal.ValidationError, fault.ValidationError},
		{refusal.Conflict, fault.Conflict},
		{refusal.SizeLimitExceeded, fault.ValidationError},
		{refusal.InvalidDataType, fault.InvalidFormat},
	} {
		failed(t, e.call("firebase.read", object{"database": "realtime", "path": "a/" + tc.reason}), tc.code, tc.reason)
		failed(t, e.call("firebase.write", object{"database": "firestore", "path": "c/" + tc.reason, "data": object{"n": 1}}), tc.code, tc.reason)
	}
}

// S3-122, S3-157: a Realtime Database that cannot be reached is FIREBASE_ERROR for its callers, and degrades the node.
func TestDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Tools.Firebase.RealtimeURL = dead(t) })
	failed(t, e.call("firebase.read", object{"database": "realtime", "path": "a"}), fault.FirebaseError, refusal.ConnectionError)
	s := e.status()
	assert.Equal(t, "degraded", s["status"])
	services, _ := s["services"].(object)
	fire, _ := services["firebase"].(object)
	assert.Equal(t, "down", fire["status"])
	assert.InDelta(t, 1, fire["errors"], 0)
}

// S3-151, S3-158: an object that GitHub has deleted permanently is GONE; a GitHub that fails or is unreachable is GITHUB_ERROR.
func TestRPCErrorsOfGitHub(t *testing.T) {
	t.Parallel()
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(map[string]int{"gone": http.StatusGone, "fails": http.StatusBadGateway}[path.Base(r.URL.Path)])
		assert.NoError(t, json.NewEncoder(w).Encode(object{"message": "verbatim words of GitHub"}))
	}))
	t.Cleanup(github.Close)
	e := serveRPC(t, func(c *node.Config) { c.Tools.GitHubURL = github.URL })
	read := func(e *endpoint, file string) rpcReply {
		r := e.call("github.readFile", object{"owner": "o", "repo": "r", "path": file})
		require.NotNil(t, r.Error)
		assert.NotContains(t, r.Error.Message, "verbatim")
		return r
	}
	failed(t, read(e, "gone"), fault.Gone, "GONE")
	failed(t, read(e, "fails"), fault.GithubError, "GITHUB_ERROR")
	away := serveRPC(t, func(c *node.Config) { c.Tools.GitHubURL = dead(t) })
	failed(t, read(away, "any"), fault.GithubError, "CONNECTION_ERROR")
}

// S3-156: an identity at its limit of open tasks gets QUOTA_EXCEEDED until one of them has ended.
func TestRPCQuota(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Limits.MaxOpenEach = 1 })
	waits := e.call("test.asks", object{})
	failed(t, waits, fault.ApprovalRequired, "APPROVAL_REQUIRED")
	r := e.call("test.fail", object{})
	failed(t, r, fault.QuotaExceeded, "QUOTA_EXCEEDED")
	assert.Contains(t, r.Error.Data["suggestion"], "max_open_each")
	_, err := e.API().Decide(t.Context(), api.DecideRequest{ID: str(waits.Error.Data["approval"]), As: "rejected", Reason: "not now", Actor: "user:bob"})
	require.NoError(t, err)
	r = e.call("orch_result", object{"task_id": waits.Error.Data["task"], "wait_seconds": 50})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Nil(t, e.call("test.fail", object{}).Error)
}

func str(v any) string { s, _ := v.(string); return s }

// S3-068: an issue is a write to a server that nobody has allowed: nothing is sent before a person has approved it.
func TestRPCWriteToGitHubIsApproved(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http.MethodPost, r.Method)
		posts.Add(1)
		w.WriteHeader(http.StatusCreated)
		assert.NoError(t, json.NewEncoder(w).Encode(object{"number": 7, "id": 9, "html_url": "https://github.example/o/r/issues/7", "state": "open"}))
	}))
	t.Cleanup(github.Close)
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("ghp_1"), 0o600))
	e := serveRPC(t, func(c *node.Config) {
		c.Tools.GitHubURL, c.Tools.GitHubToken = github.URL, settings.Secret("file:"+secret)
	})
	r := e.call("github.createIssue", object{"owner": "o", "repo": "r", "title": "It fails"})
	require.NotNil(t, r.Error)
	approval := str(r.Error.Data["approval"])
	failed(t, r, fault.ApprovalRequired, "APPROVAL_REQUIRED")
	assert.Zero(t, posts.Load(), "nobody has approved it")
	_, err := e.API().Decide(t.Context(), api.DecideRequest{ID: approval, As: "granted", Actor: "user:bob"})
	require.NoError(t, err)
	r = e.call("orch_result", object{"task_id": r.Error.Data["task"], "wait_seconds": 50})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, object{"result": object{"number": 7.0, "id": 9.0, "url": "https://github.example/o/r/issues/7", "state": "open"}}, r.Result["output"])
	assert.EqualValues(t, 1, posts.Load())
}

// S3-122: a server of tools that does not start degrades the node, until somebody switches it off.
func TestSystemStatusOfAServerThatFails(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) {
		home := t.TempDir()
		put(t, filepath.Join(home, ".orch", "mcp", "wiki.json"), `{"schemaVersion":"1.0.0","name":"wiki","transport":"stdio","command":"no-such-program","capabilities":["tools"]}`)
		c.Faces.Servers = node.Servers{Home: home, Still: true, Connect: gateway.AtOnce, Getenv: func(string) string { return "" }}
	})
	server := func(s object) (one object) {
		parts, _ := s["dependencies"].(object)
		list, _ := parts["servers"].([]any)
		require.Len(t, list, 1, "%v", s)
		one, _ = list[0].(object)
		return one
	}
	s := e.status()
	assert.Equal(t, "degraded", s["status"])
	assert.Equal(t, object{"name": "wiki", "status": "down"}, server(s))
	alerts, _ := s["alerts"].([]any)
	require.Len(t, alerts, 1)
	alert, _ := alerts[0].(object)
	assert.Equal(t, "warning", alert["level"])
	assert.Contains(t, alert["message"], "wiki is down")
	assert.NotContains(t, alert["message"], "no-such-program", "that is for the operator")
	_, err := node.NewAdmin(e.Node).Disable(t.Context(), "wiki")
	require.NoError(t, err)
	s = e.status()
	assert.Equal(t, "healthy", s["status"], "%v", s)
	assert.Equal(t, object{"name": "wiki", "status": "off"}, server(s))
}
