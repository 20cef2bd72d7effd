package orchestrator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/plan"
)

// A call with arguments that are longer than a message is by default reaches its worker unchanged. The test does not run beside
// others: with the race detector it needs most of the time that a request may wait.
func TestLargeArguments(t *testing.T) { //nolint:paralleltest // see above
	n := start(t, memlog.New(memlog.Config{}))
	args := []byte(`{"text":"` + strings.Repeat("x", 3<<19) + `"}`)
	p, err := plan.FromCall("READ", args)
	require.NoError(t, err)
	reply, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: p.JSON(), Actor: "user:test"})
	require.NoError(t, err)
	c := n.take("w")
	assert.Equal(t, reply.ID, c.Task)
	assert.JSONEq(t, string(args), string(c.Args))
}
