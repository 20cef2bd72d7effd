package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/node"
)

// importedTasks is the number of tasks in the file of TestImportCrash.
const importedTasks = 3

// exported runs tasks on a node of their own and returns their histories and their export file.
func exported(t *testing.T) (histories map[events.TaskID]string, file []byte) {
	t.Helper()
	n, err := node.Start(t.Context(), config(t.TempDir(), io.Discard))
	require.NoError(t, err)
	defer func() { assert.NoError(t, n.Stop(context.Background())) }()
	histories = map[events.TaskID]string{}
	request := api.ExportRequest{Wait: time.Second}
	for i := range importedTasks {
		plan := fmt.Sprintf(`{"orch":"v1","name":"t%d","steps":[{"id":"a","tool":"LOG_WRITE","with":{"level":"INFO","message":"hello"}}]}`, i)
		reply, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: json.RawMessage(plan), Actor: operator})
		require.NoError(t, err)
		_, err = n.API().Result(t.Context(), api.ResultRequest{ID: reply.ID, Wait: time.Minute})
		require.NoError(t, err)
		histories[reply.ID] = historyText(t, n.API(), reply.ID)
		request.IDs = append(request.IDs, reply.ID)
	}
	for {
		reply, err := n.API().Export(t.Context(), request)
		require.NoError(t, err)
		file = append(file, reply.Data...)
		if reply.Done {
			return histories, file
		}
		request = api.ExportRequest{File: reply.File, Offset: int64(len(file)), Wait: time.Second}
	}
}

// historyText returns the whole history of a task as JSON.
func historyText(t *testing.T, owner api.API, id events.TaskID) string {
	t.Helper()
	reply, err := owner.History(t.Context(), api.HistoryRequest{ID: id, From: 1, Limit: 1000})
	require.NoError(t, err)
	for i := range reply.Commits {
		reply.Commits[i].Seq = 0 // the position in the log is that of each node
	}
	data, err := json.Marshal(reply.Commits)
	require.NoError(t, err)
	return string(data)
}

// A node that dies in the middle of an import has each task of the file as a whole, or not at all. The second import completes it, and
// nothing is there twice.
func TestImportCrash(t *testing.T) {
	t.Parallel()
	needFailpoints(t)
	histories, file := exported(t)
	for _, point := range []failpoint.Point{failpoint.Importing, failpoint.ArchivePart} {
		for pass := range int64(importedTasks) {
			t.Run(fmt.Sprintf("%s %d", point, pass+1), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				im := startSite(t, dir)
				im.node.arm(trap{point, int(pass) + 1})
				status, _ := im.importFile(file)
				require.Zero(t, status, "the node dies before it can answer")
				require.True(t, im.node.diesWithin(startWithin))
				_ = im.remote.Close()

				im = startSite(t, dir)
				defer im.stop()
				before := im.whole(histories)
				status, reply := im.importFile(file)
				require.Equal(t, http.StatusOK, status)
				require.True(t, reply.Done)
				require.Len(t, reply.Tasks, importedTasks)
				existing := 0
				for _, task := range reply.Tasks {
					if task.Existing {
						existing++
					}
				}
				assert.Equal(t, before, existing, "what was there is left as it is")
				assert.Equal(t, importedTasks, im.whole(histories))
			})
		}
	}
}

// importFile posts a file. It returns status 0 if the node died meanwhile.
func (s *site) importFile(file []byte) (status int, reply api.ImportReply) {
	s.t.Helper()
	status = s.ask(s.t.Context(), http.MethodPost, "/import", bytes.NewReader(file), "application/octet-stream", &reply)
	return status, reply
}

// whole returns the number of tasks that the node has. Each of them is listed once, and has its whole history.
func (s *site) whole(histories map[events.TaskID]string) int {
	s.t.Helper()
	list, err := s.remote.List(s.t.Context(), api.ListRequest{Limit: 100})
	require.NoError(s.t, err)
	seen := map[events.TaskID]bool{}
	for _, line := range list.Tasks {
		require.False(s.t, seen[line.ID], "%s is listed twice", line.ID)
		seen[line.ID] = true
		assert.True(s.t, line.Imported)
		assert.JSONEq(s.t, histories[line.ID], historyText(s.t, s.remote, line.ID))
	}
	return len(seen)
}
