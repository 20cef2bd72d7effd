package firsthour_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// project is a real repository, with a fault that its own tests find.
type project struct {
	module, readme string
	// file has the right line, for which the fault stands, and find is what somebody looks for who has seen the test fail.
	file, right, fault, find string
}

func projects() []project {
	return []project{
		{"github.com/looplab/fsm", "README.md", "fsm.go", "return ok && (f.transition == nil)", "return ok && (f.transition != nil)", `func \(f \*FSM\) Can\(`},
		{"github.com/spf13/pflag", "README.md", "bool.go", "*b = boolValue(v)", "*b = boolValue(!v)", `func \(b \*boolValue\) Set`},
		{"github.com/yosida95/uritemplate/v3", "README.rst", "escape.go", "size -= 2", "size -= 1", `func pctDecode`},
		{"github.com/Masterminds/semver/v3", "README.md", "version.go", "return v.Compare(o) > 0", "return v.Compare(o) > 1", `func \(v \*Version\) GreaterThan\(`},
		{"github.com/go-logr/logr", "README.md", "logr.go", "if level < 0 {", "if level > 0 {", `func \(l Logger\) V\(`},
	}
}

// agent is a fixed policy over MCP.
type agent struct {
	*world

	session *mcp.ClientSession
	// name is that of its session, which a client of 2026-07-28 gives it.
	name  string
	calls int
	bytes int
}

// call calls a tool, after the node was killed, and returns its structured result. A call that takes long is handed back; the agent
// then asks for its result as it was told.
func (a *agent) call(tool string, args map[string]any) map[string]any {
	a.t.Helper()
	a.crash()
	fields := a.do(tool, args)
	handed, ok := fields["handed_back"].(map[string]any)
	if !ok {
		return fields
	}
	next, _ := handed["next"].(map[string]any)
	name, _ := next["tool"].(string)
	arguments, _ := next["arguments"].(map[string]any)
	for {
		if got := a.do(name, arguments); got["over"] == true {
			output, _ := got["output"].(map[string]any)
			result, is := output["result"].(map[string]any)
			require.True(a.t, is, "%s: %v", tool, got)
			return result
		}
	}
}

// do calls a tool.
func (a *agent) do(tool string, args map[string]any) map[string]any {
	a.t.Helper()
	result := a.try(tool, args)
	require.False(a.t, result.IsError, "%s: %s", tool, textOf(result))
	raw, err := json.Marshal(result.StructuredContent)
	require.NoError(a.t, err)
	var fields map[string]any
	require.NoError(a.t, json.Unmarshal(raw, &fields), "%s: %s", tool, raw)
	return fields
}

func (a *agent) try(tool string, args map[string]any) *mcp.CallToolResult {
	a.t.Helper()
	result, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args, Meta: mcp.Meta{"orch/session": a.name}})
	require.NoError(a.t, err, tool)
	a.calls++
	raw, err := json.Marshal(result)
	require.NoError(a.t, err)
	a.bytes += len(raw)
	return result
}

func textOf(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

func (a *agent) path(name string) string { return filepath.Join(a.project, name) }

// edit reads a file and replaces a text in it.
func (a *agent) edit(file, old, text string) {
	a.t.Helper()
	a.call("FILE_READ", map[string]any{"file_path": a.path(file)})
	a.call("FILE_EDIT", map[string]any{"file_path": a.path(file), "old_string": old, "new_string": text})
}

// save commits what was changed.
func (a *agent) save(message string, files ...string) {
	a.t.Helper()
	a.call("GIT_ADD", map[string]any{"file_paths": files})
	a.call("GIT_COMMIT", map[string]any{"message": message})
	assert.Equal(a.t, message, a.git("log", "-1", "--format=%s"))
	assert.Empty(a.t, a.git("status", "--porcelain"))
}

// failed returns how many tests of the project fail.
func (a *agent) failed() int {
	a.t.Helper()
	n, ok := a.call("TEST_EXECUTE", map[string]any{})["failed"].(float64)
	require.True(a.t, ok)
	return int(n)
}

// TestAgent lets the agent solve four tasks on each of five repositories, over both generations of MCP in turn. The node is
// killed before every call.
func TestAgent(t *testing.T) {
	t.Parallel()
	versions := []string{"2025-11-25", "2026-07-28"}
	for i, p := range projects() {
		t.Run(filepath.Base(strings.TrimSuffix(p.module, "/v3")), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, p.module)
			for j, task := range []struct {
				name string
				do   func(*agent, project)
			}{{"fix", fix}, {"document", document}, {"add", add}, {"ask", ask}} {
				version := versions[(i+j)%2]
				t.Run(task.name+" "+version, func(t *testing.T) {
					w.t = t
					a := &agent{world: w, session: w.connect(version, allow), name: task.name}
					task.do(a, p)
					t.Logf("%d calls, %d bytes of results, killed %d times", a.calls, a.bytes, w.kills)
					w.kills = 0
				})
			}
		})
	}
}

