package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The bounds of what is kept of a handshake, in bytes and in answers.
const (
	maxGreeting  = 1 << 20
	maxGreetings = 8
)

// greeting hears the handshake with a server: the SDK drops what it does not know of the capabilities, and tasks are
// among that. A nil greeting hears nothing.
type greeting struct {
	mu     sync.Mutex
	over   bool
	bodies []*listener
	// takesTasks tells that calls of tools may be made tasks in the older generation of the protocol.
	takesTasks bool
}

// greetingKey is the key of the greeting of a context.
type greetingKey struct{}

// greetingOf returns the greeting of a context; nil when there is none.
func greetingOf(ctx context.Context) *greeting {
	g, _ := ctx.Value(greetingKey{}).(*greeting)
	return g
}

// told hears a result.
func (g *greeting) told(result json.RawMessage) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.hear(result)
	}
}

// hear looks for the capabilities in a result. g.mu is held.
func (g *greeting) hear(result json.RawMessage) {
	var r struct {
		ProtocolVersion string `json:"protocolVersion"`
		Capabilities    struct {
			Tasks struct {
				Requests struct {
					Tools struct {
						Call *json.RawMessage `json:"call"`
					} `json:"tools"`
				} `json:"requests"`
			} `json:"tasks"`
		} `json:"capabilities"`
	}
	if json.Unmarshal(result, &r) == nil && r.ProtocolVersion != "" {
		g.takesTasks = r.Capabilities.Tasks.Requests.Tools.Call != nil
	}
}

// listen hears the body of an answer while it is read.
func (g *greeting) listen(body io.ReadCloser) io.ReadCloser {
	if g == nil {
		return body
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || len(g.bodies) == maxGreetings {
		return body
	}
	l := &listener{ReadCloser: body, greeting: g}
	g.bodies = append(g.bodies, l)
	return l
}

// end ends the hearing, and reports whether calls of tools may be made tasks in the older generation.
func (g *greeting) end() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.bodies {
		for _, msg := range messages(l.heard) {
			if resp, ok := msg.(*jsonrpc.Response); ok {
				g.hear(resp.Result)
			}
		}
	}
	g.over, g.bodies = true, nil
	return g.takesTasks
}

// listener is a body whose beginning is kept. What is kept is guarded by the greeting.
type listener struct {
	io.ReadCloser

	greeting *greeting
	heard    []byte
}

// Read implements io.Reader.
func (l *listener) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.greeting.mu.Lock()
	defer l.greeting.mu.Unlock()
	if !l.greeting.over && len(l.heard)+n <= maxGreeting {
		l.heard = append(l.heard, p[:n]...)
	}
	return n, err
}

// messages returns those of a body: one JSON document, or the events of a stream.
func messages(body []byte) []jsonrpc.Message {
	if msg, err := jsonrpc.DecodeMessage(body); err == nil {
		return []jsonrpc.Message{msg}
	}
	var all []jsonrpc.Message
	for event := range bytes.SplitSeq(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
		var data []byte
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(data, rest...)
			}
		}
		if msg, err := jsonrpc.DecodeMessage(data); err == nil {
			all = append(all, msg)
		}
	}
	return all
}
