package orch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func open(t *testing.T, dir string) *orch.Node {
	t.Helper()
	n, err := orch.Open(t.Context(), orch.Options{Dir: dir, Relaxed: true})
	require.NoError(t, err)
	return n
}

// A task that waits when the node is closed goes on when it is opened again, and its key still names it.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	task := orch.Task{Plan: plan.New("order").Step("paid", plan.Signal("paid")).Output("by", "steps.paid.output"), Key: "order-7"}
	n := open(t, dir)
	id, err := n.Submit(t.Context(), task)
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = n.Wait(short, id)
	assert.Equal(t, fault.Timeout, fault.CodeOf(err))
	require.NoError(t, n.Close())

	n = open(t, dir)
	again, err := n.Submit(t.Context(), task)
	require.NoError(t, err)
	assert.Equal(t, id, again)
	require.NoError(t, n.Signal(t.Context(), id, "paid", "ada"))
	result, err := n.Wait(t.Context(), id)
	require.NoError(t, err)
	var out struct{ By string }
	require.NoError(t, result.Decode(&out))
	assert.Equal(t, "ada", out.By)
	require.NoError(t, n.Close())
}

func TestErrorsOfANode(t *testing.T) {
	t.Parallel()
	_, err := orch.Open(t.Context(), orch.Options{})
	assert.Equal(t, []any{fault.RequiredField, "Dir"}, []any{fault.CodeOf(err), fault.From(err).Field})
	dir := t.TempDir()
	n := open(t, dir)
	_, err = orch.Open(t.Context(), orch.Options{Dir: dir})
	require.Error(t, err, "it is open")

	_, err = n.Submit(t.Context(), orch.Task{Plan: plan.New("none")})
	assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err))
	_, err = n.Submit(t.Context(), orch.Task{Plan: make(chan int)})
	assert.Equal(t, []any{fault.ValidationError, "Plan"}, []any{fault.CodeOf(err), fault.From(err).Field})
	_, err = n.Wait(t.Context(), "TASK_01JD0000000000000000000000")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))

	id, err := n.Submit(t.Context(), orch.Task{Plan: "orch: v1\nname: text\nsteps: [{id: a, set: {x: \"${{ [1][2] }}\"}}]\n"})
	require.NoError(t, err)
	result, err := n.Wait(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "FAILED", result.State)
	require.Error(t, result.Err)
	require.ErrorIs(t, result.Decode(&struct{}{}), result.Err)
	require.NoError(t, n.Close())
}
