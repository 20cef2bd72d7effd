package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
)

// writing returns a session at a face with a setting for writes in the project.
func (n *node) writing(t *testing.T, mode, token string) caller {
	t.Helper()
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Consent.Writes = namedTokens{}, mode }))
	w.token = token
	w.open()
	return func(tool, args string) string {
		return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)).body
	}
}

// namedTokens are tokens whose agents are named like those of a node.
type namedTokens struct{}

// Verify implements server.Tokens.
func (namedTokens) Verify(ctx context.Context, token string) (server.Identity, time.Time, error) {
	who, until, err := tokens{}.Verify(ctx, token)
	if name, ok := strings.CutSuffix(token, ".agent"); ok {
		who.Name = "agent:" + name
	}
	return who, until, err
}

// grant grants what a call has asked, with additional grants for its session.
func (n *node) grant(answer string, opens ...string) {
	n.t.Helper()
	id := regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)
	require.NotEmpty(n.t, id, answer)
	_, err := n.owner.Decide(n.t.Context(), api.DecideRequest{ID: id, As: "granted", Opens: opens, Actor: "user:eve"})
	require.NoError(n.t, err)
}

func fileWrite(path string) string { return fmt.Sprintf(`{"file_path":%q,"content":"x"}`, path) }

func bash(command string) string {
	return fmt.Sprintf(`{"command":%q}`, command)
}

// A grant for a session, for a path or the project, is not asked again in it, for files or for commands.
func TestGrantsForTheSession(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	require.NoError(t, os.Mkdir(filepath.Join(n.root, "src"), 0o700))
	call := n.writing(t, "ask", "ada.operator")
	first := call("FILE_WRITE", fileWrite(filepath.Join(n.root, "src", "a.txt")))
	require.Contains(t, first, "APPROVAL_REQUIRED")
	n.grant(first, "path "+filepath.Join(n.root, "src", "a.txt"))
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, "src", "a.txt"))), `"bytes_written":1`)
	command := call("BASH_EXECUTE", bash("echo y > src/b.txt"))
	require.Contains(t, command, "APPROVAL_REQUIRED", "another path")
	n.grant(command, "path "+n.root)
	assert.Contains(t, call("BASH_EXECUTE", bash("echo z > src/c.txt; pwd")), n.root+`\n`)
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, "d.txt"))), `"bytes_written":1`)
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, ".git", "config"))), "PROTECTED_PATH")
	assert.Contains(t, n.writing(t, "ask", "ada.operator")("FILE_WRITE", fileWrite(filepath.Join(n.root, "e.txt"))), "APPROVAL_REQUIRED", "another session")
}

// A session that may write after one question asks once; one that need not ask does not, unless its identity may not decide.
func TestHowASessionWrites(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	once := n.writing(t, "session", "ada.operator")
	asked := once("BASH_EXECUTE", bash("echo 1 > one.txt"))
	require.Contains(t, asked, "APPROVAL_REQUIRED")
	n.grant(asked)
	assert.Contains(t, once("BASH_EXECUTE", bash("echo 2 > two.txt")), `"exit_code":0`)
	assert.Contains(t, once("FILE_WRITE", fileWrite(filepath.Join(n.root, "three.txt"))), `"bytes_written":1`)
	free := n.writing(t, "allow", "ada.operator")
	assert.Contains(t, free("FILE_WRITE", fileWrite(filepath.Join(n.root, "four.txt"))), `"bytes_written":1`)
	assert.Contains(t, free("BASH_EXECUTE", bash("rm -rf /etc/nothing")), "APPROVAL_REQUIRED", "what lies elsewhere is asked for")
	agent := n.writing(t, "allow", "bot.agent")
	assert.Contains(t, agent("FILE_WRITE", fileWrite(filepath.Join(n.root, "five.txt"))), "APPROVAL_REQUIRED")
}

// asked returns the approval that an answer names.
func (n *node) asked(answer string) api.ApprovalView {
	n.t.Helper()
	require.Contains(n.t, answer, "APPROVAL_REQUIRED")
	r := api.ApprovalsRequest{ID: regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)}
	all, err := n.owner.Approvals(n.t.Context(), r)
	require.NoError(n.t, err)
	return all.Approvals[0]
}

