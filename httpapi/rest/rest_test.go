package rest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

// call is a request of one route, with the statuses for an operator, a submitter, an agent and a viewer.
type call struct {
	verb, path, body                   string
	operator, submitter, agent, viewer int
}

// routeCalls returns a request for each route of the table. The task belongs to agent:bot.
func routeCalls() []call {
	bot := "/tasks/" + string(botsTask)
	const get, post = http.MethodGet, http.MethodPost
	return slices.Concat(policyCalls(), serviceCalls(), fileCalls(), []call{
		{get, "/status", "", 200, 200, 200, 200},
		{get, "/openapi.json", "", 200, 200, 200, 200},
		{get, "/queue", "", 200, 403, 403, 200},
		{get, "/costs?by=model", "", 200, 200, 200, 200},
		{post, "/pause", `{"node":true}`, 200, 403, 403, 403},
		{post, "/resume", `{"node":true}`, 200, 403, 403, 403},
		{post, "/archive", `{"age":1}`, 200, 403, 403, 403},
		{get, "/tasks", "", 200, 200, 200, 200},
		{post, "/tasks", `{"plan":{}}`, 201, 201, 201, 403},
		{post, "/import", "x", 415, 403, 403, 403}, // its body is no JSON
		{post, "/tasks:batch", `{"tasks":[{"plan":{}}]}`, 200, 200, 200, 403},
		{get, bot, "", 200, 404, 200, 200},
		{get, bot + "/result", "", 200, 404, 200, 200},
		{get, bot + "/history", "", 200, 404, 200, 200},
		{get, bot + "/replay", "", 200, 404, 200, 200},
		{get, bot + "/explain", "", 200, 404, 200, 200},
		{get, bot + "/steps/a/conversation?limit=1", "", 200, 404, 200, 200},
		{get, bot + "/plan", "", 200, 404, 200, 200},
		{get, bot + "/export", "", 200, 403, 403, 200},
		{post, bot + "/cancel", "", 200, 404, 200, 403},
		{post, bot + "/pause", "", 200, 403, 403, 403},
		{post, bot + "/resume", "", 200, 403, 403, 403},
		{post, bot + "/retry", "", 201, 403, 403, 403},
		{post, bot + "/redrive", "", 201, 403, 403, 403},
		{post, bot + "/fork", `{"at":"a"}`, 201, 403, 403, 403},
		{get, "/diff?a=" + string(botsTask) + "&b=" + string(botsTask), "", 200, 404, 200, 200},
		{post, bot + "/undo", `{"dry_run":true}`, 409, 403, 403, 403},
		{post, bot + "/signal", `{"name":"go"}`, 200, 403, 403, 403},
		{post, bot + "/steps/a/say", `{"text":"Hurry."}`, 200, 404, 200, 403},
		{post, bot + "/resolve", `{"step":"a","as":"retry"}`, 200, 403, 403, 403},
		{post, bot + "/call", `{"tool":"x"}`, 200, 403, 403, 403},
		{get, bot + "/checkpoints", "", 200, 404, 200, 200},
		{post, bot + "/checkpoints", `{"name":"a"}`, 200, 403, 403, 403},
		{get, bot + "/checkpoints/CP_1", "", 200, 404, 200, 200},
		{get, "/approvals", "", 200, 200, 200, 200},
		{get, "/approvals/APR_1", "", 200, 404, 200, 200},
		{post, "/approvals/APR_1/decide", `{"as":"granted"}`, 200, 403, 403, 403},
		{get, "/questions", "", 200, 200, 200, 200},
		{get, "/questions/q", "", 200, 404, 200, 200},
		{post, "/questions/q/answer", `{"declined":true}`, 200, 403, 403, 403},
		{get, bot + "/events", "", 200, 404, 200, 200},
		{get, "/retention?tasks=5", "", 200, 403, 403, 200},
		{get, "/holds?released=true", "", 200, 403, 403, 200},
		{post, "/holds", `{"ids":["TASK_01K00000000000000000000000"],"reason":"audit"}`, 200, 403, 403, 403},
		{post, "/holds/release", `{"ids":["TASK_01K00000000000000000000000"]}`, 200, 403, 403, 403},
		{get, "/store", "", 200, 403, 403, 200},
		{post, "/store/finalize", "", 200, 403, 403, 403},
		{get, "/audit?act=token.*&outcome=refused", "", 200, 403, 403, 200},
		{get, "/audit/entries?after=7", "", 200, 403, 403, 200},
		{get, "/schedules", "", 200, 403, 403, 200},
		{get, "/schedules/nightly", "", 200, 403, 403, 200},
		{post, "/schedules", `{"name":"nightly","definition":{"cron":["@daily"],"plan":{}}}`, 200, 403, 403, 403},
		{post, "/schedules/nightly/pause", `{"note":"broken"}`, 200, 403, 403, 403},
		{post, "/schedules/nightly/resume", "", 200, 403, 403, 403},
		{post, "/schedules/nightly/trigger", `{"overlap":"allow_all"}`, 200, 403, 403, 403},
		{post, "/schedules/nightly/backfill", `{"from":"2026-11-01T00:00:00Z","to":"2026-11-02T00:00:00Z"}`, 200, 403, 403, 403},
		{post, "/schedules/nightly/delete", "", 200, 403, 403, 403},
		{get, "/hooks", "", 200, 403, 403, 200},
		{get, "/hooks/deploy", "", 200, 403, 403, 200},
		{get, "/hooks/deploy/deliveries", "", 200, 403, 403, 200},
		{post, "/hooks", `{"name":"deploy","definition":{"provider":"github","plan":{}},"secret":"not shown"}`, 200, 403, 403, 403},
		{post, "/hooks/deploy/pause", `{"note":"broken"}`, 200, 403, 403, 403},
		{post, "/hooks/deploy/resume", "", 200, 403, 403, 403},
		{post, "/hooks/deploy/rotate", `{"secret":"not shown","keep":"1h"}`, 200, 403, 403, 403},
		{post, "/hooks/deploy/delete", "", 200, 403, 403, 403},
		{post, "/hooks/deploy/test", `{"body":"{}"}`, 200, 403, 403, 403},
		{get, "/destinations", "", 200, 403, 403, 200},
		{get, "/destinations/pager", "", 200, 403, 403, 200},
		{post, "/destinations", `{"name":"pager","definition":{"url":"https://example.com/"},"secret":"not shown"}`, 200, 403, 403, 403},
		{post, "/destinations/pager/pause", `{"note":"moving"}`, 200, 403, 403, 403},
		{post, "/destinations/pager/resume", "", 200, 403, 403, 403},
		{post, "/destinations/pager/rotate", `{"secret":"not shown","keep":"1h"}`, 200, 403, 403, 403},
		{post, "/destinations/pager/redeliver", `{"deliveries":["a-1-0"]}`, 200, 403, 403, 403},
		{post, "/destinations/pager/discard", `{"deliveries":["a-1-0"]}`, 200, 403, 403, 403},
		{post, "/destinations/pager/test", "", 200, 403, 403, 403},
		{post, "/destinations/pager/delete", "", 200, 403, 403, 403},
	})
}

