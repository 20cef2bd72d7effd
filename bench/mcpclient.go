package bench

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// mcpClient is a minimal client of the MCP endpoint of a node. It sends the same request repeatedly, and parses answers
// only as far as necessary.
type mcpClient struct {
	http       http.RoundTripper
	url, token string
	stateless  bool
	session    string
	task       string
}

// The generations of MCP.
const (
	versionStateful  = "2025-11-25"
	versionStateless = "2026-07-28"
)

const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
)

const (
	mcpInitialize    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	mcpInitialized   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	mcpCall          = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"BENCH_NOOP","arguments":{}}}`
	mcpCallTask      = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"BENCH_NOOP","arguments":{},"task":{}}}`
	mcpCallStateless = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"BENCH_NOOP","arguments":{},` + mcpMeta + `}}`
	mcpList          = `{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}`
	mcpListStateless = `{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{` + mcpMeta + `}}`
	mcpMeta          = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// newMCPTransport returns the shared transport of the clients of one server.
func newMCPTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: mcpClients, DisableCompression: true}
}

// newMCPClient returns a client. Unless the client is stateless, newMCPClient first opens a session.
func newMCPClient(ctx context.Context, over http.RoundTripper, url, token string, stateless bool) (*mcpClient, error) {
	c := &mcpClient{http: over, url: url, token: token, stateless: stateless}
	if stateless {
		return c, nil
	}
	if _, err := c.post(ctx, mcpInitialize); err != nil {
		return nil, err
	}
	_, err := c.post(ctx, mcpInitialized)
	return c, err
}

// call calls the no-op tool.
func (c *mcpClient) call(ctx context.Context) error {
	body := mcpCall
	if c.stateless {
		body = mcpCallStateless
	}
	answer, err := c.post(ctx, body)
	if err == nil && !bytes.Contains(answer, []byte(`"structuredContent":{}`)) {
		return fault.New(fault.Internal, "a call of the benchmark was answered with %q", clip(answer))
	}
	return err
}

// list requests the first page of the tools.
func (c *mcpClient) list(ctx context.Context) error {
	body := mcpList
	if c.stateless {
		body = mcpListStateless
	}
	answer, err := c.post(ctx, body)
	if err == nil && !bytes.Contains(answer, []byte(`"`+noopName+`"`)) {
		return fault.New(fault.Internal, "a tools/list request of the benchmark was answered with %q", clip(answer))
	}
	return err
}

// get requests the state of a task. The first call creates the task.
func (c *mcpClient) get(ctx context.Context) error {
	if c.task == "" {
		answer, err := c.post(ctx, mcpCallTask)
		if err != nil {
			return err
		}
		_, after, _ := bytes.Cut(answer, []byte(`"taskId":"`))
		id, _, _ := bytes.Cut(after, []byte(`"`))
		c.task = string(id)
	}
	answer, err := c.post(ctx, `{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"`+c.task+`"}}`)
	if err == nil && !bytes.Contains(answer, []byte(`"status":"`)) {
		return fault.New(fault.Internal, "a tasks/get request of the benchmark was answered with %q", clip(answer))
	}
	return err
}

// listen opens the stream of the session, which stays open until ctx ends.
func (c *mcpClient) listen(ctx context.Context) error {
	r, err := c.request(ctx, http.MethodGet, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.RoundTrip(r)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "a stream of the benchmark was answered with %s", answer.Status)
	}
	return nil
}

// close closes the session.
func (c *mcpClient) close(ctx context.Context) error {
	r, err := c.request(ctx, http.MethodDelete, nil)
	if err == nil {
		_, err = c.send(r)
	}
	return err
}

// post sends a message and returns the raw answer.
func (c *mcpClient) post(ctx context.Context, body string) ([]byte, error) {
	r, err := c.request(ctx, http.MethodPost, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	switch {
	case !c.stateless:
	case body == mcpListStateless:
		r.Header["Mcp-Method"] = []string{"tools/list"}
	default:
		r.Header["Mcp-Method"], r.Header["Mcp-Name"] = []string{"tools/call"}, []string{noopName}
	}
	return c.send(r)
}

func (c *mcpClient) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, body)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + c.token}}
	switch {
	case c.stateless:
		r.Header[headerVersion] = []string{versionStateless}
	case c.session != "":
		r.Header[headerVersion] = []string{versionStateful}
		r.Header[headerSession] = []string{c.session}
	}
	return r, nil
}

func (c *mcpClient) send(r *http.Request) ([]byte, error) {
	answer, err := c.http.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if id := answer.Header.Get(headerSession); id != "" {
		c.session = id
	}
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		return nil, fault.New(fault.Unavailable, "a request of the benchmark was answered with %s: %q", answer.Status, clip(data))
	}
	return data, err
}

func clip(data []byte) string { return string(data[:min(len(data), 300)]) }
