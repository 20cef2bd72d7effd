package crash_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
)

// site is a node that serves the HTTP API, and a client of it.
type site struct {
	t      *testing.T
	node   *process
	remote *rpc.Remote
	secret string
}

func startSite(t *testing.T, dir string) *site {
	t.Helper()
	require.NoError(t, os.MkdirAll(tempDir(dir), 0o700))
	s := &site{t: t, node: spawn(t, roleNode, dir, envHTTP+"=1")}
	s.node.ready()
	var err error
	s.remote, err = node.Dial(t.Context(), config(dir, io.Discard))
	require.NoError(t, err)
	_, s.secret, err = bus.IssueToken(t.Context(), s.remote, bus.NewToken{Name: "client" + strconv.Itoa(s.node.pid()), Role: bus.RoleOperator})
	require.NoError(t, err)
	return s
}

// request sends a request. It returns nil if the node died meanwhile.
func (s *site) request(ctx context.Context, verb, path string, body io.Reader, header ...string) *http.Response {
	s.t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(s.node.said, "ready "), "/mcp") + "/api/v1" + path
	r, err := http.NewRequestWithContext(ctx, verb, address, body)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.secret)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil
	}
	return answer
}

// ask sends a request and decodes the answer. It returns status 0 if the node died meanwhile.
func (s *site) ask(ctx context.Context, verb, path string, body io.Reader, kind string, into any) (status int) {
	s.t.Helper()
	answer := s.request(ctx, verb, path, body, "Content-Type", kind)
	if answer == nil {
		return 0
	}
	defer func() { _ = answer.Body.Close() }()
	if json.NewDecoder(answer.Body).Decode(into) != nil {
		return 0
	}
	return answer.StatusCode
}

// stop stops the node.
func (s *site) stop() {
	_ = s.remote.Close()
	s.node.terminate()
}
