package orchestrator_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// No client can hide a task by the name of an internal one.
func TestNamesOfInternalTasks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
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
