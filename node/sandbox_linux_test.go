package node_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// attack is a tool that runs a script with all permissions that a call can get, except the network.
func attack() tools.Tool {
	type in struct {
		Script string `json:"script"`
	}
	type out struct {
		Said string `json:"said"`
	}
	return tools.Define(tools.Spec{
		Name: "ATTACK", Purpose: "try to reach the node", Effect: tools.Read, Gate: tools.InProgress, Approval: tools.NoApproval,
	}, func(ctx context.Context, env *tools.Env, in in) (out, error) {
		res, err := env.Exec.Run(ctx, proc.Command{
			Name: "bash", Args: []string{"-c", in.Script}, Dir: filepath.Join(env.Workspace, "workspace"),
			Env: map[string]string{"HOME": filepath.Join(env.Workspace, "temp")}, Sandbox: env.Sandbox(env.Root.Name()),
		})
		return out{res.Stdout + res.Stderr}, err
	})
}

// ptrace tries to attach to the node and prints the result and the number of the error.
const ptrace = "python3 -c 'import ctypes; print(ctypes.CDLL(None, use_errno=True).ptrace(16, '$PPID', 0, 0), ctypes.get_errno())'"

// refuses runs a script in a call, and checks that it was refused and shows no secret.
func refuses(t *testing.T, n *node.Node, script, refused, secrets string) {
	t.Helper()
	plan, err := json.Marshal(map[string]any{
		"orch": "v1", "steps": []any{map[string]any{"id": "a", "tool": "ATTACK", "with": map[string]any{"script": script}}},
		"outputs": map[string]any{"said": "${{ steps.a.output.said }}"},
	})
	require.NoError(t, err)
	r := run(t, n.API(), string(plan))
	require.Equal(t, statemachine.Done, r.State, "%s: %v", script, r.Error)
	said := string(r.Output)
	assert.Regexp(t, refused, said, script)
	for part := range strings.FieldsSeq(secrets) {
		if len(part) > 20 {
			assert.NotContains(t, said, part, script)
		}
	}
}

// No call reads the node's credentials or reaches its port, wherever the data directory is, so that no
// agent approves itself.
func TestNoCallReachesTheNode(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(root string) string{
		"beside the root": func(root string) string { return filepath.Join(filepath.Dir(root), "data") },
		"in the root":     func(root string) string { return filepath.Join(root, ".orch", "data") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.DataDir, cfg.Extra, cfg.User = place(cfg.Root), []tools.Tool{attack()}, "ada"
			require.NoError(t, os.MkdirAll(filepath.Dir(cfg.DataDir), 0o700))
			n := start(t, cfg)
			address, err := url.Parse(n.Address())
			require.NoError(t, err)
			secret, err := os.ReadFile(filepath.Join(cfg.DataDir, "auth.json"))
			require.NoError(t, err)
			require.NotEmpty(t, secret)
			token, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
			require.NoError(t, err)
			secret = append(append(secret, ' '), token...)
			for script, refused := range map[string]string{
				"cat " + cfg.DataDir + "/auth.json " + cfg.DataDir + "/node.json":                         "Permission denied|No such file",
				"cat " + cfg.DataDir + "/mcp.token; cp -r " + cfg.DataDir + " d; cat d/*":                 "Permission denied|No such file",
				"ln -s " + cfg.DataDir + " d; cat d/auth.json d/node.json":                                "Permission denied|No such file",
				"ln " + cfg.DataDir + "/auth.json a":                                                      "cross-device|not permitted|denied|No such file",
				"mv " + cfg.DataDir + " d":                                                                "denied|cross-device",
				"rm -rf " + cfg.DataDir:                                                                   "denied|Read-only",
				"echo x >" + cfg.DataDir + "/new":                                                         "denied|Read-only",
				"cat /proc/$PPID/environ":                                                                 "Permission denied|No such file",
				"cat /proc/$PPID/root" + cfg.DataDir + "/auth.json":                                       "Permission denied|No such file",
				"cat /proc/$PPID/cwd/node_test.go":                                                        "Permission denied|No such file",
				"exec 3<>/dev/tcp/" + address.Hostname() + "/" + address.Port():                           "refused|not permitted",
				"echo x >/dev/udp/" + address.Hostname() + "/" + address.Port() + " && sleep 0.1; exit 1": "",
				"exec 3<>/dev/tcp/192.0.2.1/80":                                                           "unreachable|not permitted",
				"kill -9 $PPID":                                                                           "not permitted",
				"kill -STOP $PPID":                                                                        "not permitted",
				"setsid bash -c 'kill -9 " + "'$PPID; cat " + cfg.DataDir + "/auth.json":                  "not permitted",
			} {
				refuses(t, n, script, refused, string(secret))
			}
			t.Run("ptrace", func(t *testing.T) {
				need.Program(t, "python3")
				refuses(t, n, ptrace, "-1 1", string(secret))
			})
			now, err := os.ReadFile(filepath.Join(cfg.DataDir, "auth.json"))
			require.NoError(t, err)
			assert.Equal(t, string(secret), string(now)+" "+string(token))
			assert.NoFileExists(t, filepath.Join(cfg.DataDir, "new"))
		})
	}
}

// With "off" nothing is confined. With an invalid value the node does not start.
func TestSandboxIsConfigured(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Confinement.Sandbox, cfg.Extra = string(proc.Off), []tools.Tool{attack()}
	n := start(t, cfg)
	r := run(t, n.API(), `{orch: v1, steps: [{id: a, tool: ATTACK, with: {script: "cat `+cfg.DataDir+`/auth.json | wc -l"}}], outputs: {said: "${{ steps.a.output.said }}"}}`)
	assert.NotContains(t, string(r.Output), "denied")

	wrong := config(t)
	wrong.Confinement.Sandbox = "maybe"
	_, err := node.Start(t.Context(), wrong)
	require.ErrorContains(t, err, "sandbox")
}
