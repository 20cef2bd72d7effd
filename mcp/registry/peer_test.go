package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// peer is a server without an SDK, so that it can misbehave. It stores its tasks in a directory
// and logs its requests there.
type peer struct {
	generation string
	dir        string
	// pipe is the transport to the client; nil behind a URL, where the peer can send no requests.
	pipe *peertest.Pipe

	mu    sync.Mutex
	tasks int
}

// jobArgs are the arguments of the tool job, and the stored state of a task.
type jobArgs struct {
	MS int64 `json:"ms"`
	// Ask are questions, each of which must be answered.
	Ask []string `json:"ask"`
	// Mute leaves out to which task a question belongs.
	Mute bool `json:"mute"`
	// Early sends a request before the handle of the task.
	Early bool `json:"early"`
	// Fail is isError, error or cancelled.
	Fail string `json:"fail"`

	Created int64                      `json:"created"`
	Answers map[string]json.RawMessage `json:"answers"`
	Ended   bool                       `json:"ended"`
}

type params struct {
	Name           string                     `json:"name"`
	URI            string                     `json:"uri"`
	Cursor         string                     `json:"cursor"`
	Arguments      json.RawMessage            `json:"arguments"`
	TaskID         string                     `json:"taskId"`
	Task           *object                    `json:"task"`
	RequestState   string                     `json:"requestState"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	Meta           struct {
		Token        string `json:"progressToken"`
		TraceParent  string `json:"traceparent"`
		TraceState   string `json:"tracestate"`
		Capabilities struct {
			Extensions object `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
}

// servePipe serves a process.
func servePipe() int {
	p := newPeer(os.Getenv("PEER_GENERATION"), os.Getenv("PEER_DIR"))
	p.pipe = peertest.NewPipe(os.Stdout)
	p.pipe.Replied = func(msg peertest.Message) { p.note("replied", append(msg.Result, msg.Error...)) }
	p.pipe.Serve(os.Stdin, p.handle)
	return 0
}

// ServeHTTP serves a URL; the peer then sends no requests.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peertest.Handle(w, r, func(method string, params json.RawMessage) (any, error) {
		result, err := p.handle(method, params)
		if err != nil || p.generation != newer {
			return result, err
		}
		if named := r.Header.Get("Mcp-Method"); named != method {
			return nil, peertest.Refuse(-32020, "the header names another method: "+named)
		}
		if named := r.Header.Get("Mcp-Name"); strings.HasPrefix(method, "tasks/") && !strings.Contains(string(params), named) {
			return nil, peertest.Refuse(-32020, "the header names another task: "+named)
		}
		return result, nil
	})
}

func newPeer(generation, dir string) *peer {
	return &peer{generation: generation, dir: dir}
}

// handle answers a request.
func (p *peer) handle(method string, raw json.RawMessage) (any, error) {
	p.note(method, raw)
	var in params
	_ = json.Unmarshal(raw, &in)
	caps := object{"tools": object{}, "prompts": object{}, "resources": object{}}
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
		return p.list(in.Cursor), nil
	case "tools/call":
		return p.call(in)
	case "resources/list", "resources/templates/list", "prompts/list":
		return p.features(method, in.Cursor), nil
	case "resources/read", "prompts/get":
		if in.URI == "peer://huge" {
			return object{"contents": []object{{"uri": in.URI, "text": strings.Repeat("x", 5<<20)}}}, nil
		}
		return object{"resultType": "complete", "kept": json.RawMessage("12345678901234567890"), "of": in.URI + in.Name + string(in.Arguments)}, nil
	}
	if strings.HasPrefix(method, "tasks/") {
		return p.tend(method, in)
	}
	return nil, peertest.Refuse(-32601, "no such method")
}

// list lists the tools, on two pages.
func (p *peer) list(cursor string) object {
	schema := object{"type": "object"}
	if os.Getenv("PEER_TRICK") == "bulky" {
		return object{"tools": []object{{"name": strings.Repeat("x", 12<<20)}}, "nextCursor": cursor + "1"}
	}
	if cursor == "" {
		return object{"nextCursor": "2", "tools": []object{
			{"name": "job", "inputSchema": schema, "execution": object{"taskSupport": "optional"}},
			{"name": "raw", "inputSchema": schema},
			{"name": "trace", "inputSchema": schema},
		}}
	}
	var tools []object
	for _, name := range []string{"ask", "round", "busy", "wait", "login", "leak", "die", "roots", "flood", "never", "unnamed", "list"} {
		tools = append(tools, object{"name": name, "inputSchema": schema})
	}
	return object{"tools": tools}
}

