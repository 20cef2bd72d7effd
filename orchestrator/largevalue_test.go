package orchestrator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

const large = "orch: v1\nsteps:\n  - {id: a, tool: READ}\n"

// A large output is in the history by its reference, and is read in parts that end after whole characters.
func TestLargeValueInParts(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	whole := `{"text":"` + strings.Repeat("ü€😀", 10_000) + `"}`
	n.serve(func(work.Call) (string, *fault.Error) { return whole, nil })
	id := n.submit(large)
	n.result(id)
	ref := events.Offloaded([]byte(whole)).Ref()
	history, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	refs := []string{}
	for _, c := range history.Commits {
		for r := range (&events.Commit{Events: c.Events}).Refs() {
			refs = append(refs, r)
		}
	}
	assert.Contains(t, refs, ref)

	for _, limit := range []int{0, 4, 1001, 1002, 1003} {
		got, parts := "", 0
		r := api.ValueRequest{ID: id, Ref: ref, Limit: max(limit*10, limit)}
		for {
			part, err := n.Value(n.ctx(), r)
			require.NoError(t, err)
			assert.Equal(t, []any{ref, uint64(len(whole)), uint64(len(got))}, []any{part.Ref, part.Size, part.Offset})
			got, parts = got+part.Text, parts+1
			if r.Offset = part.Next; r.Offset == 0 {
				break
			}
		}
		assert.Equal(t, whole, got, "limit %d", limit)
		assert.Equal(t, limit == 0, parts == 1)
	}
	end, err := n.Value(n.ctx(), api.ValueRequest{ID: id, Ref: ref, Offset: uint64(len(whole))})
	require.NoError(t, err)
	assert.Empty(t, end.Text)
}

// Only what the events of a task refer to is read: the digest of a value of another task leads nowhere, also if a text of this task names it.
func TestLargeValueOfAnotherTask(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	whole := `{"text":"` + strings.Repeat("x", events.MaxInline) + `"}`
	n.serve(func(c work.Call) (string, *fault.Error) {
		if strings.Contains(string(c.Args), "sha256-") {
			return `{}`, nil
		}
		return whole, nil
	})
	owner := n.submit(large)
	n.result(owner)
	ref := events.Offloaded([]byte(whole)).Ref()
	other := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: " + ref + "}}\n")
	n.result(other)
	for name, c := range map[string]struct {
		request api.ValueRequest
		code    fault.Code
		field   string
	}{
		"of another task": {api.ValueRequest{ID: other, Ref: ref}, fault.NotFound, "ref"},
		"none":            {api.ValueRequest{ID: owner}, fault.NotFound, "ref"},
		"a part of it":    {api.ValueRequest{ID: owner, Ref: ref[:20]}, fault.NotFound, "ref"},
		"no task":         {api.ValueRequest{ID: "TASK_01M8JGF3VNANPT88MHNHCP95C3", Ref: ref}, fault.NotFound, "id"},
		"behind the end":  {api.ValueRequest{ID: owner, Ref: ref, Offset: uint64(len(whole)) + 1}, fault.ValidationError, "offset"},
		"too large":       {api.ValueRequest{ID: owner, Ref: ref, Limit: api.MaxValuePart + 1}, fault.ValidationError, "limit"},
		"too small":       {api.ValueRequest{ID: owner, Ref: ref, Limit: 3}, fault.ValidationError, "limit"},
	} {
		_, err := n.Value(n.ctx(), c.request)
		require.Error(t, err, name)
		e := fault.From(err)
		assert.Equal(t, []any{c.code, c.field}, []any{e.Code, e.Field}, "%s: %v", name, err)
	}
}
