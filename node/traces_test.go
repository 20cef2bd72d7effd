package node_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
)

// spansOf returns the spans of OTLP in JSON, in their order.
func spansOf(t *testing.T, groups json.RawMessage) []string {
	t.Helper()
	var list []struct {
		ScopeSpans []struct{ Spans []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(groups, &list), "%s", groups)
	spans := []string{}
	for _, s := range list[0].ScopeSpans[0].Spans {
		spans = append(spans, string(s))
	}
	return spans
}

// The spans of a task come page by page, and all of them once.
func TestPagesOfATrace(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	plan := `{"plan":{"orch":"v1","name":"many","steps":[{"id":"each","for_each":[1,2,3,4,5,6,7],"do":[{"id":"say","tool":"LOG_WRITE","with":{"level":"INFO","message":"hello"}}]}]}}`
	status, answer, h := e.request("POST", "/api/v1/tasks", e.token, plan, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	require.Equal(t, http.StatusCreated, status, answer)
	task := h.Get("Location")
	_, _, _ = e.request("GET", task+"/result?wait=30s", e.token, "")
	read := func(query string) rest.Trace {
		status, answer, _ := e.request("GET", task+"/trace"+query, e.token, "")
		return decode[rest.Trace](t, status, answer)
	}
	whole := read("")
	all := spansOf(t, whole.ResourceSpans)
	assert.Len(t, all, 16, "the task, its step, and seven steps with an attempt")
	assert.Equal(t, 16, whole.Spans)
	assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", whole.Trace)
	assert.Zero(t, *whole.Open)
	assert.Zero(t, whole.Next)
	pages := []string{}
	for page := read("?limit=3"); ; page = read(fmt.Sprintf("?limit=3&from=%d", page.Next)) {
		some := spansOf(t, page.ResourceSpans)
		assert.Len(t, some, page.Spans)
		pages = append(pages, some...)
		assert.Equal(t, page.Next > 0, page.Open == nil, "the last page says what is open")
		if page.Next == 0 {
			break
		}
		assert.GreaterOrEqual(t, len(some), 3)
		assert.Less(t, len(some), 16)
	}
	assert.Equal(t, all, pages)

	status, answer, _ = e.request("POST", "/api/v1/tasks", e.token, `{"plan":{"orch":"v1","name":"waits","steps":[{"id":"go","wait":{"signal":"go"}}]}}`)
	require.Equal(t, http.StatusCreated, status, answer)
	task = "/api/v1/tasks/" + decode[struct{ ID string }](t, http.StatusOK, answer).ID
	open := read("")
	assert.Positive(t, *open.Open)
	assert.Empty(t, spansOf(t, open.ResourceSpans))
	for _, query := range []string{"?limit=5001", "?limit=-1", "?from=x"} {
		status, answer, _ = e.request("GET", task+"/trace"+query, e.token, "")
		assert.Equal(t, http.StatusBadRequest, status, answer)
	}
}

// A node says in its status and its metrics how the export of traces stands.
func TestExportOfTraces(t *testing.T) {
	t.Parallel()
	answers, bodies := make(chan int, 100), make(chan string, 100)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		select {
		case code := <-answers:
			w.WriteHeader(code)
		default:
		}
	}))
	t.Cleanup(site.Close)
	answers <- http.StatusForbidden
	e := serveRPC(t, func(c *node.Config) {
		c.Traces = settings.Traces{To: site.URL, View: "https://jaeger.example.com/trace/{trace}"}
	})
	status, answer, h := e.request("POST", "/api/v1/tasks", e.token, helloPlan)
	require.Equal(t, http.StatusCreated, status, answer)
	_, _, _ = e.request("GET", h.Get("Location")+"/result?wait=30s", e.token, "")
	view := func() *api.TracesView {
		s, err := e.API().Status(t.Context(), api.StatusRequest{})
		require.NoError(t, err)
		return s.Traces
	}
	require.Eventually(t, func() bool { return view().Error != "" }, 10*time.Second, 5*time.Millisecond)
	assert.Contains(t, view().Error, "the collector answers 403")
	assert.Contains(t, view().Hint, "OTEL_EXPORTER_OTLP_HEADERS")
	assert.False(t, view().FailingSince.IsZero())
	require.Eventually(t, func() bool { return view().Sent == 3 && view().Error == "" }, 10*time.Second, 5*time.Millisecond)
	assert.Equal(t, &api.TracesView{To: site.URL, View: "https://jaeger.example.com/trace/{trace}", Sent: 3}, view())
	assert.Contains(t, scrape(t, e.site(""), e.token), "orch_traces_oldest_age_seconds")
	self, err := e.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	resource := fmt.Sprintf(`{"key":"service.instance.id","value":{"stringValue":%q}},{"key":"host.name","value":{"stringValue":%q}}`, self.Instance, self.Host)
	assert.Contains(t, <-bodies, resource)
	_, answer, _ = e.request("GET", h.Get("Location")+"/trace", e.token, "")
	assert.Contains(t, answer, resource, "both say which node it is")
}

// What is wrong with the settings ends the start, without a word about the headers.
func TestWrongCollectors(t *testing.T) { //nolint:paralleltest // it sets a variable
	for _, variable := range []string{"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(variable, "a\nb")
		c := config(t)
		c.Traces.To = "http://127.0.0.1:4318"
		_, err := node.Start(t.Context(), c)
		require.Error(t, err)
		assert.Equal(t, variable, fault.From(err).Field)
		t.Setenv(variable, "")
	}
	for to, header := range map[string]string{"http://collector.example.com": "authorization=s3cret", "https://collector.example.com": "s3cret"} {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
		c := config(t)
		c.Traces.To = to
		_, err := node.Start(t.Context(), c)
		require.Error(t, err)
		assert.Contains(t, []fault.Code{fault.ValidationError, fault.InvalidFormat}, fault.CodeOf(err))
		assert.NotContains(t, err.Error(), "s3cret")
	}
}