// allow is a user who lets the session write in the project, and approves what else is asked.
func allow(r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	raw, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties struct{ Decision struct{ Enum []string } }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	decision := "approve"
	for _, choice := range schema.Properties.Decision.Enum {
		if strings.HasPrefix(choice, "approve for this session") {
			decision = choice // the last one is the widest
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
}

// fix finds and mends a fault that the tests show.
func fix(a *agent, p project) {
	text, err := os.ReadFile(a.path(p.file))
	require.NoError(a.t, err)
	require.Contains(a.t, string(text), p.right)
	require.NoError(a.t, os.WriteFile(a.path(p.file), []byte(strings.Replace(string(text), p.right, p.fault, 1)), 0o644))
	a.commit("feat: change something")
	require.Positive(a.t, a.failed(), "the fault is not found")
	found := a.call("GREP_SEARCH", map[string]any{"pattern": p.find, "glob": "*.go"})
	require.NotZero(a.t, found["total"])
	kept := a.call("CHECKPOINT_CREATE", map[string]any{"checkpoint_name": "before the fix", "state_data": map[string]any{"file": p.file}})
	back := a.call("CHECKPOINT_RESTORE", map[string]any{"checkpoint_id": kept["checkpoint_id"]})
	assert.Equal(a.t, map[string]any{"file": p.file}, back["state_data"])
	a.edit(p.file, p.fault, p.right)
	require.Zero(a.t, a.failed())
	a.save("fix: put the condition right", p.file)
}

// document changes a line of the README and looks at the difference.
func document(a *agent, p project) {
	first := a.call("GLOB_SEARCH", map[string]any{"pattern": "README*"})
	require.NotEmpty(a.t, first["files"])
	read := a.call("FILE_READ", map[string]any{"file_path": a.path(p.readme)})
	content, _ := read["content"].(string)
	line := regexp.MustCompile(`(?m)^ *\d+\t(.{20,60})$`).FindStringSubmatch(content)
	require.NotNil(a.t, line, content)
	a.call("FILE_EDIT", map[string]any{"file_path": a.path(p.readme), "old_string": line[1], "new_string": line[1] + " (checked)", "replace_all": true})
	assert.Contains(a.t, a.call("GIT_DIFF", map[string]any{})["diff"], "(checked)")
	a.save("docs: say what was checked", p.readme)
}

// add writes a new test, by a tool and by the shell, which the user lets the session do after one question.
func add(a *agent, p project) {
	name := regexp.MustCompile(`(?m)^package (\w+)`).FindStringSubmatch(a.git("show", "HEAD:"+p.file))
	require.NotNil(a.t, name)
	test := "package " + name[1] + "\n\nimport \"testing\"\n\nfunc TestFirstHour(t *testing.T) {}\n"
	a.call("FILE_WRITE", map[string]any{"file_path": a.path("firsthour_test.go"), "content": test})
	shell := a.call("BASH_EXECUTE", map[string]any{"command": "gofmt -l . > unformatted.txt; wc -c < firsthour_test.go"})
	assert.InDelta(a.t, 0, shell["exit_code"], 0)
	a.call("BASH_EXECUTE", map[string]any{"command": "echo '# checked' >> " + p.readme})
	require.Zero(a.t, a.failed(), textOf(a.try("TEST_EXECUTE", map[string]any{})))
	a.save("test: add a first one", "firsthour_test.go", "unformatted.txt", p.readme)
	session := strings.Fields(a.run("sessions", "-o", "name"))
	a.run("undo", session[0])
	assert.NoFileExists(a.t, a.path("firsthour_test.go"))
	assert.Empty(a.t, a.git("diff", "HEAD~1", "--name-only"))
	a.git("checkout", "-q", ".")
}

// ask asks a person before it deletes something, and goes on when that is granted.
func ask(a *agent, _ project) {
	file := a.path("go.sum")
	require.NoError(a.t, os.WriteFile(file, []byte("old\n"), 0o644))
	a.commit("chore: leave something behind")
	asked := a.call("APPROVAL_REQUEST", map[string]any{
		"request_type": "destructive_operation", "description": "remove go.sum", "rationale": "it is not needed", "timeout": 600, "priority": "medium",
		"details": map[string]any{"tool": "FILE_DELETE", "arguments": map[string]any{"file_path": file}},
	})
	id, _ := asked["approval_id"].(string)
	require.NotEmpty(a.t, id)
	if a.call("APPROVAL_CHECK", map[string]any{"approval_id": id})["status"] == "pending" {
		a.run("approve", id, "--detach")
	}
	assert.Equal(a.t, "granted", a.call("APPROVAL_CHECK", map[string]any{"approval_id": id})["status"])
	a.call("FILE_DELETE", map[string]any{"file_path": file})
	assert.NoFileExists(a.t, file)
	a.save("chore: remove what is not needed", "go.sum")
}
