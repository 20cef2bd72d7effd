package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
)

// quiet is a dispatcher that has nothing to do.
type quiet struct{ httpapi.AgentDispatcher }

func (quiet) Heartbeat(context.Context, agents.Member, agents.Heartbeat) (agents.Work, error) {
	return agents.Work{}, nil
}

// Requests of agents are counted by identity and bytes; an identity over its limits is told when to retry.
func TestAgentsAreMetered(t *testing.T) {
	t.Parallel()
	var who []string
	var sizes []int64
	inside, full := 0, false
	h := httpapi.Agents(httpapi.AgentsConfig{
		Dispatcher: quiet{},
		Verify: func(_ context.Context, secret string) (agents.Member, error) {
			if secret != "good" {
				return agents.Member{}, fault.New(fault.Unauthorized, "this is no token")
			}
			return agents.Member{Name: "ada"}, nil
		},
		Admit: func(name string, size int64) (func(), error) {
			if full {
				return nil, fault.New(fault.RateLimited, "%s sends too many requests", name)
			}
			who, sizes, inside = append(who, name), append(sizes, size), inside+1
			return func() { inside-- }, nil
		},
	})
	ask := func(secret, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, agents.StatusPath, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	assert.Equal(t, http.StatusOK, ask("good", `{}`).Code)
	assert.Equal(t, http.StatusBadRequest, ask("good", `{`).Code)
	assert.Equal(t, http.StatusUnauthorized, ask("bad", `{}`).Code)
	assert.Equal(t, []string{"agent:ada", "agent:ada"}, who, "nobody is counted whom nobody knows")
	assert.Equal(t, []int64{2, 1}, sizes)
	assert.Zero(t, inside)

	full = true
	w := ask("good", `{}`)
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	var f fault.Error
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &f))
	assert.Equal(t, fault.RateLimited, f.Code)
}
