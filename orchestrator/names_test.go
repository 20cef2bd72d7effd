package orchestrator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
)

func undoPlan(with, more string) json.RawMessage {
	return json.RawMessage(`{"orch":"v1","steps":[{"id":"u","tool":"PROJECT_UNDO","with":{"dry_run":` + with + `}}]` + more + `}`)
}

// undoes is a catalogue with a tool that has the name and the arguments of PROJECT_UNDO.
func undoes(c *orchestrator.Config) {
	type in struct {
		DryRun bool `json:"dry_run,omitempty" jsonschema:"only look"`
	}
	c.Catalogue, _ = tools.New(tools.Define(tools.Spec{Name: "PROJECT_UNDO", Purpose: "test", Effect: tools.Destructive, Gate: tools.InProgress, Approval: tools.NoApproval},
		func(context.Context, *tools.Env, in) (echoOut, error) { return echoOut{}, nil }))
}

// No client can hide a task by the name of an internal one.
func TestNamesOfInternalTasks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), undoes)
	defer n.stop()
	id := func() events.TaskID { return events.NewTaskID(time.Now()) }
	session := id()
	for name, c := range map[string]struct {
		request api.SubmitRequest
		refused bool
	}{
		"in the plan":                 {api.SubmitRequest{Plan: json.RawMessage(`{"orch":"v1","name":"orch/x","steps":[{"id":"a","set":{"x":1}}]}`)}, true},
		"in the request":              {api.SubmitRequest{Plan: json.RawMessage(setPlan), Name: "orch/x"}, true},
		"of a part":                   {api.SubmitRequest{Plan: json.RawMessage(setPlan), Name: api.PartName + "x"}, true},
		"of a session, no session":    {api.SubmitRequest{Plan: api.SessionPlan(1), Name: api.SessionName + "x"}, true},
		"a session that does more":    {api.SubmitRequest{ID: session, Session: session, Plan: json.RawMessage(setPlan), Name: api.SessionName + "x"}, true},
		"of a preview, another plan":  {api.SubmitRequest{Plan: json.RawMessage(setPlan), Name: api.UndoPreviewName}, true},
		"a real undo as a preview":    {api.SubmitRequest{Plan: undoPlan("false", ""), Name: api.UndoPreviewName}, true},
		"by an expression":            {api.SubmitRequest{Plan: undoPlan(`"${{ true }}"`, ""), Name: api.UndoPreviewName}, true},
		"a preview that does more":    {api.SubmitRequest{Plan: undoPlan("true", `,"always":[{"id":"w","wait":{"for":"10h"}}]`), Name: api.UndoPreviewName}, true},
		"a preview in a loop":         {api.SubmitRequest{Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"f","for_each":[1],"do":[{"id":"u","tool":"PROJECT_UNDO","with":{"dry_run":true}}]}]}`), Name: api.UndoPreviewName}, true},
		"a preview":                   {api.SubmitRequest{Plan: undoPlan("true", ""), Name: api.UndoPreviewName}, false},
		"a name that only looks like": {api.SubmitRequest{Plan: json.RawMessage(setPlan), Name: "orchestra/x"}, false},
		"the node's own":              {api.SubmitRequest{Plan: json.RawMessage(setPlan), Name: "orch/x", Internal: true}, false},
		"a session":                   {api.SubmitRequest{ID: session, Session: session, Plan: api.SessionPlan(1e9), Name: api.SessionName + "x"}, false},
	} {
		_, err := n.Submit(n.ctx(), c.request)
		if !c.refused {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), name)
		assert.Equal(t, "name", fault.From(err).Field, name)
	}
}
