package orchestrator_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// A plan that uses a field which no step returns is refused when it is submitted.
func TestSubmissionKnowsOutputs(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for plan, want := range map[string]string{
		"steps: [{id: ok, approve: {description: d}}, {id: a, if: steps.ok.output.status == \"approved\", set: {x: 1}}]": "did you mean granted?",
		"steps: [{id: a, tool: READ, expect: output.nothing == 1}]":                                                      "`output` has no field \"nothing\"",
	} {
		_, err := n.trySubmit("orch: v1\n" + plan + "\n")
		hasCode(t, err, fault.InvalidPlan)
		assert.ErrorContains(t, errors.Unwrap(err), want)
	}
}
