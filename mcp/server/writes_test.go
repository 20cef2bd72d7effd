package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/orchestrator"
)

// writing is a session whose face has a setting for what it writes in the project.
func (n *node) writing(t *testing.T, mode, token string) caller {
	t.Helper()
	w := n.web(t, n.face(func(c *server.Config) { c.Tokens, c.Writes = tokens{}, mode }))
	w.token = token
	w.open()
	return func(tool, args string) string {
		return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)).body
	}
}

// grant grants what a call has asked, and opens something for its session.
func (n *node) grant(answer string, opens ...string) {
	n.t.Helper()
	id := regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)
	require.NotEmpty(n.t, id, answer)
	_, err := n.owner.Decide(n.t.Context(), orchestrator.DecideRequest{ID: id, As: "granted", Opens: opens, Actor: "user:eve"})
	require.NoError(n.t, err)
}

func fileWrite(path string) string { return fmt.Sprintf(`{"file_path":%q,"content":"x"}`, path) }

func bash(command string) string {
	return fmt.Sprintf(`{"command":%q}`, command)
}

// What somebody grants for a session, a path or the project, is not asked again in it, by files or by commands.
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

// A session that writes after one question asks once; one that need not ask does not, unless it belongs to who decides nothing.
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

// asked is the approval for which an answer says that a call waits.
func (n *node) asked(answer string) orchestrator.ApprovalView {
	n.t.Helper()
	require.Contains(n.t, answer, "APPROVAL_REQUIRED")
	r := orchestrator.ApprovalsRequest{ID: regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)}
	all, err := n.owner.Approvals(n.t.Context(), r)
	require.NoError(n.t, err)
	return all.Approvals[0]
}

// A program that is granted to a session is not asked about again in it, as long as it stays what it was.
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
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho changed\n"), 0o700))
	assert.Contains(t, n.asked(call("BASH_EXECUTE", bash("./score.sh b"))).Rationale, "has changed since it was granted to the session")
	free := n.writing(t, "allow", "ada.operator")("BASH_EXECUTE", bash("./score.sh b"))
	assert.Empty(t, n.asked(free).Offers, "the session may change it")
}

// Nothing is opened that an approval does not offer.
func TestOnlyWhatIsOfferedIsOpened(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	answer := n.writing(t, "ask", "ada.operator")("FILE_WRITE", fileWrite(filepath.Join(n.root, "a.txt")))
	id := regexp.MustCompile(`APR_[0-9A-Za-z_]+`).FindString(answer)
	_, err := n.owner.Decide(t.Context(), orchestrator.DecideRequest{ID: id, As: "granted", Opens: []string{"path /"}, Actor: "user:eve"})
	require.ErrorContains(t, err, "does not offer")
}
