package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

const readingPlan = `{orch: v1, name: reads, steps: [{id: a, tool: FILE_READ, with: {file_path: "${{ task.root }}/late.txt"}}]}`

// continued returns the tasks that an act has submitted.
func continued(t *testing.T, r bulk.Report) []events.TaskID {
	t.Helper()
	ids := make([]events.TaskID, len(r.Items))
	for i, item := range r.Items {
		require.Nil(t, item.Error)
		require.NotEmpty(t, item.Result)
		ids[i] = events.TaskID(item.Result)
	}
	return ids
}

// The answer of a redrive of many tasks may be lost, with its key if the node ends too. A failed task that was redriven is still of the set that
// its state selects, and asking again gives the task that continues it already.
func TestHTTPBulkRedriveIsRepeated(t *testing.T) {
	t.Parallel()
	var cfg node.Config
	e := serveRPC(t, func(c *node.Config) { cfg = *c })
	for range 3 {
		require.Equal(t, statemachine.Failed, run(t, e.API(), readingPlan).State)
	}
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "late.txt"), []byte("milk\n"), 0o600))
	const where = `"act":"redrive","where":{"states":["FAILED"],"name":"reads"}`
	_, shown, answer := e.bulk(`{` + where + `,"dry_run":true}`)
	require.Equal(t, 3, shown.Count, answer)
	act := `{` + where + `,"set":"` + shown.Set + `"}`
	_, done, answer := e.bulk(act, "Idempotency-Key", "k")
	require.Equal(t, 3, done.Done, answer)
	for _, id := range continued(t, done) {
		require.Equal(t, statemachine.Done, result(t, e.API(), id).State)
	}
	_, again, answer := e.bulk(act)
	assert.Equal(t, continued(t, done), continued(t, again), answer)

	require.NoError(t, e.Stop(context.Background()))
	e.Node = start(t, cfg)
	status, again, answer := e.bulk(act, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, continued(t, done), continued(t, again))
	assert.Equal(t, 6, e.count("name=reads"), "three tasks, and one that continues each of them")
}

// If tasks fail again, they are of the set too: what was shown is not what would be redriven, and nothing is done.
func TestHTTPBulkRedriveOfWhatFailsAgain(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	require.Equal(t, statemachine.Failed, run(t, e.API(), readingPlan).State)
	const where = `"act":"redrive","where":{"states":["FAILED"],"name":"reads"}`
	_, shown, _ := e.bulk(`{` + where + `,"dry_run":true}`)
	act := `{` + where + `,"set":"` + shown.Set + `"}`
	_, done, answer := e.bulk(act)
	require.Equal(t, 1, done.Done, answer)
	require.Equal(t, statemachine.Failed, result(t, e.API(), continued(t, done)[0]).State)
	status, _, answer := e.bulk(act)
	assert.Equal(t, http.StatusConflict, status)
	var refused struct{ Error struct{ Reason string } }
	require.NoError(t, json.Unmarshal([]byte(answer), &refused))
	assert.Equal(t, bulk.ReasonSetChanged, refused.Error.Reason, answer)
	assert.Equal(t, 2, e.count("name=reads"))
}
