package node_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// The calls of an agent are lost at once when it is removed, and do not go to the next agent of its name.
func TestRemovalGivesUpCalls(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	id := submit(t, n.API(), writeStep)
	call := claimSoon(t, ada)[0]
	_, err := n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	ada = enrol(t, n, "ada", 1, "build")
	status, answer := say(t, ada, "/agents/results", agents.Report{Ref: call.Ref, Result: json.RawMessage(`1`)})
	assert.Equal(t, http.StatusConflict, status, answer)
	require.Eventually(t, func() bool {
		task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
		return err == nil && task.Steps[0].State == statemachine.StepInDoubt
	}, time.Minute, 10*time.Millisecond)
}

// An agent that renews its credential all the time can be removed, permanently.
func TestRemovalBeatsRenewal(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	var group sync.WaitGroup
	secrets, removed := make(chan string, 10_000), make(chan struct{})
	group.Go(func() {
		for cred := ada; ; {
			next := agents.NewSecret()
			status, _ := say(t, cred, "/agents/credential", agents.Renewal{Digest: agents.DigestOf(next)})
			if status != http.StatusOK {
				return
			}
			cred.Secret = next
			secrets <- next
			select {
			case <-removed:
				assert.Less(t, len(secrets), cap(secrets), "it renews for ever")
			default:
			}
		}
	})
	require.Eventually(t, func() bool { return len(secrets) > 2 }, time.Minute, time.Millisecond)
	_, err := n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	close(removed)
	group.Wait()
	close(secrets)
	for secret := range secrets {
		ada.Secret = secret
		status, answer := say(t, ada, "/agents/status", agents.Heartbeat{})
		require.Equal(t, http.StatusUnauthorized, status, answer)
	}
}

// The name of a removed agent, with its visible tasks, can only be registered again by operators.
func TestNameOfAnotherIsForOperators(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	for _, name := range []string{"victim", "low"} {
		_, _, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: name, Role: bus.RoleAgent, Actor: "user:test"})
		require.NoError(t, err)
	}
	_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "victim", Actor: "user:test"})
	require.NoError(t, err)
	_, err = n.Agents().Register(t.Context(), agents.Registration{
		Name: "victim", Task: events.NewTaskID(time.Now()), By: "agent:low",
		Profile: agents.Profile{Type: "developer", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute, Capabilities: []agents.Capability{{Name: "x", Category: "y"}}},
	})
	assert.True(t, fault.Has(err, fault.Forbidden), "%v", err)
	enrol(t, n, "victim", 1, "build")
}

// A report that would make the log unreadable is refused, and so is one that contains secrets.
func TestReportsThatTheLogDoesNotTake(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada := enrol(t, n, "ada", 1, "build")
	submit(t, n.API(), agentStep)
	call := claimSoon(t, ada)[0]
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for _, depth := range []int{256, 9_995} {
		status, answer := say(t, ada, "/agents/results", agents.Report{Ref: call.Ref, Result: deep(depth)})
		assert.Equal(t, http.StatusBadRequest, status, answer)
		assert.Contains(t, answer, "nested")
	}
	secret := agents.NewSecret()
	for _, to := range []events.Agents{{Agent: secret}, {Requires: []string{secret}}} {
		status, answer := say(t, ada, "/agents/results", agents.Report{Ref: call.Ref, HandTo: &to})
		assert.Equal(t, http.StatusBadRequest, status, answer)
		assert.Contains(t, answer, "SECRET_DETECTED")
		assert.NotContains(t, answer, secret)
	}
	status, answer := say(t, ada, "/agents/results", agents.Report{Ref: call.Ref, Result: deep(200)})
	assert.Equal(t, http.StatusOK, status, answer)
}
