package worker_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/worker"
)

// The tools of the catalogue get from the chain what they need: the root, the workspace, the record of
// what was read (S0-042) and the checkpoints.
func TestBuiltinTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	file := b.working("workspace", "notes.txt")
	reads := map[string]string{}
	checkpoints := map[string]json.RawMessage{"other": json.RawMessage(`{}`)}
	for _, tc := range []struct {
		tool, args, state string
		code              fault.Code
		facts             int
	}{
		{"FILE_WRITE", `{"file_path":"FILE","content":"one\ntwo\n"}`, "IN_PROGRESS", "", 0},
		{"FILE_WRITE", `{"file_path":"FILE","content":"x"}`, "BLOCKED", fault.StateNotAllowed, 0},
		{"FILE_WRITE", `{"file_path":"ROOT/x","content":"x"}`, "IN_PROGRESS", fault.ApprovalRequired, 0},
		{"FILE_READ", `{"file_path":"FILE"}`, "BLOCKED", "", 1},
		{"FILE_EDIT", `{"file_path":"FILE","old_string":"two","new_string":"three"}`, "IN_PROGRESS", "", 0},
		{"LOG_WRITE", `{"level":"INFO","message":"edited"}`, "DONE", "", 1},
		{"CHECKPOINT_CREATE", `{"checkpoint_name":"edited","state_data":{"n":12345678901234567890}}`, "IN_PROGRESS", "", 1},
		{"CHECKPOINT_RESTORE", `{"checkpoint_id":"CREATED"}`, "IN_PROGRESS", "", 1},
	} {
		id := ""
		for id = range checkpoints {
			if id != "other" {
				break
			}
		}
		args := strings.NewReplacer("FILE\"", file+"\"", "ROOT", b.root.Name(), "CREATED", id).Replace(tc.args)
		c := call(tc.tool, args)
		c.State, c.Reads, c.Checkpoints = tc.state, reads, checkpoints
		out := b.Execute(t.Context(), c)
		if tc.code == fault.ApprovalRequired {
			require.NotNil(t, out.ApprovalRequest, tc.args)
			continue
		}
		if tc.code != "" {
			require.NotNil(t, out.Error, tc.args)
			assert.Equal(t, tc.code, out.Error.Code, tc.args)
			continue
		}
		require.Nil(t, out.Error, "%s: %v", tc.args, out.Error)
		for _, fact := range out.Facts {
			switch data := fact.Data.(type) {
			case *events.Read:
				reads[data.Path] = data.SHA256
			case *events.Checkpointed:
				checkpoints[data.ID] = data.State.Raw
			}
		}
		assert.GreaterOrEqual(t, len(out.Facts), tc.facts, tc.args)
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "one\nthree\n", string(content))
	assert.NoFileExists(t, filepath.Join(b.root.Name(), "x"))
	notes, err := os.ReadFile(b.working("CHECKPOINTS.md"))
	require.NoError(t, err)
	assert.Contains(t, string(notes), " edited\n")
}
