// Package peertest implements the transport of MCP servers for tests. It does not use an SDK, so that the servers can misbehave in
// ways that an SDK does not permit.
package peertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// The generations of the protocol.
const (
	Older = "2025-11-25"
	Newer = "2026-07-28"
)

// Object is a JSON object.
type Object = map[string]any

// Message is a JSON-RPC message.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// RefusalError is a JSON-RPC error that a Handler returns.
type RefusalError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    Object `json:"data,omitempty"`
}

// Refuse returns a JSON-RPC error.
func Refuse(code int, message string) *RefusalError {
	return &RefusalError{Code: code, Message: message}
}

// Error implements error.
func (r *RefusalError) Error() string { return r.Message }

// Handler returns the result of a request. Its error must be a *RefusalError.
type Handler func(method string, params json.RawMessage) (any, error)

// Pipe is the transport of a server that is a child process.
type Pipe struct {
	// Replied is called with each answer of the client before Ask returns it; may be nil.
	Replied func(Message)

	writing sync.Mutex
	out     *json.Encoder

	mu      sync.Mutex
	asked   int
	replies map[string]chan Message // by the encoded id of the request
}

// NewPipe returns the transport of a server that writes to out.
func NewPipe(out io.Writer) *Pipe {
	return &Pipe{out: json.NewEncoder(out), replies: map[string]chan Message{}}
}

// Serve answers the requests of a client, each in a new goroutine, until in ends.
func (p *Pipe) Serve(in io.Reader, handle Handler) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var msg Message
		switch {
		case json.Unmarshal(line, &msg) != nil || msg.ID == nil:
		case msg.Method == "":
			p.replied(msg)
		default:
			go func() { p.Send(answer(msg, handle)) }()
		}
	}
}

// Send sends a message to the client.
func (p *Pipe) Send(msg Object) {
	p.writing.Lock()
	defer p.writing.Unlock()
	msg["jsonrpc"] = "2.0"
	_ = p.out.Encode(msg) // the client may have disconnected
}

// Ask sends a request to the client and waits for its answer.
func (p *Pipe) Ask(method string, params Object) Message {
	p.mu.Lock()
	p.asked++
	id := fmt.Sprintf("%q", "ask-"+strconv.Itoa(p.asked))
	reply := make(chan Message, 1)
	p.replies[id] = reply
	p.mu.Unlock()
	p.Send(Object{"id": json.RawMessage(id), "method": method, "params": params})
	return <-reply
}

// replied delivers an answer of the client to Ask.
func (p *Pipe) replied(msg Message) {
	if p.Replied != nil {
		p.Replied(msg)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.replies[string(msg.ID)]; ok {
		c <- msg
	}
}

// Handle answers an HTTP request with the result of handle.
func Handle(w http.ResponseWriter, r *http.Request, handle Handler) {
	body, _ := io.ReadAll(r.Body)
	var msg Message
	switch {
	case r.Method != http.MethodPost || json.Unmarshal(body, &msg) != nil:
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	case msg.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reply := answer(msg, handle)
	reply["jsonrpc"] = "2.0"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// answer returns the response of handle to a request.
func answer(msg Message, handle Handler) Object {
	result, err := handle(msg.Method, msg.Params)
	if err != nil {
		return Object{"id": msg.ID, "error": err}
	}
	return Object{"id": msg.ID, "result": result}
}
