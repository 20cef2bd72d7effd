package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/plan"
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

// An agent is described by its file: by the description or the summary, else by its instructions, else by the name of its plan.
func TestAgentFilesAreDescribed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	root, err := pathguard.Open(folder)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	const steps = "steps: [{id: a, tool: FILE_LIST, with: {path: /}}]\n"
	for name, text := range map[string]string{
		"a": "description: |\n  Reviews\n  changes.\nmodel: m/x\ninstructions: Be brief.\n",
		"b": "model: m/x\ninstructions: |\n  Be brief.\n  And kind.\n",
		"c": "orch: v1\nname: Deploys\nsummary: Deploys the shop.\n" + steps,
		"d": "orch: v1\nname: Deploys\n" + steps,
		"e": "model: m/x\n",
		"f": "orch: v1\nsummary: " + strings.Repeat("x", plan.MaxDescription+1) + "\n" + steps,
	} {
		writeAgentFile(t, filepath.Join(folder, ".orch", "agents", name+".yaml"), text)
	}
	assert.Equal(t, []server.AgentFile{
		{Name: "a", About: "Reviews changes."},
		{Name: "b", About: "Be brief."},
		{Name: "c", About: "Deploys the shop."},
		{Name: "d", About: "Deploys"},
		{Name: "e"},
		{Name: "f", About: strings.Repeat("x", plan.MaxDescription) + "…"},
	}, node.NewAgentFiles(root).AgentFiles())
}
