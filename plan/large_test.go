package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func largeArgs(n int) json.RawMessage {
	return json.RawMessage(`{"text":"` + strings.Repeat("x", n) + `"}`)
}

// The arguments of a call may be as large as the documented limit; text of people may not.
func TestLargeCalls(t *testing.T) {
	t.Parallel()
	p, err := plan.FromCall("WRITE", largeArgs(3<<20))
	require.NoError(t, err)
	_, _, err = plan.Load("plan", p.JSON(), plan.Options{Accepted: true})
	require.NoError(t, err)
	_, err = plan.FromCall("WRITE", largeArgs(4<<20))
	require.Equal(t, fault.ValidationError, fault.CodeOf(err))
	assert.Equal(t, "arguments", fault.From(err).Field)
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", fault.From(err).Reason)
	for name, src := range map[string]string{
		"YAML":    "orch: v1\nsummary: " + strings.Repeat("x", 1<<20),
		"no JSON": "{" + strings.Repeat("x", 1<<20),
	} {
		_, _, err := plan.Load("plan", []byte(src), plan.Options{Accepted: true})
		assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err), name)
		assert.ErrorContains(t, err, "more than 1048576", name)
	}
}
