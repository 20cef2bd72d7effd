package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// alias is a prefix for methods, so that the SDK does not recognize them: it decodes the messages of methods that it knows, and
// drops unknown fields, including those of tasks. The prefix is removed when the message is sent.
const alias = "orch/"

// aliased returns the methods that are sent under an alias.
func aliased() []string {
	return []string{
		"tools/list", "tools/call", "tasks/get", "tasks/result", "tasks/cancel", "tasks/update",
		"resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
	}
}

// object is a JSON object.
type object = map[string]any

// rawParams are parameters with arbitrary fields.
type rawParams struct {
	mcp.ParamsBase

	fields object
}

// MarshalJSON implements json.Marshaler.
func (p *rawParams) MarshalJSON() ([]byte, error) {
	fields := object{}
	maps.Copy(fields, p.fields)
	if len(p.Meta) > 0 {
		fields["_meta"] = p.Meta
	}
	out := []byte{'{'}
	for name, value := range fields {
		raw, ok := value.(json.RawMessage)
		if !ok {
			var err error
			if raw, err = json.Marshal(value); err != nil {
				return nil, err
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, name), ':'), raw...)
	}
	return append(out, '}'), nil
}

// rawResult is an undecoded result.
type rawResult struct {
	mcp.ResultBase

	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *rawResult) UnmarshalJSON(b []byte) error {
	r.raw = bytes.Clone(b)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// requestMeta contains what the HTTP transport must know about a request beyond its JSON-RPC message.
type requestMeta struct {
	// name is the name of the tool, resource, prompt or task, for the header Mcp-Name.
	name string
	// headers are the headers for arguments of a tool (trait.headersOf).
	headers http.Header
	// token is the progress token of the call, "" for none. The response stream is tagged with it (taggedStream).
	token string
}

// requestMetaKey is the context key of the request metadata.
type requestMetaKey struct{}

// request calls a method and returns the undecoded result. It returns a *jsonrpc.Error for an error response of the server, and any
// other error for a failure of the transport.
func (c *connection) request(ctx context.Context, method string, p *rawParams, o requestMeta) (json.RawMessage, error) {
	ctx = context.WithValue(ctx, requestMetaKey{}, o)
	result, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, c.session, alias+method, p)
	if err != nil {
		return nil, err
	}
	if len(result.raw) == 0 || result.raw[0] != '{' {
		return nil, errors.New("the server answers with something that is not an object")
	}
	return result.raw, nil
}

// addAliases registers the aliases at a client.
func addAliases(client *mcp.Client) error {
	for _, method := range aliased() {
		if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, alias+method); err != nil {
			return err
		}
	}
	return nil
}

// unaliased returns a message with the real name of its method, and whether the method had the alias prefix.
func unaliased(msg jsonrpc.Message) (jsonrpc.Message, bool) {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !strings.HasPrefix(req.Method, alias) {
		return msg, false
	}
	renamed := *req
	renamed.Method = strings.TrimPrefix(req.Method, alias)
	return &renamed, true
}

// processConn is a connection to a process. It removes the alias prefix from requests, and captures the handshake.
type processConn struct {
	mcp.Connection

	capture *handshakeCapture
}

// wrapProcessConn wraps the connection to a process.
func wrapProcessConn(ctx context.Context, conn mcp.Connection) mcp.Connection {
	return &processConn{Connection: conn, capture: handshakeCaptureOf(ctx)}
}

// Write implements mcp.Connection.
func (p *processConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	msg, _ = unaliased(msg)
	return p.Connection.Write(ctx, msg)
}

// Read implements mcp.Connection.
func (p *processConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := p.Connection.Read(ctx)
	if resp, ok := msg.(*jsonrpc.Response); ok && err == nil {
		p.capture.onResult(resp.Result)
	}
	return msg, err
}

// aliasTransport sends requests with the real names of their methods, captures the handshake, and tags response streams.
type aliasTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r aliasTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Method != http.MethodPost || req.Body == nil {
		return r.base.RoundTrip(req)
	}
	o, ok := ctx.Value(requestMetaKey{}).(requestMeta)
	if ok {
		var err error
		if req, err = o.rename(req); err != nil {
			return nil, err
		}
	}
	resp, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = handshakeCaptureOf(ctx).capture(resp.Body)
	if o.token != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = tagStream(resp.Body, o.token)
	}
	return resp, nil
}

// rename returns a request with the real name of its method in the body and in the headers.
func (o requestMeta) rename(req *http.Request) (*http.Request, error) {
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close() // the body is in memory
	if err != nil {
		return nil, err
	}
	const methodHeader, nameHeader = "Mcp-Method", "Mcp-Name"
	req = req.Clone(req.Context())
	if msg, err := jsonrpc.DecodeMessage(body); err == nil {
		if msg, ok := unaliased(msg); ok {
			if body, err = jsonrpc.EncodeMessage(msg); err != nil {
				return nil, err
			}
			if req.Header.Get(methodHeader) != "" { // the newer generation of the protocol
				req.Header.Set(methodHeader, strings.TrimPrefix(req.Header.Get(methodHeader), alias))
				if o.name != "" {
					req.Header.Set(nameHeader, o.name)
				}
				maps.Copy(req.Header, o.headers)
			}
		}
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return req, nil
}
