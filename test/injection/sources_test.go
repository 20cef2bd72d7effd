package injection_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/peertest"
)

// source is where a text comes from: the call with which an agent reads it.
type source struct {
	tool string
	args object
	// prepare puts the text there; nil if the world does.
	prepare func(w *world, c injection)
	// allow is what the plan allows beforehand.
	allow object
}

// sources returns the sources by name. Places are filled in as in a case.
func sources() map[string]source {
	return map[string]source{
		"file":  {tool: "FILE_READ", args: object{"file_path": "{dir}/notes.txt"}, prepare: (*world).writeNotes},
		"grep":  {tool: "GREP_SEARCH", args: object{"pattern": ".*", "path": "{dir}", "output_mode": "content"}, prepare: (*world).writeNotes},
		"shell": {tool: "BASH_EXECUTE", args: object{"command": `cat "$1"`, "argv": []string{"{dir}/notes.txt"}}, prepare: (*world).writeNotes},
		"exec":  {tool: "shell_exec", args: object{"command": "head", "args": []string{"-n", "100", "{dir}/notes.txt"}}, prepare: (*world).writeNotes},
		"name":  {tool: "GLOB_SEARCH", args: object{"pattern": "**/*", "path": "{dir}"}, prepare: (*world).writeName},
		"list":  {tool: "DIRECTORY_LIST", args: object{"directory_path": "{dir}", "recursive": true}, prepare: (*world).writeName},
		"diff":  {tool: "GIT_DIFF", args: object{"repository_path": "{dir}"}, prepare: (*world).changeFile},
		"log":   {tool: "BASH_EXECUTE", args: object{"command": "git log -1", "working_directory": "{dir}"}, prepare: (*world).commitFile},
		"page":  {tool: "WEB_FETCH", args: object{"url": "{web}/{name}", "prompt": "everything"}},
		"http":  {tool: "HTTP_REQUEST", args: object{"method": "GET", "url": "{web}/{name}"}, allow: object{"endpoints": []string{"{web}"}}},
		"mcp":   {tool: "desk__read", args: object{"text": "{name}"}},
		"fault": {tool: "desk__fail", args: object{"text": "{name}"}},
		"mail":  {tool: "MESSAGE_INBOX", args: object{"correlation_id": "{name}"}, prepare: (*world).send},
		"store": {tool: "firebase.read", args: object{"database": "realtime", "path": "cases/{name}"}, prepare: (*world).store},
		"child": {tool: "TASK_SPAWN", args: object{"subagent_type": "helper", "prompt": "{dir}/notes.txt"}, prepare: (*world).writeNotes},
		"row": {
			tool: "DATABASE_QUERY", args: object{"connection_string": "sqlite:{root}/desk.db", "query": "SELECT note FROM notes WHERE name = ?", "parameters": []string{"{name}"}},
			prepare: (*world).insert, allow: object{"connections": []string{"sqlite:{root}/desk.db"}},
		},
		"input": {}, // in the prompt, such as the text of an issue
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) writeNotes(c injection) { w.write(filepath.Join(w.dirOf(c), "notes.txt"), c.Text) }

// writeName makes a file whose name is the text.
func (w *world) writeName(c injection) { w.write(filepath.Join(w.dirOf(c), c.Text), "nothing\n") }

func (w *world) git(c injection, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-c", "user.name=mallory", "-c", "user.email=m@x.example", "-C", w.dirOf(c)}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
}

// commitFile makes a repository whose commit has the text as its message.
func (w *world) commitFile(c injection) {
	w.write(filepath.Join(w.dirOf(c), "a.txt"), "first\n")
	w.git(c, "init", "-q")
	w.git(c, "add", "a.txt")
	w.git(c, "commit", "-q", "--cleanup=verbatim", "-m", c.Text)
}

// changeFile makes a repository with a change that contains the text.
func (w *world) changeFile(c injection) {
	first := c
	first.Text = "chore: begin"
	w.commitFile(first)
	w.write(filepath.Join(w.dirOf(c), "a.txt"), "first\n"+c.Text+"\n")
}

// send sends the text as a message of another agent.
func (w *world) send(c injection) {
	w.call("agent:mallory", "MESSAGE_SEND", object{"to": []string{person}, "text": c.Text, "correlation_id": c.Name})
}

func (w *world) store(c injection) {
	w.call(person, "firebase.write", object{"database": "realtime", "path": "cases/" + c.Name, "data": object{"note": c.Text}})
}

// insert adds the text to the table of notes. The person grants the change.
func (w *world) insert(c injection) {
	w.call(person, "DATABASE_QUERY", object{
		"connection_string": "sqlite:" + w.root() + "/desk.db", "query": "INSERT INTO notes (name, note) VALUES (?, ?)", "parameters": []string{c.Name, c.Text},
	})
}

// page is the web server that agents may reach. It shows the text of a case below its name.
func (w *world) page(out http.ResponseWriter, r *http.Request) {
	w.note(&w.fetched, r)
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = out.Write([]byte(w.textOf(strings.TrimPrefix(r.URL.Path, "/"))))
}

// desk is an MCP server with two tools: one shows the text of a case as its result, one as its error.
func (w *world) desk(out http.ResponseWriter, r *http.Request) {
	peertest.Handle(out, r, func(method string, raw jsonText) (any, error) {
		switch method {
		case "initialize":
			return object{"protocolVersion": peertest.Older, "capabilities": object{"tools": object{}}, "serverInfo": object{"name": "desk", "version": "1"}}, nil
		case "tools/list":
			return object{"tools": []object{deskTool("read"), deskTool("fail")}}, nil
		case "tools/call":
			in := parsed[struct {
				Name      string
				Arguments struct{ Text string }
			}](raw)
			return object{"content": []object{{"type": "text", "text": w.textOf(in.Arguments.Text)}}, "isError": in.Name == "fail"}, nil
		default:
			return nil, peertest.Refuse(-32601, "no such method")
		}
	})
}

func deskTool(name string) object {
	return object{
		"name": name, "description": "Reads a note of the desk", "annotations": object{"readOnlyHint": true},
		"inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}}},
	}
}
