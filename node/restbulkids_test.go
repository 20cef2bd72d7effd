package node_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/httpapi/rest"
)

const askingBody = `{"plan":{"orch":"v1","name":"asks","steps":[{"id":"a","approve":{"description":"Go on?"}}]}}`

// asking submits a task that asks, and returns the id of its approval.
func (e *endpoint) asking() string {
	e.t.Helper()
	status, answer, _ := e.request(http.MethodPost, "/api/v1/tasks", e.token, askingBody)
	require.Equal(e.t, http.StatusCreated, status, answer)
	var task struct{ ID string }
	require.NoError(e.t, json.Unmarshal([]byte(answer), &task))
	var list struct{ Approvals []struct{ ID string } }
	_, answer, _ = e.request(http.MethodGet, "/api/v1/approvals?task="+task.ID, e.token, "")
	require.NoError(e.t, json.Unmarshal([]byte(answer), &list))
	require.Len(e.t, list.Approvals, 1)
	return list.Approvals[0].ID
}

// The approvals that somebody has ticked are granted as one act. One that somebody else decided meanwhile changes the set, and nothing is done.
func TestHTTPBulkByID(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	one, two, left := e.asking(), e.asking(), e.asking()
	where := `"act":"approve","where":{"ids":["` + one + `","` + two + `"]}`
	status, shown, answer := e.bulk(`{` + where + `,"dry_run":true}`)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, 2, shown.Count)
	status, answer, _ = e.request(http.MethodPost, "/api/v1/approvals/"+two+"/decide", e.token, `{"as":"rejected","reason":"no"}`)
	require.Equal(t, http.StatusOK, status, answer)
	status, _, answer = e.bulk(`{` + where + `,"set":"` + shown.Set + `"}`)
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, answer, "SET_CHANGED")
	_, shown, _ = e.bulk(`{` + where + `,"dry_run":true}`)
	require.Len(t, shown.Items, 1)
	assert.Equal(t, one, shown.Items[0].ID)

	status, answer, _ = e.request(http.MethodGet, "/api/v1/tasks:bulk?idempotency_key=k", e.token, "")
	assert.Equal(t, http.StatusNotFound, status, answer)
	status, done, answer := e.bulk(`{` + where + `,"idempotency_key":"k","set":"` + shown.Set + `"}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, []any{1, "granted"}, []any{done.Done, done.Items[0].Result})
	_, answer, _ = e.request(http.MethodGet, "/api/v1/tasks:bulk?idempotency_key=k", e.token, "")
	var how rest.BulkProgress
	require.NoError(t, json.Unmarshal([]byte(answer), &how))
	assert.Equal(t, rest.BulkProgress{Count: 1, Tried: 1, Ended: true}, how)
	_, answer, _ = e.request(http.MethodGet, "/api/v1/approvals/"+left, e.token, "")
	assert.Contains(t, answer, `"status":"pending"`)
	_, answer, _ = e.request(http.MethodGet, "/api/v1/audit?act=bulk.approve", e.token, "")
	assert.Contains(t, answer, `"where":"ids=2"`)
}
