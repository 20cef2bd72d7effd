package node_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/bus"
)

const waitingBody = `{"plan":{"orch":"v1","name":"waits","steps":[{"id":"a","wait":{"signal":"go"}}]},"labels":{"team":"shop"}}`

// bulk sends a request for an act on many tasks.
func (e *endpoint) bulk(body string, header ...string) (status int, r bulk.Report, answer string) {
	e.t.Helper()
	status, answer, _ = e.request(http.MethodPost, "/api/v1/tasks:bulk", e.token, body, header...)
	if status == http.StatusOK {
		require.NoError(e.t, json.Unmarshal([]byte(answer), &r), answer)
	}
	return status, r, answer
}

// count returns the number of tasks in a list.
func (e *endpoint) count(query string) int {
	e.t.Helper()
	_, answer, _ := e.request(http.MethodGet, "/api/v1/tasks?"+query, e.token, "")
	return strings.Count(answer, `"id":"TASK_`)
}

func TestHTTPBulk(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for range 3 {
		status, answer, _ := e.request(http.MethodPost, "/api/v1/tasks", e.token, waitingBody)
		require.Equal(t, http.StatusCreated, status, answer)
	}
	const where = `"act":"cancel","reason":"enough","where":{"labels":{"team":"shop"}}`
	status, shown, answer := e.bulk(`{` + where + `,"dry_run":true}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, []int{3, 0, 0}, []int{shown.Count, shown.Done, shown.Failed})
	assert.Equal(t, 3, e.count("state=IN_PROGRESS"), "a dry run changes nothing")

	status, _, answer = e.bulk(`{` + where + `}`)
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, answer, `"field":"set"`)
	status, _, answer = e.bulk(`{` + where + `,"set":"sha256:0"}`)
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, answer, `"reason":"SET_CHANGED"`)
	assert.Equal(t, 3, e.count("state=IN_PROGRESS"))

	act := `{` + where + `,"set":"` + shown.Set + `"}`
	status, done, answer := e.bulk(act, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, []int{3, 3, 0}, []int{done.Count, done.Done, done.Failed})
	assert.Equal(t, "CANCELLED", done.Items[2].Result)
	assert.Equal(t, 3, e.count("state=CANCELLED"))
	_, again, _ := e.bulk(act, "Idempotency-Key", "k")
	assert.Equal(t, done, again)
	status, _, _ = e.bulk(act)
	assert.Equal(t, http.StatusConflict, status, "without the key it is another request, for a set that is empty now")
	status, _, answer = e.bulk(strings.Replace(act, "enough", "other", 1), "Idempotency-Key", "k")
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, answer, `"field":"idempotency_key"`)

	_, answer, _ = e.request(http.MethodGet, "/api/v1/audit?act=bulk.cancel", e.token, "")
	assert.Equal(t, 1, strings.Count(answer, `"act":"bulk.cancel"`), answer)
	assert.Contains(t, answer, `"face":"http"`)
	assert.Contains(t, answer, `"outcome":"done"`)
	assert.Contains(t, answer, `"where":"label=team=shop"`)
	_, answer, _ = e.request(http.MethodGet, "/api/v1/audit?act=task.cancel", e.token, "")
	assert.Equal(t, 3, strings.Count(answer, `"act":"task.cancel"`))
	for _, token := range []bus.NewToken{{Name: "eve", Role: bus.RoleSubmitter}, {Name: "ro", Role: bus.RoleOperator, ReadOnly: true}} {
		status, _, _ = e.request(http.MethodPost, "/api/v1/tasks:bulk", e.issue(token), `{`+where+`,"dry_run":true}`)
		assert.Equal(t, http.StatusForbidden, status, token.Name)
	}
}

// A request that is repeated while it is done, or afterwards, is done once. What fails has an error, and the answer is no error.
func TestHTTPBulkIsDoneOnce(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	for range 4 {
		_, answer, _ := e.request(http.MethodPost, "/api/v1/tasks", e.token, waitingBody)
		require.Contains(t, answer, "TASK_")
	}
	_, shown, _ := e.bulk(`{"act":"cancel","where":{"name":"waits"},"dry_run":true}`)
	_, done, answer := e.bulk(`{"act":"cancel","where":{"name":"waits"},"set":"` + shown.Set + `"}`)
	require.Equal(t, 4, done.Done, answer)
	act := `{"act":"retry","where":{"states":["CANCELLED"]},"set":"` + shown.Set + `"}`
	answers := make([]bulk.Report, 5)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { _, answers[i], _ = e.bulk(act, "Idempotency-Key", "again") })
	}
	asking.Wait()
	for _, one := range answers {
		assert.Equal(t, 4, one.Done)
		assert.Equal(t, answers[0], one)
	}
	assert.Equal(t, 4, e.count("state=IN_PROGRESS"))
	status, failed, _ := e.bulk(`{"act":"redrive","where":{"states":["CANCELLED"]},"set":"` + shown.Set + `"}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, []int{0, 4}, []int{failed.Done, failed.Failed})
	assert.EqualValues(t, "STATE_NOT_ALLOWED", failed.Items[0].Error.Code)
	_, answer, _ = e.request(http.MethodGet, "/api/v1/audit?act=bulk.redrive", e.token, "")
	assert.Contains(t, answer, `"outcome":"refused"`)
}
