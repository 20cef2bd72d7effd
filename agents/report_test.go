package agents_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// A report must name a call and have one outcome; others are rejected.
func TestReportsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	ref := work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}
	result := json.RawMessage(`{"a":1}`)
	for name, test := range map[string]struct {
		report agents.Report
		field  string
	}{
		"no step":            {agents.Report{Ref: work.Ref{Task: ref.Task, Attempt: 1}, Result: result}, "step"},
		"no attempt":         {agents.Report{Ref: work.Ref{Task: ref.Task, Step: "a"}, Result: result}, "attempt"},
		"a negative attempt": {agents.Report{Ref: work.Ref{Task: ref.Task, Step: "a", Attempt: -1}, Result: result}, "attempt"},
		"result, error":      {agents.Report{Ref: ref, Result: result, Error: "x"}, "result"},
		"result, release":    {agents.Report{Ref: ref, Result: result, Release: true}, "result"},
		"result, hand_to":    {agents.Report{Ref: ref, Result: result, HandTo: &events.Agents{Agent: "bob"}}, "result"},
		"summary, error":     {agents.Report{Ref: ref, Summary: "done", Error: "x"}, "summary"},
		"release, hand_to":   {agents.Report{Ref: ref, Release: true, HandTo: &events.Agents{}}, "release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := agents.NewDispatcher(nil, nil, agents.NewRegistry(agents.Config{}))
			err := d.Report(t.Context(), agents.Member{}, test.report)
			require.Error(t, err)
			assert.Equal(t, test.field, fault.From(err).Field)
		})
	}
}
