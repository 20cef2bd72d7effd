package forge_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is the token of the tests.
const secret = "ghp_hunter2hunter2"

// answer is a response of the server.
type answer struct {
	status int
	body   any
	header map[string]string
	// raw is sent instead of the body, and not validated.
	raw string
}

// server is a fake GitHub. Every request, and every response with a documented status, is validated against the
// OpenAPI description of GitHub.
type server struct {
	description

	t   *testing.T
	url string
	mu  sync.Mutex
	// answers by "METHOD /path"; other requests get 404.
	answers map[string]answer
	// requests are the received request lines, bodies their bodies, headers those of the last one.
	requests []string
	bodies   []string
	header   http.Header
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{description: describe(t), t: t, answers: map[string]answer{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

// on sets an answer.
func (s *server) on(request string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[request] = a
}

// seen returns the requests so far and forgets them.
func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.requests
	s.requests = nil
	return seen
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	assert.NoError(s.t, err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	path := strings.TrimPrefix(r.URL.Path, "/api/v3")
	line := r.Method + " " + path
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.answers[line]
	if !ok {
		a = s.problem(http.StatusNotFound)
	}
	if r.URL.RawQuery != "" {
		line += "?" + r.URL.RawQuery
	}
	s.requests, s.bodies, s.header = append(s.requests, line), append(s.bodies, string(body)), r.Header.Clone()

	route, params := s.route(r, path)
	if !assert.NotNil(s.t, route, "GitHub has no operation for %s", line) {
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: options()}
	assert.NoError(s.t, openapi3filter.ValidateRequest(r.Context(), in), line)
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	text := []byte(a.raw)
	if a.raw == "" {
		text, err = json.Marshal(a.body)
		assert.NoError(s.t, err)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if route.Operation.Responses.Status(a.status) != nil && a.status != http.StatusServiceUnavailable {
			out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: w.Header(), Options: options()}
			assert.NoError(s.t, openapi3filter.ValidateResponse(r.Context(), out.SetBodyBytes(text)), line)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(text) // the reader may close at its limit
}

// problem is an unsuccessful response. Its message must appear only in the log.
func (s *server) problem(status int, details ...object) answer {
	body := object{"message": "verbatim words of GitHub", "documentation_url": "https://docs.github.com/rest"}
	if status == http.StatusUnprocessableEntity {
		body["errors"] = append([]object{}, details...)
	}
	return answer{status: status, body: body}
}

// file is the response with an object of a repository.
func (s *server) file(schema string, own object) answer {
	return answer{status: http.StatusOK, body: s.object(s.t, schema, own)}
}

// repository creates o/r with the branch main.
func (s *server) repository() {
	s.on("GET /repos/o/r", answer{status: http.StatusOK, body: s.object(s.t, "full-repository", object{"default_branch": "trunk"})})
	s.on("GET /repos/o/r/commits/main", answer{status: http.StatusOK, body: s.object(s.t, "commit", nil)})
}

func (s *server) config() forge.Config { return forge.Config{URL: s.url, Token: secret} }

func newEnv() *tools.Env {
	return &tools.Env{
		Task: "TASK_01JD0000000000000000000000", Step: "call", Key: "TASK_01JD0000000000000000000000/call",
		State: statemachine.InProgress, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}
}

func tool(t *testing.T, cfg forge.Config, name string) tools.Tool {
	t.Helper()
	for _, tool := range forge.Tools(cfg) {
		if tool.Spec().Name == name {
			return tool
		}
	}
	require.FailNow(t, "no tool "+name)
	return nil
}

// call checks the arguments, runs the tool and validates its output against its schema and that of the specification.
func call(t *testing.T, tool tools.Tool, args object) (object, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	if raw, err = tool.Check(raw); err != nil {
		return nil, err
	}
	data, err := tool.Call(t.Context(), newEnv(), raw)
	if err != nil {
		return nil, err
	}
	toolstest.Output(t, tool, data)
	if schema := specified(t, tool.Spec().Name)["output"]; schema != nil {
		delete(schema, "$schema")
		text, err := json.Marshal(schema)
		require.NoError(t, err)
		var value any
		require.NoError(t, json.Unmarshal(data, &value))
		require.NoError(t, toolstest.Compile(t, text).Validate(value))
	}
	var out object
	require.NoError(t, json.Unmarshal(data, &out))
	return out, nil
}

// failed checks the code, reason and field of an error, and that it contains nothing secret.
func failed(t *testing.T, err error, code fault.Code, reason, field string) fault.Error {
	t.Helper()
	e := fault.From(err)
	require.NotNil(t, e)
	assert.Equal(t, []string{string(code), reason, field}, []string{string(e.Code), e.Reason, e.Field}, "%v", err)
	public, err := json.Marshal(e)
	require.NoError(t, err)
	for _, text := range []string{string(public), e.Error(), causes(*e)} {
		assert.NotContains(t, text, secret)
	}
	assert.NotContains(t, string(public), "verbatim")
	assert.NotContains(t, e.Message+e.Hint, "http://")
	return *e
}

// causes returns the text of an error for the log of the node.
func causes(e fault.Error) string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// in returns arguments for o/r.
func in(own object) object {
	args := object{"owner": "o", "repo": "r"}
	maps.Copy(args, own)
	return args
}
