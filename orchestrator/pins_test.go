package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// files are programs by their absolute paths.
type files map[string]string

func (f files) option(c *orchestrator.Config) {
	c.Root = "/root"
	c.Program = func(_, name string) (events.Program, error) {
		if sum, ok := f[name]; ok {
			return events.Program{Path: name, SHA256: sum}, nil
		}
		return events.Program{}, fault.New(fault.NotFound, "there is no %s", name)
	}
}

const pinnedPlan = `
orch: v1
allow: {programs: [a.sh]}
steps:
  - {id: w, tool: EITHER}
  - {id: s, needs: [w], run: {orch: v1, allow: {programs: [a.sh, /root/b.sh]}, steps: [{id: w, tool: EITHER}]}}
`

// programs returns the programs that a call gets.
func (n *node) programs(fail bool) []events.Program {
	n.t.Helper()
	c := n.take("w")
	if fail {
		require.NoError(n.t, n.fail("w", c, "tool_error"))
	} else {
		require.NoError(n.t, n.report("w", c, `{}`))
	}
	if c.Access == nil {
		return nil
	}
	return c.Access.Programs
}

// The programs of a plan are pinned at submission, also for its sub-plans and for retries.
func TestProgramsArePinned(t *testing.T) {
	t.Parallel()
	there := files{"/root/a.sh": "old", "/root/b.sh": "old"}
	n := start(t, memlog.New(memlog.Config{}), there.option)
	id := n.submit(pinnedPlan)
	there["/root/a.sh"] = "new"
	pinned := []events.Program{{Path: "/root/a.sh", SHA256: "old"}}
	assert.Equal(t, pinned, n.programs(false))
	assert.Equal(t, pinned, n.programs(true), "the sub-plan has what the plan has, and as it was")
	n.result(id)

	again, err := n.Retry(n.ctx(), api.RetryRequest{ID: id, Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, pinned, n.programs(true))
	n.result(again.ID)

	n.submit(pinnedPlan)
	assert.Equal(t, []events.Program{{Path: "/root/a.sh", SHA256: "new"}}, n.programs(true))
}

// A submitter that may open nothing by a plan cannot name programs. Nobody can name one that does not exist.
func TestWhoNamesNoPrograms(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), files{"/root/a.sh": "old"}.option)
	n.submit(pinnedPlan, func(r *api.SubmitRequest) { r.Within = []events.Allow{{}} })
	assert.Empty(t, n.programs(true))
	_, err := n.trySubmit(`{orch: v1, allow: {programs: [gone.sh]}, steps: [{id: w, tool: EITHER}]}`)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	assert.Equal(t, "allow.programs[0]", fault.From(err).Field)
}
