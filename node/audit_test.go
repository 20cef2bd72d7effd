package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// actsOf returns the acts that a filter selects, and checks the whole chain.
func actsOf(t *testing.T, n api.API, f audit.Filter) []audit.View {
	t.Helper()
	reply, err := n.Audit(t.Context(), api.AuditRequest{Filter: f, Limit: api.MaxActs})
	require.NoError(t, err)
	raw, err := n.AuditEntries(t.Context(), api.AuditEntriesRequest{})
	require.NoError(t, err)
	_, err = audit.Check(raw.Anchor, raw.Entries)
	require.NoError(t, err)
	return reply.Acts
}

// requests are a request for each method of the API that changes something, and the act that it leaves; empty for none.
func requests() map[string]struct{ body, act string } {
	return map[string]struct{ body, act string }{
		"submit":            {`{"plan":{"orch":"v1","steps":[{"id":"a","tool":"NOTHING"}]}}`, "tool.call"},
		"submit_batch":      {`{"tasks":[{"plan":{"orch":"v1","steps":[]}}]}`, "task.submit"},
		"call":              {`{"id":"$ID","tool":"FILE_READ","args":{"file_path":7}}`, "tool.call"},
		"cancel":            {`{"id":"$ID","reason":"enough"}`, "task.cancel"},
		"pause":             {`{"node":true}`, "node.pause"},
		"resume":            {`{"node":true}`, "node.resume"},
		"retry":             {`{"id":"$ID"}`, "task.retry"},
		"redrive":           {`{"id":"$ID"}`, "task.redrive"},
		"fork":              {`{"id":"$ID"}`, "task.fork"},
		"signal":            {`{"id":"$ID","name":"go","data":{"x":1}}`, "task.signal"},
		"say":               {`{"id":"$ID","text":"hello"}`, "task.say"},
		"resolve":           {`{"id":"$ID","step":"a","as":"retry"}`, "task.resolve"},
		"checkpoint":        {`{"task":"$ID","name":"here"}`, "checkpoint.create"},
		"decide":            {`{"id":"APPR_1","as":"granted"}`, "approval.grant"},
		"answer":            {`{"question":"Q_1","response":{}}`, "question.answer"},
		"archive":           {`{"age":1000000000}`, "task.archive"},
		"export":            {`{"ids":["$ID"]}`, "task.export"},
		"import":            {`{"file":"f","data":"eA==","size":1}`, "task.import"},
		"place_hold":        {`{"ids":["$ID"],"reason":"a case"}`, "hold.place"},
		"release_hold":      {`{"ids":["$ID"]}`, "hold.release"},
		"finalize_store":    {`{}`, "store.finalize"},
		"put_schedule":      {`{"name":"nightly","definition":{"cron":["@daily"],"plan":{"orch":"v1","steps":[{"id":"a","set":{"x":1}}]}}}`, "schedule.put"},
		"put_hook":          {`{"name":"push","secret":"0123456789abcdef0123456789abcdef","definition":{"scheme":"github","plan":{"orch":"v1","steps":[{"id":"a","set":{"x":1}}]}}}`, "hook.put"},
		"steer_hook":        {`{"name":"push","act":"pause"}`, "hook.pause"},
		"put_destination":   {`{"name":"pager","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","definition":{"url":"https://example.com/orch"}}`, "destination.put"},
		"steer_destination": {`{"name":"pager","act":"pause"}`, "destination.pause"},
		"steer_schedule":    {`{"name":"nightly","act":"pause"}`, "schedule.pause"},
	}
}

// Each method of the API that changes something leaves one act, done or refused, and one that reads leaves none. A new method cannot
// be forgotten: it has to say what it does, and stand in the list of requests.
func TestEveryMethodLeavesItsAct(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	owner := n.API()
	id := submit(t, owner, "orch: v1\nsteps: [{id: a, wait: {signal: nothing}}]\n")
	list := requests()
	for _, h := range api.Handlers(owner) {
		require.NotZero(t, h.Effect, "%s has to say what it does: reads, works, steers or administers", h.Name)
		r, changes := list[h.Name]
		assert.Equal(t, h.Effect != api.Reads, changes, h.Name)
		body := r.body
		if !changes {
			body = `{}`
		}
		if h.Parked {
			continue
		}
		before := actsOf(t, owner, audit.Filter{})
		_, err := h.Handle(t.Context(), func(in any) error {
			return json.Unmarshal([]byte(os.Expand(body, func(string) string { return string(id) })), in)
		})
		after := actsOf(t, owner, audit.Filter{})
		if r.act == "" {
			assert.Len(t, after, len(before), h.Name)
			continue
		}
		require.Len(t, after, len(before)+1, h.Name)
		act := after[len(after)-1]
		assert.Equal(t, r.act, act.Name, h.Name)
		assert.Equal(t, audit.FaceProcess, act.Face, h.Name)
		if err == nil && h.Effect != api.Works {
			assert.Equal(t, audit.Done, act.Outcome, h.Name)
		} else {
			assert.Contains(t, []audit.Outcome{audit.Refused, audit.Failed}, act.Outcome, h.Name)
		}
	}
	assert.Contains(t, []audit.Outcome{audit.Done}, actsOf(t, owner, audit.Filter{Name: "schedule.put"})[0].Outcome)
}

