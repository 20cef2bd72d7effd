package registry_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/mcp/registry"
)

// The reason why a server cannot be started is logged at the first attempt, and unset variables once, however often connecting is retried.
func TestServerThatNeverStartsIsInTheLog(t *testing.T) {
	t.Parallel()
	workspace := t.TempDir()
	w := newWorld(t, func(c *registry.Config) { c.Workspace = workspace })
	w.define("one", "good", map[string]any{
		"command": "${workspaceFolder}/none", "env": map[string]string{"A": "${NOWHERE_SET}", "B": "Bearer ${input:key}"},
		"retryPolicy": map[string]any{"maxAttempts": 2, "backoff": "fixed"},
	})
	w.start()
	w.become("one", registry.Offline)
	log := w.log.String()
	assert.Contains(t, log, "mcp_tool_status server=one from=degraded to=degraded")
	assert.Contains(t, w.get("one").LastError, filepath.Join(workspace, "none"))
	assert.Equal(t, 1, strings.Count(log, "variable=NOWHERE_SET"), log)
	assert.Equal(t, 1, strings.Count(log, "variable=input:key"), log)
}
