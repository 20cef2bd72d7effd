package node_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

const workPath = "/api/v1/work"

// exchange posts a request of the worker protocol.
func exchange(t *testing.T, cred peer.Credential, e agents.Exchange) agents.Exchanged {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cred.URL+workPath, jsonBody(t, e))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+cred.Secret)
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	var out agents.Exchanged
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&out))
	return out
}

// A process takes calls, keeps one and reports the other with one request each time. What is said twice counts once.
func TestWorkByExchanges(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 2, "build")
	first, second := submit(t, n.API(), agentStep), submit(t, n.API(), agentStep)
	var calls []agents.Assignment
	for len(calls) < 2 { // a poll may see one task before the other is ready
		running := make([]agents.Running, len(calls))
		for i, c := range calls {
			running[i].Ref = c.Ref
		}
		calls = append(calls, exchange(t, ada, agents.Exchange{Instance: "one", Running: running, Take: 2 - len(calls), Wait: 30 * time.Second}).Calls...)
	}
	done := []agents.Report{{Ref: calls[0].Ref, Result: json.RawMessage(`{"ok":true}`)}}
	kept := []agents.Running{{Ref: calls[1].Ref}}
	for range 2 {
		out := exchange(t, ada, agents.Exchange{Instance: "one", Done: done, Running: kept})
		assert.Equal(t, agents.Exchanged{Done: []agents.Receipt{{Ref: calls[0].Ref}}}, out)
	}
	assert.Equal(t, statemachine.Done, result(t, n.API(), calls[0].Task).State)
	open := first
	if calls[0].Task == first {
		open = second
	}
	_, err := n.API().Cancel(t.Context(), api.CancelRequest{ID: open, Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, calls[1].Ref, exchange(t, ada, agents.Exchange{Instance: "one", Running: kept, Wait: 30 * time.Second}).Stop[0])

	late := exchange(t, ada, agents.Exchange{Instance: "one", Done: []agents.Report{{Ref: calls[0].Ref, Result: json.RawMessage(`2`)}}})
	require.NotNil(t, late.Done[0].Error)
	assert.Equal(t, "CONFLICT", string(late.Done[0].Error.Code))
}
