package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

const ownWorkspace = "/root/Working/TASK_01JD0000000000000000000000"

// decide asks the policy about a call with the same path in every path field.
func decide(t *testing.T, cfg policy.Config, name, path, text string) error {
	t.Helper()
	catalogue, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	tool, ok := catalogue.Get(name)
	require.True(t, ok, name)
	c := policy.Call{
		Spec: new(tool.Spec()), State: statemachine.InProgress, Task: "TASK_01JD0000000000000000000000",
		Workspace: ownWorkspace, Paths: map[string]string{}, Allow: policy.Allow{Paths: []string{"/root/docs"}},
	}
	if c.Spec.Gate == tools.AwaitingApproval {
		c.State = statemachine.AwaitingApproval
	}
	fields := map[string]any{}
	for _, p := range c.Spec.Paths {
		fields[p.Field], c.Paths[p.Field] = path, path
	}
	for _, field := range c.Spec.Content {
		fields[field] = text
	}
	c.Args, err = json.Marshal(fields)
	require.NoError(t, err)
	cfg.Root, cfg.DataDir = "/root", "/root/.data"
	p, err := policy.New(cfg)
	require.NoError(t, err)
	ask, err := p.Decide(&c)
	if ask != nil {
		return ask.Error()
	}
	return err
}

// S4-037, A-03, S4-008: the rules of FILE_WRITE apply to the writing tools of the S4 rules.
func TestSeed004LikeFileWrite(t *testing.T) {
	t.Parallel()
	secret := "password = \"" + strings.Repeat("hunter2", 3) + "\"\n+AKIA" + strings.Repeat("Q", 16)
	for _, name := range []string{"FILE_WRITE", "patch_apply", "append", "write_file", "create_directory", "move_file"} {
		for path, code := range map[string]fault.Code{
			ownWorkspace + "/outputs/f": "",
			"/root/docs/f":              "",
			"/root/src/f":               fault.ApprovalRequired,
			"/root/Working/TASK_01JD0000000000000000000001/f": fault.ApprovalRequired,
			"/root/.git/config":              fault.ProtectedPath,
			ownWorkspace + "/workspace/.env": fault.ProtectedPath,
			"/root/.data/events":             fault.ProtectedPath,
		} {
			assert.Equal(t, code, fault.CodeOf(decide(t, policy.Config{}, name, path, "text")), "%s %s", name, path)
			err := decide(t, policy.Config{ReadOnly: true}, name, path, "text")
			assert.True(t, fault.Has(err, fault.ReadOnly), "%s %s: %v", name, path, err)
		}
		err := decide(t, policy.Config{}, name, ownWorkspace+"/f", secret)
		if name == "create_directory" || name == "move_file" {
			require.NoError(t, err)
			continue
		}
		assert.True(t, fault.Has(err, fault.SecretDetected), "%s: %v", name, err)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

// S0-052, S0-072, A-27: every default pattern is rejected, without an approval request.
func TestDeletionOfProtectedPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"FILE_DELETE", "DIRECTORY_DELETE"} {
		for _, path := range []string{
			"/root", "/", "/root/.data", "/root/.data/x", "/root/Working", "/root/.git", "/root/.git/HEAD", "/root/sub/.git/hooks/x", "/root/.orch", "/root/.orch/x",
			"/root/go.mod", "/root/sub/go.mod", "/root/Makefile", "/root/.env", "/root/.env.local", "/root/a.p12", "/root/a.pfx",
			"/root/a.jks",
			"/root/Working/TASK_01JD0000000000000000000001/outputs/f",
		} {
			assert.True(t, fault.Has(decide(t, policy.Config{}, name, path, ""), fault.ProtectedPath), "%s %s", name, path)
		}
		for _, path := range []string{"/root/src/f", ownWorkspace + "/outputs/f", "/root/docs/f", "/root/id_rsa.pub", "/root/cert.pem"} {
			assert.True(t, fault.Has(decide(t, policy.Config{}, name, path, ""), fault.ApprovalRequired), "%s %s", name, path)
		}
	}
}