// A program granted to a session is not asked about again in it while the program is unchanged.
func TestAProgramForTheSession(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	script := filepath.Join(n.root, "score.sh")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho scored $1\n"), 0o700))
	call := n.writing(t, "ask", "ada.operator")
	first := call("BASH_EXECUTE", bash("./score.sh a"))
	offers := n.asked(first).Offers
	require.Len(t, offers, 1)
	require.Regexp(t, "^program "+regexp.QuoteMeta(script)+" sha256:[0-9a-f]{64}$", offers[0])
	n.grant(first, offers[0])
	assert.Contains(t, call("BASH_EXECUTE", bash("./score.sh b")), `scored b`)
	assert.Contains(t, call("BASH_EXECUTE", bash("sh score.sh c")), `scored c`)
	assert.Contains(t, call("BASH_EXECUTE", bash("./score.sh d; ./other.sh")), "APPROVAL_REQUIRED")
	changed := script + ".new" // a program that runs, or is about to, cannot be written to
	require.NoError(t, os.WriteFile(changed, []byte("#!/bin/sh\necho changed\n"), 0o700))
	require.NoError(t, os.Rename(changed, script))
	assert.Contains(t, n.asked(call("BASH_EXECUTE", bash("./score.sh b"))).Rationale, "has changed since it was granted to the session")
	free := n.writing(t, "allow", "ada.operator")("BASH_EXECUTE", bash("./score.sh b"))
	assert.Empty(t, n.asked(free).Offers, "the session may change it")
}

// A permanent grant is not asked again in any session of the same person until it is revoked.
// It is valid for nobody else, and not for the root as a whole.
func TestGrantsForGood(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	script := filepath.Join(n.root, "score.sh")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho scored $1\n"), 0o700))
	first := n.writing(t, "ask", "ada.operator")("BASH_EXECUTE", bash("./score.sh a"))
	lasting := n.asked(first).Lasting
	require.Len(t, lasting, 1)
	n.decide(api.DecideRequest{ID: n.asked(first).ID, As: "granted", Always: lasting, Actor: "user:eve"})
	write := n.writing(t, "ask", "ada.operator")("FILE_WRITE", fileWrite(filepath.Join(n.root, "a.txt")))
	assert.Equal(t, []string{"path " + filepath.Join(n.root, "a.txt")}, n.asked(write).Lasting, "not the root")
	n.decide(api.DecideRequest{ID: n.asked(write).ID, As: "granted", Always: n.asked(write).Lasting, Actor: "user:eve"})

	call := n.writing(t, "ask", "ada.operator")
	assert.Contains(t, call("BASH_EXECUTE", bash("./score.sh b")), "scored b")
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, "a.txt"))), `"bytes_written":1`)
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, "b.txt"))), "APPROVAL_REQUIRED", "another path")
	assert.Contains(t, n.writing(t, "ask", "bob.operator")("BASH_EXECUTE", bash("./score.sh b")), "APPROVAL_REQUIRED", "another person")
	assert.Empty(t, n.asked(n.writing(t, "ask", "bot.agent")("BASH_EXECUTE", bash("./score.sh b"))).Lasting, "an agent")

	list, err := n.owner.List(t.Context(), api.ListRequest{Name: api.GrantsName})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 1)
	_, err = n.owner.Cancel(t.Context(), api.CancelRequest{ID: list.Tasks[0].ID})
	require.ErrorContains(t, err, "keeps what is granted")
	kept, err := n.owner.Approvals(t.Context(), api.ApprovalsRequest{Task: list.Tasks[0].ID, All: true})
	require.NoError(t, err)
	require.Len(t, kept.Approvals, 2)
	for _, a := range kept.Approvals {
		n.decide(api.DecideRequest{ID: a.ID, As: "revoked", Actor: "user:eve"})
	}
	assert.Contains(t, call("BASH_EXECUTE", bash("./score.sh b")), "APPROVAL_REQUIRED", "revoked")
	assert.Contains(t, call("FILE_WRITE", fileWrite(filepath.Join(n.root, "a.txt"))), "APPROVAL_REQUIRED", "revoked")
}

// decide decides about an approval.
func (n *node) decide(r api.DecideRequest) {
	n.t.Helper()
	_, err := n.owner.Decide(n.t.Context(), r)
	require.NoError(n.t, err)
}