func (*peer) features(method, cursor string) object {
	key := map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}[method]
	page, _ := strconv.Atoi(cursor)
	switch os.Getenv("PEER_TRICK") {
	case "endless":
		return object{key: []object{{"name": key}}, "nextCursor": "1"}
	case "huge":
		return object{key: []object{{"name": strings.Repeat("x", 2<<20)}}, "nextCursor": strconv.Itoa(page + 1)}
	case "odd":
		return object{key: "none"}
	}
	return object{key: []object{{"name": key + cursor, "more": json.RawMessage("1.50")}}, "nextCursor": []string{"1", "2", ""}[page]}
}

// call calls a tool.
func (p *peer) call(in params) (any, error) {
	var args jobArgs
	_ = json.Unmarshal(in.Arguments, &args)
	question := object{"method": "elicitation/create", "params": object{}}
	switch in.Name {
	case "roots":
		return object{"resultType": "input_required", "inputRequests": object{"a": object{"method": "roots/list"}}}, nil
	case "flood":
		flood := object{}
		for i := range 101 {
			flood[strconv.Itoa(i)] = question
		}
		return object{"resultType": "input_required", "inputRequests": flood}, nil
	case "never":
		return object{"resultType": "input_required", "requestState": "later"}, nil
	case "unnamed":
		return object{"resultType": "task", "taskId": "", "status": "working"}, nil
	case "list":
		return []int{1}, nil
	case "job":
		if p.generation == newer && in.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"] == nil || p.generation == older && in.Task == nil {
			return nil, peertest.Refuse(-32021, "tasks must be declared")
		}
		return p.begin(in, args), nil
	case "raw":
		return json.RawMessage(`{"content":[],"structuredContent":{"n":12345678901234567890.10,"<":"&"},"_meta":{"a/b":1},"later":[1.0]}`), nil
	case "trace":
		return tells(in.Meta.TraceParent + in.Meta.TraceState), nil
	case "ask":
		var answers []string
		var group sync.WaitGroup
		for _, question := range args.Ask {
			group.Go(func() {
				answer := p.ask(question, object{})
				p.mu.Lock()
				defer p.mu.Unlock()
				answers = append(answers, string(answer))
			})
		}
		group.Wait()
		return tells(strings.Join(answers, " ")), nil
	case "round":
		return p.round(in, args), nil
	case "busy":
		n, _ := strconv.Atoi(in.RequestState)
		if n < 2 {
			return object{"resultType": "input_required", "requestState": strconv.Itoa(n + 1)}, nil
		}
		return tells("at last"), nil
	case "wait":
		p.report(in.Meta.Token, 1, "waiting"+strings.Join(args.Ask, ""))
		p.meet(args.MS)
		return tells("waited"), nil
	case "login":
		if _, err := os.Stat(filepath.Join(p.dir, "logged-in")); err == nil {
			return tells("welcome"), nil
		}
		return nil, &peertest.RefusalError{Code: -32042, Message: "log in first", Data: object{"elicitations": []object{{"mode": "url", "url": "https://example.com/login", "elicitationId": "e1", "message": "log in"}}}}
	case "leak":
		return nil, peertest.Refuse(-32000, "cannot log in with "+os.Getenv("PEER_SECRET"))
	case "die":
		os.Exit(1)
	}
	return nil, peertest.Refuse(-32602, "no such tool")
}

// meet waits.
func (*peer) meet(ms int64) { <-time.After(time.Duration(ms) * time.Millisecond) }

// round asks for two names, in two rounds.
func (p *peer) round(in params, args jobArgs) any {
	question := object{"method": "elicitation/create", "params": object{"message": "who?" + strings.Join(args.Ask, ""), "requestedSchema": object{"type": "object"}}}
	switch in.RequestState {
	case "":
		return object{"resultType": "input_required", "requestState": "<one>", "inputRequests": object{"b": question, "a": question}}
	case "<one>":
		return object{"resultType": "input_required", "requestState": "<two>" + string(in.InputResponses["a"]), "inputRequests": object{"c": question}}
	default:
		return tells(in.RequestState + string(in.InputResponses["c"]))
	}
}

func tells(text string) object {
	return object{"resultType": "complete", "content": []object{{"type": "text", "text": text}}}
}

// report reports progress.
func (p *peer) report(token string, done int, message string) {
	if p.pipe != nil && token != "" {
		p.pipe.Send(object{"method": "notifications/progress", "params": object{"progressToken": token, "progress": done, "total": 2, "message": message}})
	}
}

// ask sends a request to the client and waits for the answer.
func (p *peer) ask(question string, meta object) json.RawMessage {
	method, content := "elicitation/create", object{"message": question, "requestedSchema": object{"type": "object"}, "_meta": meta}
	if question == "sample" {
		method, content = "sampling/createMessage", object{"messages": []object{}, "maxTokens": 7, "_meta": meta}
	}
	reply := p.pipe.Ask(method, content)
	return append(reply.Result, reply.Error...)
}

