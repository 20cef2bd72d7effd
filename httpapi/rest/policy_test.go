package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

// fakePolicy records the last requests.
type fakePolicy struct{ api *fakeAPI }

func (f fakePolicy) Policy(context.Context, rest.PolicyRequest) (rest.PolicyView, error) {
	return rest.PolicyView{Default: "allow", Rules: []rest.PolicyRule{}}, nil
}

func (f fakePolicy) Explain(_ context.Context, r rest.ExplainCallRequest) (rest.ExplainedCall, error) {
	f.api.record("explain_call", r)
	return rest.ExplainedCall{Action: "deny", Refused: fault.New(fault.Forbidden, "no").WithReason("POLICY_DENIED")}, nil
}

func (f fakePolicy) Backtest(_ context.Context, r rest.BacktestRequest) (rest.BacktestReport, error) {
	f.api.record("backtest_policy", r)
	return rest.BacktestReport{Calls: 1}, nil
}

// policyCalls returns a request for each route of the policy.
func policyCalls() []call {
	const get, post = http.MethodGet, http.MethodPost
	return []call{
		{get, "/policy", "", 200, 403, 403, 200},
		{post, "/policy/explain", `{"tool":"FILE_READ"}`, 200, 403, 403, 200},
		{post, "/policy/backtest", `{"policy":"version: 1"}`, 200, 403, 403, 200},
	}
}

func TestPolicyRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct{ name, path, body, code, field string }{
		{"no tool", "explain", `{}`, "REQUIRED_FIELD", "tool"},
		{"a long tool", "explain", `{"tool":"` + strings.Repeat("x", 257) + `"}`, "VALIDATION_ERROR", "tool"},
		{"large arguments", "explain", `{"tool":"x","args":{"a":"` + strings.Repeat("x", 64<<10) + `"}}`, "VALIDATION_ERROR", "args"},
		{"a long identity", "explain", `{"tool":"x","agent":"` + strings.Repeat("x", 257) + `"}`, "VALIDATION_ERROR", "agent"},
		{"no task", "explain", `{"tool":"x","task":"TASK_1"}`, "INVALID_FORMAT", "task"},
		{"a role", "explain", `{"tool":"x","role":"operator"}`, "VALIDATION_ERROR", "role"},
		{"no policy", "backtest", `{}`, "REQUIRED_FIELD", "policy"},
		{"a large policy", "backtest", `{"policy":"` + strings.Repeat("x", 256<<10+1) + `"}`, "VALIDATION_ERROR", "policy"},
		{"a long pattern", "backtest", `{"policy":"x","tool":"` + strings.Repeat("x", 257) + `"}`, "VALIDATION_ERROR", "tool"},
		{"no time", "backtest", `{"policy":"x","since":"yesterday"}`, "VALIDATION_ERROR", "since"},
		{"times in the wrong order", "backtest", `{"policy":"x","since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, "VALIDATION_ERROR", "until"},
		{"no state", "backtest", `{"policy":"x","states":["OVER"]}`, "VALIDATION_ERROR", "states"},
		{"no task of a test", "backtest", `{"policy":"x","task":"last"}`, "INVALID_FORMAT", "task"},
		{"a limit", "backtest", `{"policy":"x","max_tasks":5}`, "VALIDATION_ERROR", "max_tasks"},
	} {
		got := s.as(rest.Viewer, http.MethodPost, "/policy/"+c.path, c.body)
		code, field := got.problem(t)
		assert.Equal(t, []any{400, c.code, c.field}, []any{got.Status, code, field}, c.name)
	}
	assert.Nil(t, s.api.last("explain_call"))
	assert.Nil(t, s.api.last("backtest_policy"))

	got := s.as(rest.Viewer, http.MethodPost, "/policy/explain", `{"tool":"x","args":{"a":1},"agent":"agent:bot","task":"`+string(botsTask)+`"}`)
	assert.Equal(t, 200, got.Status)
	assert.Contains(t, got.Body, `"refused":{"name":"FORBIDDEN"`)
	assert.Equal(t, rest.ExplainCallRequest{Tool: "x", Args: []byte(`{"a":1}`), Agent: "agent:bot", Task: botsTask}, s.api.last("explain_call"))
}

// A node without a service says so.
func TestServicesThatAreMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *rest.Config) { c.Policy = nil })
	for _, c := range policyCalls() {
		got := s.as(rest.Operator, c.verb, c.path, c.body)
		code, _ := got.problem(t)
		assert.Equal(t, []any{503, "UNAVAILABLE"}, []any{got.Status, code}, c.path)
	}
}

// A token that is narrowed needs the tool that lists.
func TestPolicyOfNarrowedTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for tool, want := range map[string]int{"orch_list": 200, "orch_submit": 403} {
		s.clients.sees = func(name string) bool { return name == tool }
		for _, c := range policyCalls() {
			assert.Equal(t, want, s.as(rest.Operator, c.verb, c.path, c.body).Status, c.path)
		}
	}
}
