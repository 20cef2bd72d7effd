package orchestrator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// TestSubmitSecrets refuses plans with secrets that the operator does not allow, and those of programs; a sub-plan counts too.
func TestSubmitSecrets(t *testing.T) {
	t.Parallel()
	const (
		allowed = `{"orch":"v1","secrets":{"A":"env:DB_A"},"steps":[{"id":"a","set":{"b":1}}]}`
		other   = `{"orch":"v1","secrets":{"A":"env:HOME"},"steps":[{"id":"a","set":{"b":1}}]}`
		below   = `{"orch":"v1","steps":[{"id":"a","run":` + other + `}]}`
	)
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Secrets = []string{"env:DB_*"} })
	for name, tc := range map[string]struct {
		r  api.SubmitRequest
		ok bool
	}{
		"allowed":       {api.SubmitRequest{Plan: json.RawMessage(allowed), Actor: "user:ada"}, true},
		"other":         {api.SubmitRequest{Plan: json.RawMessage(other), Actor: "user:ada"}, false},
		"sub-plan":      {api.SubmitRequest{Plan: json.RawMessage(below), Actor: "user:ada"}, false},
		"agent":         {api.SubmitRequest{Plan: json.RawMessage(allowed), Actor: "agent:builder"}, false},
		"client of MCP": {api.SubmitRequest{Plan: json.RawMessage(allowed), Actor: "user:ada", NoSecrets: true}, false},
		"helper":        {api.SubmitRequest{Plan: json.RawMessage(allowed), Actor: "user:ada", Client: &events.Client{Roots: []string{"/a"}}}, false},
	} {
		_, err := n.Submit(t.Context(), tc.r)
		if tc.ok {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		known := fault.From(err)
		assert.Equal(t, []string{string(fault.Forbidden), "plan.secrets", "SECRET_NOT_ALLOWED"}, []string{string(known.Code), known.Field, known.Reason}, name)
	}
}
