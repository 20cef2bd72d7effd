package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/test/need"
)

// largeProject has files, matches and changes without number.
func largeProject(t *testing.T, root string) {
	t.Helper()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	text := strings.Repeat("a line of some sixty characters, as they are in programs ....\n", 3000)
	require.NoError(t, os.WriteFile(filepath.Join(root, "long.txt"), []byte(text), 0o600))
	for i := range 2000 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("file%04d.txt", i)), nil, 0o600))
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "test: begin")
	require.NoError(t, os.WriteFile(filepath.Join(root, "long.txt"), []byte(strings.ReplaceAll(text, "line", "word")), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.org/m\n\ngo 1.25\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "m_test.go"), []byte(`package m
import ("fmt"; "strings"; "testing")
func TestMany(t *testing.T) {
	for i := range 60 { t.Run(fmt.Sprint(i), func(t *testing.T) { t.Error(strings.Repeat("wrong ", 500)) }) }
}
`), 0o600))
}

// textsOf are the texts of a result, which has nothing else.
func textsOf(t *testing.T, a answer) string {
	t.Helper()
	result, _ := a.message["result"].(map[string]any)
	require.NotNil(t, result, a.body)
	assert.NotContains(t, result, "structuredContent")
	blocks, _ := result["content"].([]any)
	var text strings.Builder
	for _, block := range blocks {
		fields, _ := block.(map[string]any)
		part, _ := fields["text"].(string)
		text.WriteString(part)
	}
	return text.String()
}

// largeCalls are calls with large results, and the text that must be shown of them. Their arguments are those of the coding profile.
var largeCalls = []struct{ tool, args, shows string }{
	{"read", `{"file_path":"long.txt"}`, "read on with offset"},
	{"grep", `{"pattern":"characters"}`, `items; result {`},
	{"find", `{"pattern":"*.txt"}`, "items; result {"},
	{"git_diff", `{}`, "bytes are not shown"},
	{"bash", `{"command":"seq 1 90000"}`, "\n89999\n90000\n"},
	{"test", `{}`, "TestMany/59"},
}

// In a profile the results of both generations are one text of at most 16 KiB.
func TestResultsInAProfileAreBounded(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := startNode(t)
	largeProject(t, n.root)
	w := n.web(t, n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Offer.Profile, c.Consent.Writes = tokens{}, server.ProfileCoding, "allow"
		c.Limits.SyncWait = 10 * time.Minute // the test tool compiles
	}))
	w.open()
	modern := *w
	modern.session = ""
	for _, call := range largeCalls {
		params := `"name":"` + call.tool + `","arguments":` + call.args
		for generation, a := range map[string]answer{
			"2025-11-25": w.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{` + params + `}}`),
			"2026-07-28": modern.modern("tools/call", call.tool, params+",", `{}`),
		} {
			text := textsOf(t, a)
			t.Logf("%s %s: %d bytes", call.tool, generation, len(a.body))
			assert.LessOrEqual(t, len(text), 16<<10, call.tool)
			assert.Contains(t, text, call.shows, call.tool)
			assert.LessOrEqual(t, len(a.body), 36<<10, "quotes and ends of lines are escaped: %s", call.tool)
		}
	}
}

// What a profile does not show comes in pieces.
func TestTheRestOfAResult(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Offer.Profile, c.Consent.Writes = tokens{}, server.ProfileCoding, "allow"
	}))
	w.open()
	text := textsOf(t, w.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"bash","arguments":{"command":"seq 1 9000"}}}`))
	line, shown, _ := strings.Cut(text, "\nstdout:\n")
	_, arguments, _ := strings.Cut(line, "; result ")
	arguments, _, _ = strings.Cut(arguments, " has more")
	require.NoError(t, json.Unmarshal([]byte(`"`+arguments+`"`), &arguments))
	begun, _, _ := strings.Cut(shown, "[…")
	var got strings.Builder
	got.WriteString(begun)
	for arguments != "" {
		piece := textsOf(t, w.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"result","arguments":`+arguments+`}}`))
		line, part, _ := strings.Cut(piece, "\ntext:\n")
		got.WriteString(part)
		var at struct {
			Task string `json:"task_id"`
			Next *int   `json:"next_offset"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &at), piece)
		if arguments = ""; at.Next != nil {
			arguments = fmt.Sprintf(`{"task_id":%q,"field":"stdout","offset":%d}`, at.Task, *at.Next)
		}
	}
	var all strings.Builder
	for i := range 9000 {
		fmt.Fprintln(&all, i+1)
	}
	assert.Equal(t, all.String(), got.String())
}