// An act on a task names a revision of its history, with the digest of its commit.
func TestActsAreLinkedToTheLogOfTasks(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	id := submit(t, n.API(), "orch: v1\nsteps: [{id: a, wait: {signal: go}}]\n")
	_, err := n.API().Cancel(t.Context(), api.CancelRequest{ID: id, Actor: "user:ada", Reason: "enough"})
	require.NoError(t, err)
	acts := actsOf(t, n.API(), audit.Filter{Target: string(id)})
	require.Len(t, acts, 1)
	assert.Equal(t, "user:ada", acts[0].Actor)
	require.NotNil(t, acts[0].Task)
	h, err := n.API().History(t.Context(), api.HistoryRequest{ID: id, From: acts[0].Task.Rev, Limit: 1})
	require.NoError(t, err)
	assert.Equal(t, h.Commits[0].Hash, acts[0].Task.Hash)
	again, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id, Actor: "user:ada"})
	require.NoError(t, err)
	retried := actsOf(t, n.API(), audit.Filter{Name: "task.retry"})
	require.Len(t, retried, 1)
	assert.Equal(t, string(id), retried[0].Target)
	assert.Equal(t, again.ID, retried[0].Task.ID)
	assert.NotEmpty(t, retried[0].Task.Hash)
}

// An undo is an act, although it is a submission.
func TestAnUndoIsAnAct(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	session := events.NewTaskID(time.Now())
	plan := json.RawMessage(`{"orch":"v1","steps":[{"id":"a","set":{"x":1}}]}`)
	reply, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: plan, Actor: "user:ada", Undoes: session})
	require.NoError(t, err)
	acts := actsOf(t, n.API(), audit.Filter{})
	require.Len(t, acts, 1)
	assert.Equal(t, "task.undo", acts[0].Name)
	assert.Equal(t, string(session), acts[0].Target)
	assert.Equal(t, reply.ID, acts[0].Task.ID)
}

// An entry that somebody adds beside the node breaks the chain, and later ones do not hide that.
func TestForgedEntries(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	pause := func(queue string) {
		_, err := n.API().Pause(t.Context(), api.PauseRequest{Queue: queue, Actor: "user:ada"})
		require.NoError(t, err)
	}
	pause("a")
	require.Len(t, actsOf(t, n.API(), audit.Filter{}), 1)
	j, err := n.Store().OpenJournal(t.Context(), bus.AuditJournal)
	require.NoError(t, err)
	_, err = j.Append(t.Context(), 2, []byte(`{"n":3,"prev":"x","at":"2026-11-29T00:00:00Z","actor":"user:bob","face":"bus","act":"token.create","outcome":"done"}`))
	require.NoError(t, err)
	pause("b")
	raw, err := n.API().AuditEntries(t.Context(), api.AuditEntriesRequest{})
	require.NoError(t, err)
	require.Len(t, raw.Entries, 5)
	_, err = audit.Check(raw.Anchor, raw.Entries)
	require.ErrorContains(t, err, "entry 3 does not continue the chain")
}

// Plain work leaves no entries: the log of the tasks has it.
func TestWorkLeavesNoEntries(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	run(t, n.API(), "orch: v1\nsteps: [{id: a, tool: LOG_WRITE, with: {level: INFO, message: x}}]\n")
	assert.Empty(t, actsOf(t, n.API(), audit.Filter{}))
	exists, err := n.Store().HasJournal(t.Context(), bus.AuditJournal)
	require.NoError(t, err)
	assert.False(t, exists)
}

