package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// every code of the registry has exactly one exit code.
func TestEveryCodeHasOneExit(t *testing.T) {
	t.Parallel()
	rows := map[fault.Code]int{}
	for _, row := range exits() {
		assert.NotEmpty(t, row.meaning)
		for _, code := range row.codes {
			assert.NotContains(t, rows, code)
			rows[code] = row.exit
		}
	}
	for _, e := range fault.Registry() {
		assert.Contains(t, rows, e.Code)
		assert.Equal(t, rows[e.Code], exitOfCode(e.Code))
	}
	assert.Len(t, rows, len(fault.Registry()))
}

func TestExitOfTask(t *testing.T) {
	t.Parallel()
	for state, want := range map[statemachine.State]int{
		statemachine.Done: 0, statemachine.Failed: 7, statemachine.InProgress: 8, statemachine.AwaitingApproval: 9,
		statemachine.Cancelled: 10, "": 1,
	} {
		assert.Equal(t, want, exitOfTask(state), "%s", state)
	}
	assert.Equal(t, exitInternal, exitOf(errors.New("x")))
	assert.Equal(t, exitOK, exitOf(nil))
	assert.Equal(t, exitDetached, exitOf(&exitError{exit: exitDetached}))
}

func TestEveryCommandHasHelpAndAnExample(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		assert.NotEmpty(t, cmd.Short, cmd.CommandPath())
		if cmd.Runnable() && cmd.Name() != "completion" && (!cmd.HasParent() || cmd.Parent().Name() != "completion") {
			assert.Contains(t, cmd.Example, "orch ", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(newProbe(t).app))
}

func TestErrorsAsTextAndJSON(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	assert.Equal(t, exitUnreachable, p.run(t.Context(), []string{"list"}))
	assert.Equal(t, "error: no node is running on x (UNAVAILABLE)\nhint: start one: orch serve\n", p.err.String())
	p = newProbe(t)
	assert.Equal(t, exitUnreachable, p.run(t.Context(), []string{"list", "-o", "json"}))
	assert.JSONEq(t, `{"code":-32507,"name":"UNAVAILABLE","message":"no node is running on x","hint":"start one: orch serve","exit":5}`, p.err.String())
	assert.Empty(t, p.out.String())
}

func TestForeignTextInErrorsIsEscaped(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.nodes = &fakeNodes{err: fault.New(fault.Conflict, "held by \x1b]0;x\a").WithField("f\n").WithHint("h\r")}
	assert.Equal(t, exitConflict, p.run(t.Context(), []string{"list"}))
	assert.Equal(t, "error: f\\n: held by \\x1b]0;x\\x07 (CONFLICT)\nhint: h\\r\n", p.err.String())
}

func TestInternalCausesStayInside(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.nodes = &fakeNodes{err: errors.New("password is hunter2")}
	assert.Equal(t, exitInternal, p.run(t.Context(), []string{"list"}))
	assert.NotContains(t, p.err.String(), "hunter2")
}

func TestOutputIsKnownBeforeTheSettings(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"json":  {"x", "--json"},
		"jsonl": {"x", "-o", "jsonl"},
		"name":  {"-oname"},
		"text":  {"--output=text"},
		"env":   {"x", "-o"},
	} {
		assert.Equal(t, want, askedOutput(args, "env"))
	}
}

func TestAMistypedIDNamesTheNearest(t *testing.T) {
	t.Parallel()
	s := &fakeSession{
		findErr: fault.New(fault.NotFound, "there is no task"),
		list:    api.ListReply{Tasks: []api.Summary{{ID: taskID}}},
	}
	p := newProbe(t, s)
	assert.Equal(t, exitNotFound, p.run(t.Context(), []string{"get", "TASK_01KE000000000000000000000O"}))
	assert.Contains(t, p.err.String(), "did you mean "+string(taskID)+"?")
	assert.True(t, s.closed)
}

func TestInterruptedCommandsEndWith130(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := newProbe(t)
	p.nodes = &fakeNodes{err: context.Canceled}
	assert.Equal(t, exitDetached, p.run(ctx, []string{"list"}))
	assert.Equal(t, "interrupted\n", p.err.String())
	p = newProbe(t)
	assert.Zero(t, p.run(ctx, []string{"serve"}), "a service that is asked to stop has done well")
	assert.Contains(t, p.err.String(), "nats://127.0.0.1:4222")
}

func TestJSONErrorsHoldTheProblemsOfAPlan(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	p.write(t, "bad.yaml", "orch: v1\nname: bad\nsteps: []\ntypo: 1\n")
	assert.Equal(t, exitUsage, p.run(t.Context(), []string{"plan", "validate", "bad.yaml", "--json"}))
	var got errorJSON
	require.NoError(t, json.Unmarshal(p.err.Bytes(), &got))
	assert.Equal(t, fault.InvalidPlan, got.Name)
	require.NotEmpty(t, got.Problems)
	assert.Equal(t, "bad.yaml", got.Problems[0].File)
}
