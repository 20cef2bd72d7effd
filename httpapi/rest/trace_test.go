package rest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/httpapi/rest"
)

// A submission belongs to the trace that its body names, or else to that of its header. A header that is none is ignored.
func TestTraceOfASubmission(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const position = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, test := range []struct{ header, body, want string }{
		{position, `{"plan":{}}`, position},
		{"none", `{"plan":{}}`, ""},
		{position, `{"plan":{},"traceparent":"own"}`, "own"},
	} {
		s.as(rest.Agent, http.MethodPost, "/tasks", test.body, "traceparent", test.header)
		r, ok := s.api.last("submit").(api.SubmitRequest)
		require.True(t, ok)
		assert.Equal(t, test.want, r.TraceParent)
	}
	for _, test := range []struct{ parent, state, body, want string }{
		{position, "rojo=1, congo=t61", `{"plan":{}}`, "rojo=1,congo=t61"},
		{position, "none", `{"plan":{}}`, ""},
		{"none", "rojo=1", `{"plan":{}}`, ""},
		{position, "rojo=1", `{"plan":{},"traceparent":"own","tracestate":"a=b"}`, "a=b"},
		{position, "rojo=1", `{"plan":{},"traceparent":"own"}`, ""},
	} {
		s.as(rest.Agent, http.MethodPost, "/tasks", test.body, "traceparent", test.parent, "tracestate", test.state)
		r, ok := s.api.last("submit").(api.SubmitRequest)
		require.True(t, ok)
		assert.Equal(t, test.want, r.TraceState)
	}
}