// What the operator does beside the API leaves one act each, over the bus and in the process.
func TestAdministrativeActs(t *testing.T) {
	t.Parallel()
	n, remote := operate(t, func(c *node.Config) { c.Faces.HTTP = "127.0.0.1:0" })
	me := person(t)
	faces := map[string]struct {
		tokens bus.TokenStore
		agents agents.Service
		asker  node.Asker
		backup func(ctx context.Context, file string, cfg bus.BackupConfig) (bus.Manifest, error)
	}{
		audit.FaceBus:     {remote, remote, remote, remote.Backup},
		audit.FaceProcess: {n.TokenStore(), n.Agents(), n, n.Backup},
	}
	for face, f := range faces {
		admin := node.NewAdmin(f.asker).As(me)
		token, secret, err := bus.IssueToken(t.Context(), f.tokens, bus.NewToken{Name: "bob", Role: bus.RoleViewer, Actor: me})
		require.NoError(t, err)
		_, _, err = bus.IssueToken(t.Context(), f.tokens, bus.NewToken{Name: "bob", Role: bus.RoleViewer, Actor: me})
		require.Error(t, err)
		_, err = f.tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "bob", Actor: me})
		require.NoError(t, err)
		_, err = f.agents.Register(t.Context(), agents.Registration{Name: "!", By: me})
		require.Error(t, err)
		_, err = f.agents.Remove(t.Context(), agents.Removal{Agent: "nobody", By: me})
		require.Error(t, err)
		_, err = admin.Accept(t.Context(), node.Acceptance{Server: "wiki", Tools: map[string]string{"search": "abc"}, By: me})
		require.Error(t, err)
		_, err = f.backup(t.Context(), filepath.Join(t.TempDir(), "b"), bus.BackupConfig{Version: "test"})
		require.NoError(t, err)
		var got []string
		for _, a := range actsOf(t, n.API(), audit.Filter{Actor: me}) {
			if a.Name == "mcp.accept" || a.Face == face {
				got = append(got, a.Name+" "+a.Target+" "+string(a.Outcome))
			}
		}
		assert.Subset(t, got, []string{
			"token.create " + token.ID + " done", "token.create bob refused", "token.revoke " + token.ID + " done",
			"agent.register ! refused", "agent.remove nobody refused", "mcp.accept wiki refused", "backup.take  done",
		}, face)
		assert.NotContains(t, entriesText(t, n.API()), secret)
	}
	var link node.Link
	require.NoError(t, remote.Ask(t.Context(), node.LinkMethod, node.LinkRequest{Role: "viewer"}, &link))
	links := actsOf(t, n.API(), audit.Filter{Name: "page.link"})
	require.Len(t, links, 1)
	assert.Equal(t, map[string]string{"role": "viewer"}, links[0].Params)
	assert.Equal(t, audit.CredentialOperator, links[0].Credential)
}

// entriesText returns all entries as they are stored.
func entriesText(t *testing.T, n api.API) string {
	t.Helper()
	raw, err := n.AuditEntries(t.Context(), api.AuditEntriesRequest{})
	require.NoError(t, err)
	text, err := json.Marshal(raw.Entries)
	require.NoError(t, err)
	return string(text)
}

// Whoever is refused at a face is in the stream, with what is known about the client.
func TestRefusedActsAtEachFace(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	agent, viewer := e.issue(bus.NewToken{Name: "bot", Role: bus.RoleAgent}), e.issue(bus.NewToken{Name: "eye", Role: bus.RoleViewer})
	id := submit(t, e.API(), "orch: v1\nsteps: [{id: a, wait: {signal: go}}]\n")
	for _, c := range []struct {
		verb, path, token, body string
		status                  int
		want                    audit.View
	}{
		{"POST", "/api/v1/pause", viewer, `{"node":true}`, 403, view("user:eye", "http.pause", fault.Forbidden)},
		{"GET", "/api/v1/audit", agent, "", 403, view("agent:bot", "http.audit", fault.Forbidden)},
		{"POST", "/api/v1/tasks/" + string(id) + "/cancel", agent, `{}`, 404, view("agent:bot", "http.cancel", fault.NotFound)},
		{"POST", "/api/v1/tasks/" + string(id) + "/cancel", e.token, `{"reason":7}`, 400, view("user:op", "http.cancel", fault.ValidationError)},
		{"POST", "/api/v1/schedules/none/pause", e.token, `{}`, 404, view("user:op", "schedule.pause", fault.NotFound)},
		{"GET", "/api/v1/status", "orch_wrong", "", 401, view("unknown", "authenticate", fault.Unauthorized)},
	} {
		status, answer, _ := e.request(c.verb, c.path, c.token, c.body)
		require.Equal(t, c.status, status, answer)
		acts := actsOf(t, e.API(), audit.Filter{Actor: c.want.Actor, Name: c.want.Name})
		require.NotEmpty(t, acts, "%s %s", c.want.Actor, c.want.Name)
		last := acts[len(acts)-1]
		assert.Equal(t, audit.Refused, last.Outcome)
		assert.Equal(t, c.want.Error.Code, last.Error.Code, c.path)
		assert.Equal(t, audit.FaceHTTP, last.Face)
		assert.Equal(t, "127.0.0.1", last.Source)
		if last.Actor != "unknown" {
			assert.Regexp(t, "^TOK_", last.Credential)
		}
	}
	e.token = "orch_wrong"
	require.Equal(t, http.StatusUnauthorized, e.call("LOG_WRITE", object{}).Status)
	assert.NotContains(t, entriesText(t, e.API()), "orch_wrong")
}

