package outside_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	older = "2025-11-25"
	newer = "2026-07-28"
)

type object = map[string]any

// peer is an MCP server that is written without an SDK, so that it can do what none does. It works in a directory,
// where it notes the calls of its tools.
type peer struct {
	kind, dir  string
	generation string
	// send sends a message to the client; nil where that is not possible.
	send func(object)

	mu      sync.Mutex
	asked   int
	replies map[string]chan json.RawMessage
	tasks   map[string]*job
}

// job is a task of a server.
type job struct {
	asks   bool
	answer json.RawMessage
	status string
}

// refusal is an error of JSON-RPC.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *refusal) Error() string { return e.Message }

// message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
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
	return &peer{kind: kind, dir: dir, generation: generation, replies: map[string]chan json.RawMessage{}, tasks: map[string]*job{}}
}

// servePipe serves the process that has started this one.
func servePipe(kind, dir string) {
	p := newPeer(kind, dir, older)
	var writing sync.Mutex
	out := json.NewEncoder(os.Stdout)
	p.send = func(msg object) {
		writing.Lock()
		defer writing.Unlock()
		msg["jsonrpc"] = "2.0"
		_ = out.Encode(msg)
	}
	p.note("pid", strconv.Itoa(os.Getpid()))
	if begin := misbehaviours()[kind].begin; begin != nil {
		begin(p)
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var msg message
		switch {
		case json.Unmarshal(line, &msg) != nil || msg.ID == nil:
		case msg.Method == "":
			p.replied(msg)
		default:
			go p.serve(msg)
		}
	}
	if end := misbehaviours()[kind].end; end != nil {
		end(p)
	}
}

func (p *peer) serve(msg message) {
	result, err := p.handle(msg.Method, msg.Params)
	if err != nil {
		p.send(object{"id": msg.ID, "error": err})
		return
	}
	p.send(object{"id": msg.ID, "result": result})
}

// ServeHTTP serves a URL; it cannot ask but within tasks of the newer generation.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var msg message
	switch {
	case r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil:
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	case msg.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reply := object{"jsonrpc": "2.0", "id": msg.ID}
	result, err := p.handle(msg.Method, msg.Params)
	if err != nil {
		reply["error"] = err
	} else {
		reply["result"] = result
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

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
			return nil, &refusal{-32601, "no such method"}
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
		p.note("calls", in.Name+" "+in.Arguments.Text)
		return p.call(in)
	}
	if strings.HasPrefix(method, "tasks/") {
		p.note("tasks", method)
		return p.tend(method, in)
	}
	return nil, &refusal{-32601, "no such method"}
}

// tool is a definition of a tool with the given hint.
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

func says(text string) object {
	return object{"resultType": "complete", "content": []object{{"type": "text", "text": text}}, "structuredContent": object{"text": text}}
}

// call calls a tool.
func (p *peer) call(in params) (any, error) {
	switch in.Name {
	case "echo", "write", "wipe":
		return says(in.Arguments.Text), nil
	case "ask":
		return says(string(p.ask(object{"message": "Who are you?", "requestedSchema": object{
			"type": "object", "properties": object{"name": object{"type": "string"}}, "required": []string{"name"},
		}}))), nil
	case "hold":
		p.meet("go")
		return says("held"), nil
	case "die":
		os.Exit(3)
	case "look": // dies the first time
		if strings.Count(p.read("calls"), "look") < 2 {
			os.Exit(3)
		}
		return says("seen"), nil
	case "research", "survey":
		return p.begin(in), nil
	}
	return nil, &refusal{-32602, "no such tool"}
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

// ask asks the client and waits for the answer.
func (p *peer) ask(what object) json.RawMessage {
	p.mu.Lock()
	p.asked++
	id := fmt.Sprintf("%q", "ask-"+strconv.Itoa(p.asked))
	reply := make(chan json.RawMessage, 1)
	p.replies[id] = reply
	p.mu.Unlock()
	p.send(object{"id": json.RawMessage(id), "method": "elicitation/create", "params": what})
	return <-reply
}

func (p *peer) replied(msg message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.replies[string(msg.ID)]; ok {
		c <- msg.Result
	}
}

// begin makes a task: research works until there is the file go, survey asks first.
func (p *peer) begin(in params) object {
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

// show shows a task. p.mu is held.
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
		t["result"] = says("done " + string(j.answer))
	}
	return t
}

// tend answers requests about tasks.
func (p *peer) tend(method string, in params) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.tasks[in.TaskID]
	if j == nil {
		return nil, &refusal{-32602, "no such task"}
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

// note adds a line to a file.
func (p *peer) note(file, line string) {
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
