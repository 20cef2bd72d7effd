package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/node"
)

func writeAgentFile(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// An MCP client starts the agents of the root with TASK_SPAWN, and gets their reports.
func TestMCPClientStartsAgents(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(cfg *node.Config) {
		models, folder := filepath.Join(cfg.Root, ".orch", "models"), filepath.Join(cfg.Root, ".orch", "agents")
		writeAgentFile(t, filepath.Join(models, "talk.yaml"), "turns:\n  - text: Buy milk.\n")
		writeAgentFile(t, filepath.Join(models, "form.yaml"), "turns:\n  - text: '{\"ok\": true}'\n")
		writeAgentFile(t, filepath.Join(folder, "buyer.yaml"), "model: 'script:talk'\n")
		writeAgentFile(t, filepath.Join(folder, "judge.yaml"), "model: 'script:form'\nresult: {type: object, required: [ok], properties: {ok: {type: boolean}}}\n")
	})
	spawn := func(agent string) object {
		return inSession(t, e.Node, e.token, "TASK_SPAWN", object{"subagent_type": agent, "prompt": "What now?"})
	}
	said, _ := spawn("buyer")["structuredContent"].(object)
	assert.Equal(t, "Buy milk.", said["report"])
	formed, _ := spawn("judge")["structuredContent"].(object)
	assert.Equal(t, object{"ok": true}, formed["report"])
	assert.Equal(t, true, spawn("nobody")["isError"])
}
