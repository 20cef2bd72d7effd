package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The limits of a captured handshake.
const (
	// maxCaptured is the most captured bytes of one response body.
	maxCaptured = 1 << 20
	// maxCapturedBodies is the most captured response bodies.
	maxCapturedBodies = 8
)

// handshakeCapture reads the capabilities of a server from the messages of the handshake, because the SDK drops unknown
// capabilities, including tasks. A nil capture does nothing.
type handshakeCapture struct {
	mu sync.Mutex
	// finished is set when the handshake has ended.
	finished bool
	bodies   []*capturedBody
	// supportsTasks is set if a server of the older generation supports tool calls as tasks.
	supportsTasks bool
}

// handshakeCaptureKey is the context key of the capture.
type handshakeCaptureKey struct{}

// handshakeCaptureOf returns the capture in a context; nil if there is none.
func handshakeCaptureOf(ctx context.Context) *handshakeCapture {
	g, _ := ctx.Value(handshakeCaptureKey{}).(*handshakeCapture)
	return g
}

// onResult is called with each result that a process returns.
func (g *handshakeCapture) onResult(result json.RawMessage) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.finished {
		g.readCapabilities(result)
	}
}

// readCapabilities reads the capabilities from a result, if it is that of initialize. g.mu must be held.
func (g *handshakeCapture) readCapabilities(result json.RawMessage) {
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
		g.supportsTasks = r.Capabilities.Tasks.Requests.Tools.Call != nil
	}
}

// capture returns a body that records the data read from body.
func (g *handshakeCapture) capture(body io.ReadCloser) io.ReadCloser {
	if g == nil {
		return body
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.finished || len(g.bodies) == maxCapturedBodies {
		return body
	}
	l := &capturedBody{ReadCloser: body, capture: g}
	g.bodies = append(g.bodies, l)
	return l
}

// finish ends the capture, and reports whether the server supports tool calls as tasks, in the older generation.
func (g *handshakeCapture) finish() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.bodies {
		for _, msg := range messages(l.data) {
			if resp, ok := msg.(*jsonrpc.Response); ok {
				g.readCapabilities(resp.Result)
			}
		}
	}
	g.finished, g.bodies = true, nil
	return g.supportsTasks
}

// capturedBody is a response body that records the first maxCaptured bytes read from it. capture.mu guards data.
type capturedBody struct {
	io.ReadCloser

	capture *handshakeCapture
	data    []byte
}

// Read implements io.Reader.
func (l *capturedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.capture.mu.Lock()
	defer l.capture.mu.Unlock()
	if !l.capture.finished && len(l.data)+n <= maxCaptured {
		l.data = append(l.data, p[:n]...)
	}
	return n, err
}

// messages decodes the messages in a body: one JSON document, or server-sent events.
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
