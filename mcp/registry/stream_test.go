package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/registry"
)

// Over HTTP a question that comes on the stream of a call belongs to that call.
func TestQuestionsOnStreams(t *testing.T) {
	t.Parallel()
	type in struct {
		Name string `json:"name"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	var both sync.WaitGroup
	both.Add(2)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
		both.Done()
		both.Wait() // the two calls work at the same time
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "is it " + in.Name + "?"})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	w := newWorld(t)
	w.put("web.json", `{"schemaVersion":"1.0.0","name":"web","transport":"http","baseURL":"`+web.URL+`","capabilities":["tools"]}`)
	w.start()
	report, err := w.Test(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, older, report.ProtocolVersion)
	var group sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		group.Go(func() {
			reply, err := w.Call(t.Context(), registry.CallRequest{
				Server: "web", Tool: "greet", Args: json.RawMessage(`{"name":"` + name + `"}`),
				Ask: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
					assert.JSONEq(t, `{"message":"is it `+name+`?","mode":"form"}`, string(params))
					return json.RawMessage(`{"action":"accept"}`), nil
				},
			})
			if assert.NoError(t, err) {
				assert.Contains(t, string(reply.Result), "accept")
			}
		})
	}
	group.Wait()
	assert.NotContains(t, w.log.String(), "mcp_request_refused")
}

func TestMark(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"n":1.50}}`:           `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"_meta":{"orch/call":"T"},"n":1.50}}`,
		`data:{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"a":1}}}`: `data: {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"a":1,"orch/call":"T"}}}`,
		`data: {"jsonrpc":"2.0","id":1,"result":"elicitation/create"}`:                               "",
		`data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":7}`:                    "",
		`: elicitation/create`:                          "",
		`data: {"method":"elicitation/create"`:          "",
		strings.Repeat("x", 100_000):                    "",
		`data: elicitation/create` + "\n\nevent: x\n\n": "",
	} {
		got, err := io.ReadAll(registry.Mark(io.NopCloser(strings.NewReader(line+"\n")), "T"))
		require.NoError(t, err)
		if want == "" {
			want = line
		}
		assert.Equal(t, want+"\n", string(got))
	}
}

// What is no question passes as it is.
func FuzzMark(f *testing.F) {
	f.Add([]byte("event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":{}}\n\n"))
	f.Add([]byte("data: {}\ndata: 7"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := io.ReadAll(registry.Mark(io.NopCloser(bytes.NewReader(body)), "T"))
		require.NoError(t, err)
		if !bytes.Contains(body, []byte("elicitation/create")) && !bytes.Contains(body, []byte("sampling/createMessage")) {
			require.Equal(t, string(body), string(got))
		}
		require.GreaterOrEqual(t, bytes.Count(got, []byte("\n")), bytes.Count(body, []byte("\n")))
	})
}
