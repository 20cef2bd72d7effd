package outside_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/mcp/peertest"
)

const (
	older = peertest.Older
	newer = peertest.Newer
)

type object = peertest.Object

// peer is an MCP server without an SDK, so that it can misbehave. It records the calls of its tools in a directory.
type peer struct {
	kind, dir  string
	generation string
	// pipe is the connection to the client; nil for a URL, where the server cannot send requests.
	pipe *peertest.Pipe

	mu    sync.Mutex
	tasks map[string]*job
}

// job is a task of a server.
type job struct {
	asks   bool
	answer json.RawMessage
	status string
}

// params are those of any request.
type params struct {
	Name      string                     `json:"name"`
	Cursor    string                     `json:"cursor"`
	TaskID    string                     `json:"taskId"`
	Responses map[string]json.RawMessage `json:"inputResponses"`
	Arguments struct {
		Text string `json:"text"`
		N    int    `json:"n"`
	} `json:"arguments"`
	Meta struct {
		Token json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
}

func newPeer(kind, dir, generation string) *peer {
	return &peer{kind: kind, dir: dir, generation: generation, tasks: map[string]*job{}}
}

// servePipe serves the process that has started this one.
func servePipe(kind, dir string) {
	p := newPeer(kind, dir, older)
	p.pipe = peertest.NewPipe(os.Stdout)
	p.appendLine("pid", strconv.Itoa(os.Getpid()))
	if begin := misbehaviours()[kind].begin; begin != nil {
		begin(p)
	}
	p.pipe.Serve(os.Stdin, p.handle)
	if end := misbehaviours()[kind].end; end != nil {
		end(p)
	}
}

// ServeHTTP serves a URL. It can ask questions only within tasks of the newer generation.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) { peertest.Handle(w, r, p.handle) }

// handle answers a request.
func (p *peer) handle(method string, raw json.RawMessage) (any, error) {
	var in params
	_ = json.Unmarshal(raw, &in)
	if answer := misbehaviours()[p.kind].answer; answer != nil {
		if result, err := answer(p, method, in); result != nil || err != nil {
			return result, err
		}
	}
	caps := object{"tools": object{"listChanged": true}}
	switch method {
	case "server/discover":
		if p.generation == older {
			return nil, peertest.Refuse(-32601, "no such method")
		}
		caps["extensions"] = object{"io.modelcontextprotocol/tasks": object{}}
		return object{"resultType": "complete", "supportedVersions": []string{newer}, "capabilities": caps}, nil
	case "initialize":
		caps["tasks"] = object{"cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
		return object{"protocolVersion": older, "capabilities": caps, "serverInfo": object{"name": "peer", "version": "1"}}, nil
	case "ping":
		return object{}, nil
	case "tools/list":
		return object{"tools": usualTools()}, nil
	case "tools/call":
		p.appendLine("calls", in.Name+" "+in.Arguments.Text)
		return p.call(in)
	}
	if strings.HasPrefix(method, "tasks/") {
		p.appendLine("tasks", method)
		return p.tend(method, in)
	}
	return nil, peertest.Refuse(-32601, "no such method")
}

// tool returns the definition of a tool with an annotation hint.
func tool(name, hint string) object {
	t := object{"name": name, "description": "Does " + name, "inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}, "n": object{"type": "integer"}}}}
	if hint != "" {
		t["annotations"] = object{hint: true}
	}
	return t
}

func usualTools() []object {
	research := tool("research", "readOnlyHint")
	research["execution"] = object{"taskSupport": "optional"}
	survey := tool("survey", "")
	survey["execution"] = object{"taskSupport": "optional"}
	return []object{
		tool("echo", "readOnlyHint"), tool("write", ""), tool("wipe", "destructiveHint"), tool("ask", ""),
		tool("hold", ""), tool("die", ""), tool("look", "readOnlyHint"), research, survey,
	}
}

func textResult(text string) object {
	return object{"resultType": "complete", "content": []object{{"type": "text", "text": text}}, "structuredContent": object{"text": text}}
}

// call calls a tool.
func (p *peer) call(in params) (any, error) {
	switch in.Name {
	case "echo", "write", "wipe":
		return textResult(in.Arguments.Text), nil
	case "ask":
		return textResult(string(p.ask(object{"message": "Who are you?", "requestedSchema": object{
			"type": "object", "properties": object{"name": object{"type": "string"}}, "required": []string{"name"},
		}}))), nil
	case "hold":
		p.meet("go")
		return textResult("held"), nil
	case "die":
		os.Exit(3)
	case "look": // dies the first time
		if strings.Count(p.read("calls"), "look") < 2 {
			os.Exit(3)
		}
		return textResult("seen"), nil
	case "research", "survey":
		return p.createTask(in), nil
	}
	return nil, peertest.Refuse(-32602, "no such tool")
}

// meet waits until there is a file.
func (p *peer) meet(name string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			return
		}
	}
}

// ask sends a question to the client and waits for the answer.
func (p *peer) ask(what object) json.RawMessage {
	return p.pipe.Ask("elicitation/create", what).Result
}

// createTask creates a task: research works until the file go exists, survey asks a question first.
func (p *peer) createTask(in params) object {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := "task-" + strconv.Itoa(len(p.tasks)+1)
	p.tasks[id] = &job{asks: in.Name == "survey"}
	shown := p.show(id)
	if p.generation == newer {
		return shown
	}
	return object{"task": shown}
}

// show returns the description of a task. p.mu must be held.
func (p *peer) show(id string) object {
	j := p.tasks[id]
	t := object{"taskId": id, "resultType": "task", "ttl": 600000, "ttlMs": 600000, "pollInterval": 100, "pollIntervalMs": 100}
	_, err := os.Stat(filepath.Join(p.dir, "go"))
	switch {
	case j.status != "":
	case j.asks && j.answer == nil:
		t["inputRequests"] = object{"who": object{"method": "elicitation/create", "params": object{"message": "Who is asked?", "requestedSchema": object{"type": "object", "properties": object{"name": object{"type": "string"}}}}}}
		t["status"] = "input_required"
		return t
	case err != nil:
		t["status"] = "working"
		return t
	default:
		j.status = "completed"
	}
	if t["status"] = j.status; j.status == "completed" {
		t["result"] = textResult("done " + string(j.answer))
	}
	return t
}

// tend answers requests about tasks.
func (p *peer) tend(method string, in params) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.tasks[in.TaskID]
	if j == nil {
		return nil, peertest.Refuse(-32602, "no such task")
	}
	switch method {
	case "tasks/cancel":
		j.status = "cancelled"
	case "tasks/update":
		j.answer = in.Responses["who"]
		return object{"resultType": "complete"}, nil
	case "tasks/result":
		return p.show(in.TaskID)["result"], nil
	}
	return p.show(in.TaskID), nil
}

// appendLine appends a line to a file.
func (p *peer) appendLine(file, line string) {
	f, err := os.OpenFile(filepath.Join(p.dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the test is over
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}

func (p *peer) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(content)
}
