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

	"github.com/orch-dev/orch/test/need"
)

// agent is a fixed policy over MCP. It uses only what its client sees: the list of tools, their results, and forms.
type agent struct {
	*world

	session *mcp.ClientSession
	// name is the name of its session, which a client of 2026-07-28 chooses.
	name  string
	tools map[string]tool
	cost  cost
}

// tool is a listed tool.
type tool struct {
	Name        string
	InputSchema struct {
		Properties map[string]any
		Required   []string
	}
}

// newAgent connects an agent and reads the list of tools.
func newAgent(w *world, version, over, name string) *agent {
	w.t.Helper()
	a := &agent{world: w, name: name, tools: map[string]tool{}, cost: cost{tasks: 1}}
	a.session = w.connect(version, over, a.allow)
	list, err := a.session.ListTools(w.t.Context(), nil)
	require.NoError(w.t, err)
	raw, err := json.Marshal(list.Tools)
	require.NoError(w.t, err)
	a.cost.lists = len(raw)
	var shown []tool
	require.NoError(w.t, json.Unmarshal(raw, &shown))
	for _, t := range shown {
		a.tools[t.Name] = t
	}
	return a
}

// seen is a result as shown: the fields of its first line, and all of its text.
type seen struct {
	fields map[string]any
	text   string
}

// call calls a tool, after the node was killed. A call that takes long is handed back; the agent then requests its result as instructed.
func (a *agent) call(tool string, args map[string]any) seen {
	a.t.Helper()
	a.crash()
	got := a.do(tool, args)
	next := regexp.MustCompile(`For the result call (\w+) with (\{.*?\})`).FindStringSubmatch(got.text)
	if next == nil {
		return got
	}
	var arguments map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(next[2]), &arguments), got.text)
	for got = a.do(next[1], arguments); got.fields["over"] != true; got = a.do(next[1], arguments) {
		require.Equal(a.t, false, got.fields["over"], got.text)
	}
	return got
}

// do calls a tool that is in the list, with arguments that are in its schema.
func (a *agent) do(name string, args map[string]any) seen {
	a.t.Helper()
	a.checkCall(name, args)
	result, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args, Meta: mcp.Meta{"orch/session": a.name}})
	require.NoError(a.t, err, name)
	raw, err := json.Marshal(result)
	require.NoError(a.t, err)
	a.cost.calls++
	a.cost.results += len(raw)
	require.False(a.t, result.IsError, "%s: %s", name, raw)
	require.Len(a.t, result.Content, 1, "%s: %s", name, raw)
	text, ok := result.Content[0].(*mcp.TextContent)
	require.True(a.t, ok, "%s: %s", name, raw)
	got := seen{text: text.Text}
	if line, _, _ := strings.Cut(text.Text, "\n"); strings.HasPrefix(line, "{") {
		require.NoError(a.t, json.Unmarshal([]byte(line), &got.fields), "%s: %s", name, raw)
	}
	return got
}

// checkCall checks a call against the definition of the tool.
func (a *agent) checkCall(name string, args map[string]any) {
	a.t.Helper()
	require.Contains(a.t, a.tools, name, "the client does not see it")
	schema := a.tools[name].InputSchema
	for arg := range args {
		require.Contains(a.t, schema.Properties, arg, name)
	}
	for _, arg := range schema.Required {
		require.Contains(a.t, args, arg, name)
	}
}

// allow is a user who permits the session to write in the project, and approves all other requests.
func (a *agent) allow(r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	a.cost.forms++
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

// edit reads a file and replaces a text in it.
func (a *agent) edit(file, old, text string) {
	a.t.Helper()
	a.call("read", map[string]any{"file_path": file})
	a.call("edit", map[string]any{"file_path": file, "old_string": old, "new_string": text})
}

// save commits the changes.
func (a *agent) save(message string, files ...string) {
	a.t.Helper()
	a.call("git_add", map[string]any{"file_paths": files})
	a.call("git_commit", map[string]any{"message": message})
	assert.Equal(a.t, message, a.git("log", "-1", "--format=%s"))
	assert.Empty(a.t, a.git("status", "--porcelain"))
}

// failed returns the number of failing tests of the project, and their output.
func (a *agent) failed() (n int, text string) {
	a.t.Helper()
	got := a.call("test", nil)
	count, ok := got.fields["failed"].(float64)
	require.True(a.t, ok, got.text)
	return int(count), got.text
}

// kind is a kind of task.
type kind struct {
	name string
	do   func(*agent, project)
}

func kinds() []kind { return []kind{{"fix", fix}, {"document", document}, {"add", add}, {"ask", ask}} }

// TestAgent makes the agent solve four tasks on each of five repositories, over both generations of MCP and both transports in turn, as
// `orch mcp install` sets its client up. The node is killed before every call.
func TestAgent(t *testing.T) {
	t.Parallel()
	need.Long(t)
	costs := &tally{kinds: map[string]cost{}}
	t.Run("repositories", func(t *testing.T) {
		for i, p := range projects() {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				newWorld(t, p).solveAll(t, i, p, costs)
			})
		}
	})
	costs.check(t)
}

