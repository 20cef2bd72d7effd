package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// The fields of a submission that name its trace are checked; what is too long to be handed on is shortened.
func TestTraceOfASubmission(t *testing.T) {
	t.Parallel()
	const position = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	n := start(t, memlog.New(memlog.Config{}))
	for _, test := range []struct {
		parent, state string
		code          fault.Code
		field, want   string
	}{
		{position, " rojo=1 ,, congo=t61", "", "", "rojo=1,congo=t61"},
		{position, "", "", "", ""},
		{"none", "rojo=1", fault.InvalidFormat, "traceparent", ""},
		{position, "none", fault.InvalidFormat, "tracestate", ""},
		{"", "rojo=1", fault.RequiredField, "traceparent", ""},
	} {
		reply, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: []byte(waitingPlan), TraceParent: test.parent, TraceState: test.state})
		if test.code != "" {
			require.Error(t, err)
			assert.Equal(t, []any{test.code, test.field}, []any{fault.From(err).Code, fault.From(err).Field})
			continue
		}
		require.NoError(t, err)
		view, err := n.Get(n.ctx(), api.GetRequest{ID: reply.ID})
		require.NoError(t, err)
		assert.Equal(t, test.want, view.TraceState)
	}
}
