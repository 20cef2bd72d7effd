package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// A line that is too long is refused and skipped, and so is a last one without an end.
func TestStdioLines(t *testing.T) {
	t.Parallel()
	s := startNode(t).face()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), in, out) }()
	answers := json.NewDecoder(from)
	for _, step := range []struct{ say, want string }{
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", server.MaxLine) + "\"}\r\n", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 16 MiB"}}`},
		{"\r\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n", `{"jsonrpc":"2.0","id":1,"result":{}}`},
	} {
		_, err := io.WriteString(to, step.say)
		require.NoError(t, err)
		var got json.RawMessage
		require.NoError(t, answers.Decode(&got))
		assert.JSONEq(t, step.want, string(got))
	}
	go func() {
		_, err := io.WriteString(to, `{"jsonrpc":`)
		assert.NoError(t, err)
		assert.NoError(t, to.Close())
	}()
	var got json.RawMessage
	require.NoError(t, answers.Decode(&got))
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this is not valid JSON"}}`, string(got))
	require.NoError(t, <-ended)
}

// The SDK writes the URI of an unknown resource into its error as Go does, which is not always JSON.
func TestOddURIsEndNoSession(t *testing.T) {
	t.Parallel()
	s := startNode(t).face(func(c *server.Config) { c.Stores.Outside = newOutside() })
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(s.Serve(t.Context(), in, out), out.Close()) }()
	answers := json.NewDecoder(from)
	for _, say := range []string{
		initialize, `{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"orch://task/\u0007"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"nowhere:\u0007"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"orch://server/x/\udb40\udc01"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"orch://server/x/\u0007"}}`,
	} {
		_, err := io.WriteString(to, say+"\n")
		require.NoError(t, err)
		var got struct {
			ID    int
			Error *struct{ Code int }
		}
		require.NoError(t, answers.Decode(&got), say)
		if got.ID > 1 {
			require.NotNil(t, got.Error, say)
			assert.Equal(t, -32002, got.Error.Code, say)
		}
	}
	require.NoError(t, to.Close())
	require.NoError(t, <-ended)
}