// begin creates a task.
func (p *peer) begin(in params, args jobArgs) object {
	p.mu.Lock()
	p.tasks++
	id := fmt.Sprintf("task-%d-%d", os.Getpid(), p.tasks)
	p.mu.Unlock()
	args.Created, args.Answers = time.Now().UnixMilli(), map[string]json.RawMessage{}
	p.keep(id, args)
	shown := p.show(id, args)
	if args.Early {
		go func() {
			answer := p.ask("early", object{"io.modelcontextprotocol/related-task": object{"taskId": id}})
			p.mu.Lock()
			defer p.mu.Unlock()
			args.Answers["early"] = answer
			p.keep(id, args)
		}()
	}
	if p.pipe != nil {
		go func() {
			p.meet(args.MS / 3)
			p.report(in.Meta.Token, 1, "begun")
		}()
	}
	if p.generation == newer {
		return shown
	}
	return object{"task": shown}
}

func (p *peer) keep(id string, args jobArgs) {
	raw, _ := json.Marshal(args)
	file := filepath.Join(p.dir, id)
	if err := errors.Join(os.WriteFile(file+".new", raw, 0o600), os.Rename(file+".new", file)); err != nil {
		panic(err)
	}
}

// status returns the status of a task.
func (a jobArgs) status() string {
	switch {
	case a.Ended:
		return "cancelled"
	case len(a.Answers) < len(a.Ask):
		return "input_required"
	case time.Now().UnixMilli() < a.Created+a.MS:
		return "working"
	case a.Fail != "":
		return map[string]string{"isError": "failed", "error": "failed", "cancelled": "cancelled"}[a.Fail]
	default:
		return "completed"
	}
}

// show shows a task.
func (p *peer) show(id string, args jobArgs) object {
	t := object{"taskId": id, "status": args.status(), "statusMessage": "it is " + args.status(), "resultType": "task"}
	if p.generation == older {
		t["ttl"], t["pollInterval"] = 60000, 20
		return t
	}
	t["ttlMs"], t["pollIntervalMs"] = 60000, 20
	requests := object{}
	for _, question := range args.Ask {
		if _, ok := args.Answers[question]; !ok {
			method := "elicitation/create"
			if question == "sample" {
				method = "sampling/createMessage"
			}
			requests[question] = object{"method": method, "params": object{"message": question}}
		}
	}
	t["inputRequests"] = requests
	return t
}

// tend answers requests about tasks.
func (p *peer) tend(method string, in params) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var args jobArgs
	raw, err := os.ReadFile(filepath.Join(p.dir, in.TaskID))
	if err != nil || json.Unmarshal(raw, &args) != nil {
		return nil, peertest.Refuse(-32602, "no such task")
	}
	t := p.show(in.TaskID, args)
	switch method {
	case "tasks/cancel":
		if args.status() == "completed" && p.generation == older {
			return nil, peertest.Refuse(-32602, "it is over")
		}
		args.Ended = true
		p.keep(in.TaskID, args)
		return p.show(in.TaskID, args), nil
	case "tasks/update":
		maps.Copy(args.Answers, in.InputResponses)
		p.keep(in.TaskID, args)
		return object{"resultType": "complete"}, nil
	case "tasks/result":
		return p.result(in.TaskID, args)
	}
	if p.generation == newer && (t["status"] == "completed" || t["status"] == "failed") {
		result, err := args.outcome()
		t["result"], t["error"] = result, err
		if args.Fail == "isError" {
			t["status"] = "completed"
		}
	}
	return t, nil
}

// outcome returns the result of the call.
func (a jobArgs) outcome() (any, error) {
	switch a.Fail {
	case "isError":
		return object{"isError": true, "content": []object{{"type": "text", "text": "went wrong"}}}, nil
	case "error":
		return nil, peertest.Refuse(-32603, "broken")
	}
	raw, _ := json.Marshal(a.Answers)
	return tells("done " + string(raw)), nil
}

// result sends the pending requests, and waits for the end. p.mu must be held; it is released meanwhile.
func (p *peer) result(id string, args jobArgs) (any, error) {
	p.mu.Unlock()
	defer p.mu.Lock()
	for _, question := range args.Ask {
		if _, ok := args.Answers[question]; ok {
			continue
		}
		meta := object{}
		if !args.Mute {
			meta["io.modelcontextprotocol/related-task"] = object{"taskId": id}
		}
		args.Answers[question] = p.ask(question, meta)
		p.keep(id, args)
	}
	p.meet(args.Created + args.MS - time.Now().UnixMilli())
	return args.outcome()
}

// note logs a request.
func (p *peer) note(method string, raw json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(p.dir, "requests"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(f, "%s %s\n", method, raw)
	_ = f.Close()
}