// Nothing is opened that an approval does not offer.
func TestOnlyWhatIsOfferedIsOpened(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	answer := n.writing(t, "ask", "ada.operator")("FILE_WRITE", fileWrite(filepath.Join(n.root, "a.txt")))
	id := regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)
	_, err := n.owner.Decide(t.Context(), api.DecideRequest{ID: id, As: "granted", Opens: []string{"path /"}, Actor: "user:eve"})
	require.ErrorContains(t, err, "does not offer")
	_, err = n.owner.Decide(t.Context(), api.DecideRequest{ID: id, As: "granted", Always: []string{"path " + n.root}, Actor: "user:eve"})
	require.ErrorContains(t, err, "does not offer")
	_, err = n.owner.Decide(t.Context(), api.DecideRequest{ID: id, As: "revoked", Actor: "user:eve"})
	require.ErrorContains(t, err, "opens nothing")
}

// What programs of a session make and git or orch would obey is set aside, also below the root; plain repositories are not.
func TestWhatWouldBeObeyedIsSetAside(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	require.NoError(t, os.WriteFile(filepath.Join(n.root, "Makefile"), []byte("evil: ; mkdir -p $(AT) && printf '[core]\\nfsmonitor=x\\n' > $(AT)/config\nbare: ; mkdir -p x/objects x/refs .orch && touch x/HEAD && printf '[core]\\nbare=true\\nworktree=.\\n' > x/config\nplain: ; mkdir -p $(AT) && printf '[core]\\nbare=false\\n' > $(AT)/config\n"), 0o600))
	call := n.writing(t, "allow", "ada.operator")
	for _, at := range []string{".orch", ".git", "deep/sub/.git"} {
		answer := call("BASH_EXECUTE", bash("make evil AT="+at))
		assert.Contains(t, answer, "PROTECTED_PATH")
		assert.Contains(t, answer, "set-aside-")
		assert.NoDirExists(t, filepath.Join(n.root, at))
	}
	assert.Contains(t, call("BASH_EXECUTE", bash("make bare")), "PROTECTED_PATH")
	assert.NoFileExists(t, filepath.Join(n.root, "x", "config"))
	assert.NoDirExists(t, filepath.Join(n.root, ".orch"), "each of them")
	assert.Contains(t, call("BASH_EXECUTE", bash("make plain AT=other/.git")), `"exit_code":0`)
	assert.DirExists(t, filepath.Join(n.root, "other", ".git"))
	assert.Contains(t, call("BASH_EXECUTE", bash("git init -q")), `"exit_code":0`)
	assert.DirExists(t, filepath.Join(n.root, ".git"))
}

// Changes of a session in the project, by files and by commands, are in the log and are undone when a person permits it.
func TestUndoOverMCP(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	file := filepath.Join(n.root, "a.txt")
	require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
	call := n.writing(t, "allow", "ada.operator")
	assert.Contains(t, call("FILE_READ", fmt.Sprintf(`{"file_path":%q}`, file)), "one")
	assert.Contains(t, call("FILE_EDIT", fmt.Sprintf(`{"file_path":%q,"old_string":"one","new_string":"two"}`, file)), `"replacements":1`)
	assert.Contains(t, call("BASH_EXECUTE", bash("echo three >> a.txt; echo new > new.txt")), `"exit_code":0`)
	got, err := n.owner.List(t.Context(), api.ListRequest{Name: "BASH_EXECUTE"})
	require.NoError(t, err)
	history, err := n.owner.History(t.Context(), api.HistoryRequest{ID: got.Tasks[0].ID})
	require.NoError(t, err)
	text := string(mustMarshal(t, history))
	assert.Contains(t, text, "file.changed")
	looked := call("PROJECT_UNDO", `{"dry_run":true}`)
	assert.Contains(t, looked, `"preview":true`, "a look needs no approval")
	assert.FileExists(t, filepath.Join(n.root, "new.txt"))
	for _, args := range []string{`{"dry_run":false}`, `{"dry_run":true,"dry_run":false}`, `{"DRY_RUN":true}`, `{"dry_run":"true"}`, `{"dry_run":1}`, `{"dry_run":null}`} {
		assert.NotContains(t, call("PROJECT_UNDO", args), `"restored"`, args)
	}
	asked := call("PROJECT_UNDO", `{}`)
	require.Contains(t, asked, "APPROVAL_REQUIRED")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotEqual(t, "one", string(data), "nobody has approved it")
	n.grant(asked)
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && string(data) == "one"
	}, time.Minute, 5*time.Millisecond)
	assert.NoFileExists(t, filepath.Join(n.root, "new.txt"))
	assert.Contains(t, n.writing(t, "allow", "ada.operator")("FILE_WRITE", fileWrite(filepath.Join(n.root, "Working", ".undo", "git", "config"))), "NOT_FOUND", "it is not there for calls")
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}