func view(actor, name string, code fault.Code) audit.View {
	return audit.View{Act: audit.Act{Actor: actor, Name: name}, Error: &audit.Problem{Code: code}}
}

// A client that claims to be somebody else, and a connection without a valid credential, are in the stream.
func TestRefusedOnTheBus(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, remote.Close()) }()
	_, err = remote.Cancel(t.Context(), api.CancelRequest{ID: events.NewTaskID(time.Now()), Actor: "user:somebody-else"})
	require.True(t, fault.Has(err, fault.Forbidden), "%v", err)
	acts := actsOf(t, n.API(), audit.Filter{Name: "bus.cancel"})
	require.Len(t, acts, 1)
	assert.Equal(t, person(t), acts[0].Actor, "who it is, and not who it claims to be")
	assert.Equal(t, "IDENTITY_MISMATCH", acts[0].Error.Reason)
	_, err = bus.Dial(t.Context(), bus.DialConfig{URL: n.Address(), User: bus.OperatorUser, Password: "wrong"})
	require.Error(t, err)
	assert.NotEmpty(t, actsOf(t, n.API(), audit.Filter{Name: "authenticate"}))
}

// What a command does to files while no node runs is recorded by the next node, once.
func TestActsOnFiles(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	whole := node.NewFileAct("store.salvage", "", map[string]string{"why": "test"})
	whole.Actor, whole.Begun = "user:ada", true
	require.NoError(t, node.AppendFileAct(cfg.DataDir, whole))
	whole.Begun, whole.Error = false, fault.New(fault.Conflict, "a node runs")
	require.NoError(t, node.AppendFileAct(cfg.DataDir, whole))
	killed := node.NewFileAct("mcp.login", "wiki", nil)
	killed.Actor, killed.Begun = "user:ada", true
	require.NoError(t, node.AppendFileAct(cfg.DataDir, killed))
	pending := filepath.Join(cfg.DataDir, "audit.pending")
	noted, err := os.ReadFile(pending)
	require.NoError(t, err)
	for range 2 { // the second time as if the first start had ended before it removed the file
		require.NoError(t, os.WriteFile(pending, append(noted, `{"id":"cut off`...), 0o600))
		n := start(t, cfg)
		acts := actsOf(t, n.API(), audit.Filter{})
		require.Len(t, acts, 2)
		assert.Equal(t, audit.Refused, acts[0].Outcome)
		assert.Equal(t, "user:ada", acts[0].Actor)
		assert.Equal(t, audit.FaceFiles, acts[0].Face)
		assert.Equal(t, audit.Unknown, acts[1].Outcome)
		assert.NoFileExists(t, pending)
		require.NoError(t, n.Stop(t.Context()))
	}
}

// A change of the policy file is an act of whoever starts the node, and no change is none.
func TestPolicyChangesAreActs(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	count := func(policy string) int {
		cfg.Confinement.Policy = policy
		n := start(t, cfg)
		defer func() { require.NoError(t, n.Stop(t.Context())) }()
		return len(actsOf(t, n.API(), audit.Filter{Name: "policy.load"}))
	}
	assert.Equal(t, 0, count(""))
	write("version: 1\ndefault: allow\n")
	assert.Equal(t, 1, count(file))
	assert.Equal(t, 1, count(file))
	write("version: 1\ndefault: ask\n")
	assert.Equal(t, 2, count(file))
	assert.Equal(t, 3, count(""))
}

// An act over HTTP and over MCP has the credential and the address of the client.
func TestActsHaveTheirCredential(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for _, c := range []struct {
		face   string
		cancel func(id events.TaskID)
	}{
		{audit.FaceHTTP, func(id events.TaskID) {
			status, answer, _ := e.request("POST", "/api/v1/tasks/"+string(id)+"/cancel", e.token, `{}`)
			require.Equal(t, http.StatusOK, status, answer)
		}},
		{audit.FaceMCP, func(id events.TaskID) { require.Nil(t, e.call("orch_cancel", object{"task_id": id}).Error) }},
	} {
		id := submit(t, e.API(), "orch: v1\nsteps: [{id: a, wait: {signal: go}}]\n")
		c.cancel(id)
		acts := actsOf(t, e.API(), audit.Filter{Target: string(id)})
		require.Len(t, acts, 1, c.face)
		assert.Equal(t, "user:op", acts[0].Actor, c.face)
		assert.Equal(t, "task.cancel", acts[0].Name, c.face)
		assert.Equal(t, c.face, acts[0].Face)
		assert.Regexp(t, "^TOK_", acts[0].Credential, c.face)
		assert.Equal(t, "127.0.0.1", acts[0].Source, c.face)
		assert.Equal(t, audit.Done, acts[0].Outcome, c.face)
	}
}