// solveAll makes agents do a task of each kind, over the four combinations of generation and transport, starting with from.
func (w *world) solveAll(t *testing.T, from int, p project, costs *tally) {
	t.Helper()
	for i, k := range kinds() {
		turn := from + i
		version := []string{"2025-11-25", "2026-07-28"}[turn%2]
		over := []string{"stdio", "http"}[turn/2%2]
		t.Run(k.name+" "+version+" "+over, func(t *testing.T) { w.solve(t, k, p, version, over, costs) })
	}
}

// solve makes an agent do a task.
func (w *world) solve(t *testing.T, k kind, p project, version, over string, costs *tally) {
	t.Helper()
	w.t, w.kills = t, 0
	a := newAgent(w, version, over, k.name)
	defer func() { assert.NoError(t, a.session.Close()) }()
	k.do(a, p)
	t.Logf("%+v, killed %d times", a.cost, w.kills)
	costs.add(k.name, a.cost)
}

// fix finds and mends a fault that the tests show.
func fix(a *agent, p project) {
	a.replace(p.file, p.right, p.fault)
	a.commit("feat: change something")
	failed, _ := a.failed()
	require.Positive(a.t, failed, "the fault is not found")
	found := a.call("grep", map[string]any{"pattern": p.find, "glob": "*" + filepath.Ext(p.file)})
	require.NotZero(a.t, found.fields["total"])
	kept := a.call("checkpoint", map[string]any{"checkpoint_name": "before the fix", "state_data": map[string]any{"file": p.file}})
	back := a.call("restore", map[string]any{"checkpoint_id": kept.fields["checkpoint_id"]})
	assert.Equal(a.t, map[string]any{"file": p.file}, back.fields["state_data"])
	a.edit(p.file, p.fault, p.right)
	failed, text := a.failed()
	require.Zero(a.t, failed, text)
	a.save("fix: put the condition right", p.file)
}

// document changes a line of the README and reads the diff.
func document(a *agent, p project) {
	first := a.call("find", map[string]any{"pattern": "README*"})
	require.NotEmpty(a.t, first.fields["files"])
	read := a.call("read", map[string]any{"file_path": p.readme})
	line := regexp.MustCompile(`(?m)^ *\d+\t(.{20,60})$`).FindStringSubmatch(read.text)
	require.NotNil(a.t, line, read.text)
	a.call("edit", map[string]any{"file_path": p.readme, "old_string": line[1], "new_string": line[1] + " (checked)", "replace_all": true})
	assert.Contains(a.t, a.call("git_diff", nil).text, "(checked)")
	a.save("docs: say what was checked", p.readme)
}

// add adds a feature with a test that fails without it, and undoes all of it.
func add(a *agent, p project) {
	a.call("write", map[string]any{"file_path": p.test, "content": p.asks})
	failed, _ := a.failed()
	require.Positive(a.t, failed, "the test does not see that the feature is missing")
	a.call("write", map[string]any{"file_path": p.feature, "content": p.does})
	shell := a.call("bash", map[string]any{"command": "wc -c < " + p.feature + " > size.txt"})
	assert.InDelta(a.t, 0, shell.fields["exit_code"], 0)
	a.call("bash", map[string]any{"command": "echo 'It greets.' >> " + p.readme})
	failed, text := a.failed()
	require.Zero(a.t, failed, text)
	a.save("feat: greet", p.test, p.feature, "size.txt", p.readme)
	a.call("undo", nil)
	assert.NoFileExists(a.t, filepath.Join(a.project, p.feature))
	assert.Empty(a.t, a.git("diff", "HEAD~1", "--name-only"))
	a.git("checkout", "-q", ".")
}

// ask asks a person before it deletes something, and continues when that is granted.
func ask(a *agent, _ project) {
	require.NoError(a.t, os.WriteFile(filepath.Join(a.project, "OLD.md"), []byte("old\n"), 0o644))
	a.commit("chore: leave something behind")
	asked := a.call("ask", map[string]any{
		"description": "remove OLD.md", "rationale": "it is not needed",
		"details": map[string]any{"tool": "delete", "arguments": map[string]any{"file_path": "OLD.md"}},
	})
	assert.Equal(a.t, "granted", a.call("asked", map[string]any{"approval_id": asked.fields["approval_id"]}).fields["status"])
	forms := a.cost.forms
	a.call("delete", map[string]any{"file_path": "OLD.md"})
	assert.Equal(a.t, forms, a.cost.forms, "it was granted already")
	assert.NoFileExists(a.t, filepath.Join(a.project, "OLD.md"))
	a.save("chore: remove what is not needed", "OLD.md")
}
