package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// A for_each in parts shows how far it is, and each part below it.
func TestTreeShowsParts(t *testing.T) {
	t.Parallel()
	lines := treeRenderer{now: at(0)}.task(api.TaskView{Name: "n", CreatedAt: at(-9), Steps: []api.StepView{
		{Key: "each", Kind: "for_each", State: statemachine.StepRunning, Since: new(at(-9)), Progress: &work.Progress{Done: 1000, Total: 2500}},
		{Key: "each[0..999]", Kind: "part", State: statemachine.StepSucceeded, Duration: time.Second},
		{Key: "each[1000..1999]", Kind: "part", State: statemachine.StepRunning, Since: new(at(-3)), Child: "TASK_1"},
	}})[1:]
	assert.Equal(t, []string{
		"  ▸ each            for_each            9.0s  [====      ] 1000/2500",
		"  ✓   [0..999]      part                1.0s",
		"  ▸   [1000..1999]  part                3.0s  TASK_1",
	}, lines)
}