// Each role may call exactly what the table of roles says, and a task of somebody else does not exist.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.api.commit(true)
	for _, c := range routeCalls() {
		for role, want := range map[rest.Role]int{rest.Operator: c.operator, rest.Submitter: c.submitter, rest.Agent: c.agent, rest.Viewer: c.viewer} {
			got := s.as(role, c.verb, c.path, c.body)
			assert.Equal(t, want, got.Status, "%s %s as %s: %s", c.verb, c.path, role, got.Body)
		}
	}
}

// The test of roles covers every operation of the document, and GET /events has a test of its own.
func TestRolesOfEveryRoute(t *testing.T) {
	t.Parallel()
	data, err := rest.OpenAPI()
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct {
			Roles []string `json:"x-roles"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(data, &document))
	count := 0
	for _, path := range document.Paths {
		for _, operation := range path {
			count++
			if !slices.Equal(operation.Roles, []string{"agent"}) { // the worker protocol is for agents alone
				assert.Contains(t, operation.Roles, "operator")
			}
		}
	}
	assert.Equal(t, count, len(routeCalls())+1)
}

// Every path and every parameter that names a task takes @last and prefixes, and an error names the parameter.
func TestNamesOfTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bot := string(botsTask)
	for _, c := range []struct{ path, field string }{
		{"/tasks/TASK", "id"},
		{"/diff?a=TASK&b=" + bot, "a"},
		{"/diff?b=TASK&a=" + bot, "b"},
		{"/tasks?parent=TASK", "parent"},
		{"/tasks?tree=TASK", "tree"},
		{"/tasks?session=TASK", "session"},
		{"/approvals?task=TASK", "task"},
		{"/questions?task=TASK", "task"},
	} {
		got := s.as(rest.Operator, http.MethodGet, strings.Replace(c.path, "TASK", "@last", 1), "")
		assert.Equal(t, http.StatusOK, got.Status, "%s: %s", c.path, got.Body)
		for role, id := range map[rest.Role]string{rest.Operator: string(noSuchOne), rest.Agent: string(adasTask)} {
			got = s.as(role, http.MethodGet, strings.Replace(c.path, "TASK", id, 1), "")
			assert.Equal(t, http.StatusNotFound, got.Status, c.path)
			code, field := got.problem(t)
			assert.Equal(t, []string{"NOT_FOUND", c.field}, []string{code, field}, c.path)
		}
	}
	s.as(rest.Operator, http.MethodGet, "/tasks/"+bot+"/steps/each%5B2%5D.review/conversation?rev=7&from=-20&limit=5", "")
	assert.Equal(t, api.ConversationRequest{ID: botsTask, Step: "each[2].review", Rev: 7, From: -20, Limit: 5}, s.api.last("conversation"))
	s.as(rest.Operator, http.MethodGet, "/diff?a="+bot+"&b=@last", "")
	assert.Equal(t, api.DiffRequest{A: botsTask, B: adasTask}, s.api.last("diff"))
}

// Nobody gets anything without a credential.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range routeCalls() {
		got := s.do(c.verb, rest.Prefix+c.path, c.body)
		require.Equal(t, http.StatusUnauthorized, got.Status, c.path)
		code, _ := got.problem(t)
		assert.Equal(t, "UNAUTHORIZED", code)
		assert.NotEmpty(t, got.Header.Get("WWW-Authenticate"))
	}
	for _, header := range []string{"Bearer", "Bearer unknown", "Basic b3BlcmF0b3I6", "operator"} {
		assert.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, rest.Prefix+"/status", "", "Authorization", header).Status, header)
	}
}

// Every code of the registry has a status, and an answer tells it.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, e := range fault.Registry() {
		s.api.fail = fault.New(e.Code, "as the test wants").WithField("f").WithReason("R").WithHint("h")
		got := s.as(rest.Operator, http.MethodGet, "/tasks/"+string(adasTask), "")
		assert.Equal(t, rest.StatusOf(e.Code), got.Status, e.Code)
		details, _ := got.object(t)["error"].(map[string]any)
		assert.Equal(t, string(e.Code), details["code"])
		assert.Equal(t, "as the test wants", details["message"])
		assert.Equal(t, []any{"f", "R", "h"}, []any{details["field"], details["reason"], details["hint"]})
		assert.Equal(t, got.Header.Get("X-Request-Id"), details["request_id"])
		if got.Status == http.StatusTooManyRequests || got.Status == http.StatusServiceUnavailable {
			seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
			require.NoError(t, err, e.Code)
			assert.Positive(t, seconds)
		}
	}
	assert.Equal(t, http.StatusInternalServerError, rest.StatusOf("SOMETHING_ELSE"))
	s.api.fail = assert.AnError
	got := s.as(rest.Operator, http.MethodGet, "/tasks/"+string(adasTask), "")
	assert.NotContains(t, got.Body, assert.AnError.Error(), "a cause stays in the log")
}

// Bad requests have an error with a code and a field, and the API does not see them.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ada, deep := "/tasks/"+string(adasTask), strings.Repeat("[", 20000)
	for _, c := range []struct {
		name, verb, path, body string
		status                 int
		code, field            string
	}{
		{"unknown field", "POST", "/tasks", `{"plan":{},"zzz":1}`, 400, "VALIDATION_ERROR", "zzz"},
		{"actor", "POST", "/tasks", `{"plan":{},"actor":"user:eve"}`, 400, "VALIDATION_ERROR", "actor"},
		{"actor in other letters", "POST", "/tasks", `{"plan":{},"ACTOR":"user:eve"}`, 400, "VALIDATION_ERROR", "ACTOR"},
		{"actor in a batch", "POST", "/tasks:batch", `{"tasks":[{"plan":{}},{"plan":{},"actor":"user:eve"}]}`, 400, "VALIDATION_ERROR", "tasks.1.actor"},
		{"a field twice", "POST", "/tasks", `{"plan":{},"plan":{}}`, 400, "VALIDATION_ERROR", "plan"},
		{"a list twice", "POST", "/tasks:batch", `{"tasks":[{"root":"/etc","writes":"allow"}],"tasks":[{"plan":{}}]}`, 400, "VALIDATION_ERROR", "tasks"},
		{"a field of an element twice", "POST", "/tasks:batch", `{"tasks":[{"plan":{},"name":"a","name":"b"}]}`, 400, "VALIDATION_ERROR", "tasks.0.name"},
		{"too many elements", "POST", "/tasks:batch", `{"tasks":[` + strings.TrimSuffix(strings.Repeat("{},", 10_001), ",") + `]}`, 400, "VALIDATION_ERROR", "tasks"},
		{"field of the node", "POST", "/tasks", `{"plan":{},"keys_of":""}`, 400, "VALIDATION_ERROR", "keys_of"},
		{"secrets", "POST", "/tasks", `{"plan":{},"no_secrets":false}`, 400, "VALIDATION_ERROR", "no_secrets"},
		{"id of the path in the body", "POST", ada + "/cancel", `{"id":"` + string(botsTask) + `"}`, 400, "VALIDATION_ERROR", "id"},
		{"pause of a task for the node", "POST", ada + "/pause", `{"node":true}`, 400, "VALIDATION_ERROR", "node"},
		{"approver", "POST", "/approvals/A/decide", `{"as":"granted","actor":"user:eve"}`, 400, "VALIDATION_ERROR", "actor"},
		{"wrong type", "POST", "/tasks", `{"plan":{},"name":5}`, 400, "VALIDATION_ERROR", "name"},
		{"list", "POST", "/tasks", `[]`, 400, "VALIDATION_ERROR", ""},
		{"null", "POST", "/tasks", `null`, 400, "VALIDATION_ERROR", ""},
		{"broken JSON", "POST", "/tasks", `{"plan":`, 400, "PARSE_ERROR", ""},
		{"two values", "POST", "/tasks", `{"plan":{}}{}`, 400, "PARSE_ERROR", ""},
		{"deep JSON", "POST", "/tasks", deep, 400, "PARSE_ERROR", ""},
		{"large body", "POST", "/tasks", `{"name":"` + strings.Repeat("x", rest.MaxBody) + `"}`, 413, "VALIDATION_ERROR", ""},
		{"unknown parameter", "GET", "/tasks?zzz=1", "", 400, "VALIDATION_ERROR", "zzz"},
		{"parameter twice", "GET", "/tasks?limit=1&limit=2", "", 400, "VALIDATION_ERROR", "limit"},
		{"malformed query", "GET", "/tasks?limit=%zz", "", 400, "INVALID_FORMAT", ""},
		{"semicolon", "GET", "/tasks?limit=1;zzz=2", "", 400, "INVALID_FORMAT", ""},
		{"no number", "GET", "/tasks?limit=x", "", 400, "INVALID_FORMAT", "limit"},
		{"no label", "GET", "/tasks?label=x", "", 400, "INVALID_FORMAT", "label"},
		{"no time", "GET", "/tasks?since=yesterday", "", 400, "INVALID_FORMAT", "since"},
		{"no duration", "GET", ada + "/result?wait=5", "", 400, "INVALID_FORMAT", "wait"},
		{"long wait", "GET", ada + "/result?wait=2h", "", 400, "VALIDATION_ERROR", "wait"},
		{"negative wait", "POST", ada + "/call", `{"tool":"x","wait":-1}`, 400, "VALIDATION_ERROR", "wait"},
		{"no name", "POST", ada + "/checkpoints", `{}`, 400, "REQUIRED_FIELD", "name"},
		{"no second task", "GET", "/diff?a=" + string(adasTask), "", 400, "REQUIRED_FIELD", "b"},
		{"no revision", "GET", ada + "/events", "", 400, "INVALID_FORMAT", "Last-Event-ID"},
		{"unknown path", "GET", "/zzz", "", 404, "NOT_FOUND", ""},
		{"unknown task", "GET", "/tasks/" + string(noSuchOne), "", 404, "NOT_FOUND", "id"},
		{"encoded path", "GET", "/tasks/..%2f..%2fstatus", "", 404, "NOT_FOUND", "id"},
		{"encoded slash", "GET", "/tasks/" + string(adasTask) + "%2fcancel", "", 404, "NOT_FOUND", "id"},
		{"wrong method", "DELETE", ada, "", 405, "INVALID_REQUEST", ""},
		{"write as a read", "GET", ada + "/cancel", "", 405, "INVALID_REQUEST", ""},
	} {
		header := []string{}
		if c.field == "Last-Event-ID" {
			header = []string{"Last-Event-ID", "x"}
		}
		got := s.as(rest.Operator, c.verb, c.path, c.body, header...)
		require.Equal(t, c.status, got.Status, "%s: %s", c.name, got.Body)
		code, field := got.problem(t)
		assert.Equal(t, c.code, code, c.name)
		assert.Equal(t, c.field, field, c.name)
	}
	assert.Nil(t, s.api.last("submit"))
	assert.Nil(t, s.api.last("submit_batch"))
	assert.Equal(t, "GET, HEAD, POST", s.as(rest.Operator, "PUT", "/tasks", "").Header.Get("Allow"))
	got := s.as(rest.Operator, http.MethodPost, "/tasks", `{"plan":{}}`, "Content-Type", "text/plain")
	assert.Equal(t, http.StatusUnsupportedMediaType, got.Status)
}

// A submission has the identity and the restrictions of the client, whatever it says.
func TestSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	got := s.as(rest.Agent, http.MethodPost, "/tasks", `{"plan":{"steps":[]},"labels":{"a":"b"}}`, "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, got.Status, got.Body)
	assert.Equal(t, rest.Prefix+"/tasks/"+string(adasTask), got.Header.Get("Location"))
	r, _ := s.api.last("submit").(api.SubmitRequest)
	assert.Equal(t, "agent:bot", r.Actor)
	assert.Equal(t, "agent:bot", r.KeysOf)
	assert.Equal(t, "k", r.IdempotencyKey)
	assert.Equal(t, got.Header.Get("X-Request-Id"), r.Cause)
	assert.True(t, r.NoSecrets)
	assert.Empty(t, r.Via)

	got = s.as(rest.Operator, http.MethodPost, "/tasks", `{"plan":{}}`, "Idempotency-Key", "known")
	assert.Equal(t, http.StatusOK, got.Status, "it existed")
	got = s.as(rest.Agent, http.MethodPost, "/tasks", `{"plan":{}}`, "Idempotency-Key", "known")
	assert.Equal(t, http.StatusConflict, got.Status, "it belongs to somebody else")
	got = s.as(rest.Operator, http.MethodPost, "/tasks", `{"plan":{},"idempotency_key":"a"}`, "Idempotency-Key", "b")
	assert.Equal(t, http.StatusBadRequest, got.Status)
	got = s.as(rest.Agent, http.MethodPost, "/tasks", `{"plan":{},"depends_on":["`+string(adasTask)+`"]}`)
	assert.Equal(t, http.StatusNotFound, got.Status, "one cannot depend on what one does not see")
	assert.Equal(t, http.StatusBadRequest, s.as(rest.Agent, http.MethodPost, "/tasks", `{"plan":{}}`, "Orch-Call", "bad").Status)

	s.as(rest.Operator, http.MethodPost, "/approvals/APR_1/decide", `{"as":"granted"}`)
	assert.Equal(t, api.DecideRequest{ID: "APR_1", As: "granted", Actor: "user:ada"}, s.api.last("decide"))
}

// Filters of the query arrive, and an agent lists its own tasks alone.
func TestList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.as(rest.Viewer, http.MethodGet, "/tasks?state=DONE&state=FAILED&label=a=b&label=c=d=e&dead=true&limit=3&since=2026-01-02T03:04:05Z", "")
	r, _ := s.api.last("list").(api.ListRequest)
	assert.Len(t, r.States, 2)
	assert.Equal(t, map[string]string{"a": "b", "c": "d=e"}, r.Labels)
	assert.True(t, r.Dead)
	assert.Equal(t, 3, r.Limit)
	assert.False(t, r.Since.IsZero())

	s.as(rest.Agent, http.MethodGet, "/tasks", "")
	r, _ = s.api.last("list").(api.ListRequest)
	assert.Equal(t, "agent:bot", r.Requestor)
	assert.Equal(t, http.StatusNotFound, s.as(rest.Agent, http.MethodGet, "/tasks?tree="+string(adasTask), "").Status)
	got := s.as(rest.Agent, http.MethodGet, "/tasks?tree="+string(botsTask), "")
	require.Equal(t, http.StatusOK, got.Status)
	assert.Len(t, got.object(t)["tasks"], 2, "the task and the child that it started, and nothing of user:ada")
	assert.Empty(t, s.as(rest.Agent, http.MethodGet, "/tasks?requestor=user:ada", "").object(t)["tasks"])
}

// An agent sees nothing of others in lists of people's work and in the status.
func TestOwnOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/approvals", "/questions"} {
		assert.NotContains(t, s.as(rest.Agent, http.MethodGet, path, "").Body, "user:ada", path)
	}
	questions := s.as(rest.Agent, http.MethodGet, "/questions", "").object(t)
	assert.Len(t, questions["questions"], 1)
	assert.NotContains(t, questions, "omitted")
	status := s.as(rest.Agent, http.MethodGet, "/status", "").object(t)
	assert.Equal(t, []any{"agent:bot", "agent", "", float64(0)}, []any{status["identity"], status["role"], orText(status["root"]), status["open"]})
	assert.Equal(t, "/secret/root", s.as(rest.Viewer, http.MethodGet, "/status", "").object(t)["root"])
}

// Submitters and agents see their own costs, and others those of whom they ask for.
func TestOwnCosts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.as(rest.Viewer, http.MethodGet, "/costs?by=day&identity=user:ada&since=2026-11-01T00:00:00Z", "")
	assert.Equal(t, api.CostsRequest{GroupBy: "day", Identity: "user:ada", Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}, s.api.last("costs"))
	s.as(rest.Agent, http.MethodGet, "/costs?by=model", "")
	assert.Equal(t, api.CostsRequest{GroupBy: "model", Identity: "agent:bot"}, s.api.last("costs"))
	s.as(rest.Agent, http.MethodGet, "/costs?identity=user:ada", "")
	assert.Equal(t, api.CostsRequest{GroupBy: "model", Identity: "agent:bot"}, s.api.last("costs"), "nothing is asked")
}

func orText(v any) string { text, _ := v.(string); return text }

// A narrowed token may use only the routes whose tool it has.
func TestNarrowedTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.clients.sees = func(tool string) bool { return tool == "orch_list" }
	assert.Equal(t, http.StatusOK, s.as(rest.Operator, http.MethodGet, "/tasks", "").Status)
	assert.Equal(t, http.StatusOK, s.as(rest.Operator, http.MethodGet, "/status", "").Status)
	for _, c := range []call{{verb: "POST", path: "/tasks", body: `{"plan":{}}`}, {verb: "GET", path: "/tasks/" + string(adasTask)}, {verb: "POST", path: "/pause"}} {
		assert.Equal(t, http.StatusForbidden, s.as(rest.Operator, c.verb, c.path, c.body).Status, c.path)
	}
}

// Submitting is all that a token narrowed to orch_submit may do: other writes could call tools that it does not have.
func TestNarrowedTokensDoNotSteer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.clients.sees = func(string) bool { return true }
	task := "/tasks/" + string(adasTask)
	for path, body := range map[string]string{
		task + "/call": `{"tool":"BASH_EXECUTE"}`, task + "/fork": `{}`, task + "/retry": `{}`, task + "/resolve": `{"step":"s","as":"retry"}`, "/pause": `{"node":true}`,
		"/approvals/A/decide": `{"as":"granted"}`, "/archive": `{}`,
	} {
		got := s.as(rest.Operator, http.MethodPost, path, body)
		assert.Equal(t, http.StatusForbidden, got.Status, path)
	}
	assert.Equal(t, http.StatusCreated, s.as(rest.Operator, http.MethodPost, "/tasks", `{"plan":{}}`).Status)
}

// A client beyond its limits is told when to come back.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.clients.limit = true
	got := s.as(rest.Operator, http.MethodGet, "/status", "")
	assert.Equal(t, http.StatusTooManyRequests, got.Status)
	assert.Equal(t, "3", got.Header.Get("Retry-After"))
}

// A finished task has an entity tag.
func TestEntityTags(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	got := s.as(rest.Operator, http.MethodGet, "/tasks/@last", "")
	require.Equal(t, http.StatusOK, got.Status)
	tag := got.Header.Get("ETag")
	require.NotEmpty(t, tag)
	got = s.as(rest.Operator, http.MethodGet, "/tasks/"+string(adasTask), "", "If-None-Match", `"x", W/`+tag)
	assert.Equal(t, http.StatusNotModified, got.Status)
	assert.Empty(t, got.Body)
	assert.Empty(t, s.as(rest.Operator, http.MethodGet, "/tasks/"+string(botsTask), "").Header.Get("ETag"), "it is still open")
}

// Holds change the entity tag, and are shown to those who see all tasks.
func TestHoldsOfATask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := "/tasks/" + string(adasTask)
	tag := s.as(rest.Operator, http.MethodGet, path, "").Header.Get("ETag")
	s.api.holds = []api.Hold{{Task: adasTask, Reason: "case 4711"}}
	held := s.as(rest.Viewer, http.MethodGet, path, "", "If-None-Match", tag)
	require.Equal(t, http.StatusOK, held.Status)
	assert.Contains(t, held.Body, "case 4711")
	assert.NotEqual(t, tag, held.Header.Get("ETag"))
	own := s.as(rest.Agent, http.MethodGet, "/tasks/"+string(botsTask), "")
	require.Equal(t, http.StatusOK, own.Status)
	assert.NotContains(t, own.Body, "case 4711")
}

// The plan is that of the first commit.
func TestPlan(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	assert.JSONEq(t, `{"steps":[]}`, s.as(rest.Viewer, http.MethodGet, "/tasks/"+string(adasTask)+"/plan", "").Body)
}

// A foreign host or origin gets nothing, even with a token.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	got := s.as(rest.Operator, http.MethodGet, "/status", "", "Host", "evil.example")
	assert.Equal(t, http.StatusMisdirectedRequest, got.Status)
	got = s.as(rest.Operator, http.MethodGet, "/status", "", "Origin", "http://evil.example")
	assert.Equal(t, http.StatusForbidden, got.Status)
	got = s.as(rest.Operator, http.MethodGet, "/status", "", "Origin", s.web.URL)
	assert.Equal(t, http.StatusOK, got.Status)
}

// docs/reference/openapi.json is current.
func TestDocument(t *testing.T) {
	t.Parallel()
	want, err := rest.OpenAPI()
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "openapi.json"))
	require.NoError(t, err)
	assert.Equal(t, string(want)+"\n", string(got), "go generate ./test/gendocs")
}

// The page of the API lists every route with its roles, and the status of every code.
func TestReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "http.md"))
	require.NoError(t, err)
	data, err := rest.OpenAPI()
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct {
			Summary string   `json:"summary"`
			Roles   []string `json:"x-roles"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(data, &document))
	for path, operations := range document.Paths {
		for verb, o := range operations {
			roles := strings.Join(o.Roles, ", ")
			if len(o.Roles) == len(rest.Roles()) {
				roles = "all"
			}
			row := "| `" + strings.ToUpper(verb) + " " + strings.TrimPrefix(path, rest.Prefix) + "` | " + strings.TrimSuffix(o.Summary, ".") + " | " + roles + " |"
			assert.Contains(t, string(page), row)
		}
	}
	rows := map[int][]string{}
	for _, e := range fault.Registry() {
		rows[rest.StatusOf(e.Code)] = append(rows[rest.StatusOf(e.Code)], string(e.Code))
	}
	for status, codes := range rows {
		assert.Contains(t, string(page), "| "+strconv.Itoa(status)+" | "+strings.Join(codes, ", ")+" |")
	}
}

// The bodies in the reference are those of their routes.
func TestReferenceBodies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "http.md"))
	require.NoError(t, err)
	examples := regexp.MustCompile("`POST (/[^`]+)`:[^`]*(?:`[^`]+`[^`]*)*\n```json\n(.*)\n```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, examples, 6)
	for _, e := range examples {
		id := "APR_1"
		if strings.HasPrefix(e[1], "/tasks/") {
			id = string(adasTask)
		}
		got := s.as(rest.Operator, http.MethodPost, strings.NewReplacer("{id}", id, "{step}", "a").Replace(e[1]), e[2])
		assert.Less(t, got.Status, 300, "%s %s: %s", e[1], e[2], got.Body)
	}
}

// HEAD of a stream ends, as it has no body.
func TestHeadOfStream(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, path := range []string{"/events", "/tasks/" + string(adasTask) + "/events"} {
		got := s.as(rest.Viewer, http.MethodHead, path, "")
		assert.Equal(t, http.StatusOK, got.Status)
		assert.Equal(t, "text/event-stream", got.Header.Get("Content-Type"))
	}
}

// An export arrives as one file, and a broken one is not taken for a whole.
func TestExport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := "/tasks/" + string(adasTask) + "/export"
	got := s.as(rest.Viewer, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, got.Status)
	assert.Equal(t, "the file", got.Body)
	assert.Contains(t, got.Header.Get("Content-Disposition"), string(adasTask))
	answer := s.open(http.MethodGet, rest.Prefix+path+"?tree=true", "", "Authorization", "Bearer viewer")
	defer func() { _ = answer.Body.Close() }()
	_, err := io.ReadAll(answer.Body)
	assert.Error(t, err)
}
