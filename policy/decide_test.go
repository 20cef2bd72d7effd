package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

const workspace = "/root/Working/TASK_01JD0000000000000000000000"

const (
	task   events.TaskID = "TASK_01JD0000000000000000000000"
	secret string        = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
)

func newPolicy(t *testing.T, cfg policy.Config) *policy.Policy {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root, cfg.DataDir = "/root", "/root/data"
	}
	p, err := policy.New(cfg)
	require.NoError(t, err)
	return p
}

func writeSpec() tools.Spec {
	return tools.Spec{
		Name: "FILE_WRITE", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.OutsideWorkspace,
		Paths: []tools.Path{{Field: "file_path", Access: tools.WritePath}}, Content: []string{"content"},
	}
}

func bashSpec() tools.Spec {
	return tools.Spec{
		Name: "BASH_EXECUTE", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.IfDestructive, Command: "command",
		Paths: []tools.Path{{Field: "working_directory", Access: tools.ReadPath}},
	}
}

func writeCall(path, content string) *policy.Call {
	args, _ := json.Marshal(map[string]string{"file_path": path, "content": content})
	return &policy.Call{
		Spec: new(writeSpec()), State: statemachine.InProgress, Args: args, Task: task, Workspace: workspace,
		Paths: map[string]string{"file_path": path},
	}
}

func bashCall(command string) *policy.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	return &policy.Call{Spec: new(bashSpec()), State: statemachine.InProgress, Args: args, Task: task, Workspace: workspace}
}

// verdict is a decision as an error.
func verdict(p *policy.Policy, c *policy.Call) error {
	ask, err := p.Decide(c)
	if ask != nil {
		return ask.Error()
	}
	return err
}

func TestGate(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, gate := range []tools.Gate{tools.AnyState, tools.InProgress, tools.AwaitingApproval, tools.BlockedOrActive} {
		for _, state := range statemachine.States() {
			err := verdict(p, &policy.Call{Spec: &tools.Spec{Name: "X", Gate: gate, Effect: tools.Read, Approval: tools.NoApproval}, State: state})
			if slices.Contains(gate.States(), state) {
				require.NoError(t, err, "%s %s", gate, state)
			} else {
				require.Equal(t, fault.StateNotAllowed, fault.CodeOf(err), "%s %s", gate, state)
			}
		}
	}
	c := writeCall(workspace+"/a", "")
	c.State = statemachine.Blocked
	assert.EqualError(t, verdict(p, c), "STATE_NOT_ALLOWED: FILE_WRITE may not run while the task is BLOCKED; allowed states: IN_PROGRESS")
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{ReadOnly: true})
	for effect, code := range map[tools.Effect]fault.Code{
		tools.Read: "", tools.Idempotent: fault.ReadOnly, tools.Write: fault.ReadOnly, tools.Destructive: fault.ReadOnly,
	} {
		err := verdict(p, &policy.Call{Spec: &tools.Spec{Effect: effect, Gate: tools.AnyState, Approval: tools.NoApproval}, State: statemachine.Done})
		assert.Equal(t, code, fault.CodeOf(err), effect)
	}
}

// S0-150: tools that only write to the log are always allowed.
func TestReadOnlyLetsTheLogBeWritten(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{ReadOnly: true})
	spec := tools.Spec{Effect: tools.Idempotent, Gate: tools.AnyState, Approval: tools.NoApproval, LogOnly: true}
	for _, state := range statemachine.States() {
		require.NoError(t, verdict(p, &policy.Call{Spec: &spec, State: state}))
	}
}

// S0-032, S0-033, S0-034, S0-035, A-23, A-27: which writes are free, which ask, and which are refused.
func TestPaths(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for path, code := range map[string]fault.Code{
		workspace + "/a.txt":                "",
		workspace + "/workspace/Makefile":   "",
		workspace + "/workspace/go.mod":     "",
		"/root/deliverables/report.md":      "",
		"/root/docs/out.md":                 "",
		"/root/docs/out.md2":                fault.ApprovalRequired,
		"/root/src/a.go":                    fault.ApprovalRequired,
		workspace + "X/a":                   fault.ApprovalRequired,
		"/root/Working/TASK_OTHER/a":        fault.ApprovalRequired,
		"/root/Makefile":                    fault.ProtectedPath,
		"/root/sub/go.mod":                  fault.ProtectedPath,
		"/root/Working/TASK_OTHER/Makefile": fault.ProtectedPath,
		"/root":                             fault.ProtectedPath,
		"/":                                 fault.ProtectedPath,
		"/root/Working":                     fault.ProtectedPath,
		"/root/data":                        fault.ProtectedPath,
		"/root/data/x":                      fault.ProtectedPath,
		"/root/.git/config":                 fault.ProtectedPath,
		workspace + "/repo/.git/hooks/x":    fault.ProtectedPath,
		workspace + "/.orch/x":              fault.ProtectedPath,
		workspace + "/.env":                 fault.ProtectedPath,
		workspace + "/.env.local":           fault.ProtectedPath,
		workspace + "/store.P12":            fault.ProtectedPath,
		workspace + "/.env.example":         "",
		workspace + "/id_ed25519.pub":       "",
		workspace + "/server.pem":           "",
	} {
		c := writeCall(path, "text")
		c.Allow.Paths = []string{"docs/out.md", "/root/deliverables"}
		err := verdict(p, c)
		assert.Equal(t, code, fault.CodeOf(err), path)
		if err != nil {
			assert.Equal(t, "file_path", fault.From(err).Field)
			assert.NotEmpty(t, fault.From(err).Hint)
		}
	}
}

// The content decides whether a file is secret: a certificate is not, and a key is, whatever its name.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPolicy(t, policy.Config{Root: dir})
	key := "-----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat("MHcCAQEEIIrYSSNQFaA2Hwf1duRSx", 4) + "\n-----END EC PRIVATE KEY-----\n"
	for name, tc := range map[string]struct {
		text string
		code fault.Code
	}{
		"server.key":   {key, fault.ProtectedPath},
		"anything":     {key, fault.ProtectedPath},
		"db.secret":    {"password=S3cr3t.word\n", fault.ProtectedPath},
		"cert.pem":     {strings.NewReplacer("EC PRIVATE KEY", "CERTIFICATE", "MHcCAQEE", "MIIDdTCC").Replace(key), ""},
		"key_test.go":  {"package x\n\nconst key = `" + key + "`\n", ""},
		"i18n.key":     {"title = hello\n", ""},
		"id_rsa.pub":   {"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ ada@example.org\n", ""},
		".env.example": {"PASSWORD=changeme\n", ""},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
		c := writeCall(path, "text")
		c.Allow.Paths = []string{dir + "/" + name}
		assert.Equal(t, tc.code, fault.CodeOf(verdict(p, c)), name)
	}
}

// S0-181: an entry of a plan's allow list counts only if the plans of the ancestors allow it, too.
func TestAllowWithin(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for name, tc := range map[string]struct {
		allow  []string
		within []policy.Allow
		asks   bool
	}{
		"alone":             {[]string{"out"}, nil, false},
		"named above":       {[]string{"out"}, []policy.Allow{{Paths: []string{"/root/out"}}}, false},
		"wider above":       {[]string{"out/a"}, []policy.Allow{{Paths: []string{"."}}, {Paths: []string{"out"}}}, false},
		"wider than above":  {[]string{"."}, []policy.Allow{{Paths: []string{"out/a"}}}, false},
		"elsewhere above":   {[]string{"out"}, []policy.Allow{{Paths: []string{"other"}}}, true},
		"nothing above":     {[]string{"out"}, []policy.Allow{{}}, true},
		"one above has not": {[]string{"out"}, []policy.Allow{{Paths: []string{"out"}}, {}}, true},
		"only above":        {nil, []policy.Allow{{Paths: []string{"out"}}}, true},
	} {
		c := writeCall("/root/out/a/b.txt", "text")
		c.Spec.Approval = tools.OutsideWorkspace
		c.Allow.Paths, c.Within = tc.allow, tc.within
		ask, err := p.Decide(c)
		require.NoError(t, err, name)
		assert.Equal(t, tc.asks, ask != nil, name)
	}
	endpoint := tools.Target{Kind: tools.Endpoint, Name: "https://a.example:443"}
	c := policy.Call{Allow: policy.Allow{Endpoints: []string{"a.example"}}, Within: []policy.Allow{{Endpoints: []string{"https://a.example"}}}}
	assert.True(t, p.AllowsTarget(&c, endpoint), "both name it in their own way")
	c.Within = append(c.Within, policy.Allow{Endpoints: []string{"b.example"}})
	assert.False(t, p.AllowsTarget(&c, endpoint))
	c.Scopes = []string{"endpoint https://a.example:443"}
	assert.True(t, p.AllowsTarget(&c, endpoint), "somebody has granted it to this very task")
}

// a tool without an approval rule writes in none of them.
func TestWorkspacesOfOtherTasks(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, approval := range []tools.Approval{tools.NoApproval, tools.IfDestructive, tools.Always} {
		for _, access := range []tools.Access{tools.WritePath, tools.DeletePath} {
			c := writeCall("/root/Working/TASK_OTHER/a", "")
			c.Spec.Approval, c.Spec.Paths[0].Access = approval, access
			err := verdict(p, c)
			assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%s %s", approval, access)
			assert.Equal(t, "file_path", fault.From(err).Field)
		}
	}
	for path, code := range map[string]fault.Code{
		workspace + "/a": "", "/root/src/a.go": "", workspace + "X/a": fault.ProtectedPath, "/root/Working/x": fault.ProtectedPath,
	} {
		c := writeCall(path, "")
		c.Spec.Approval = tools.NoApproval
		assert.Equal(t, code, fault.CodeOf(verdict(p, c)), path)
		c.Spec.Paths[0].Access = tools.ReadPath
		assert.NoError(t, verdict(p, c), path)
	}
}

func TestReadsAreFreeButForTheDataDirectory(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	spec := tools.Spec{Name: "FILE_READ", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, Paths: []tools.Path{{Field: "file_path", Access: tools.ReadPath}}}
	for path, code := range map[string]fault.Code{
		"/root/go.mod": "", "/root/.git/config": "", "/root": "", "/root/data/token": fault.ProtectedPath, "/root/database": "",
	} {
		err := verdict(p, &policy.Call{Spec: &spec, State: statemachine.Done, Paths: map[string]string{"file_path": path}, Workspace: workspace})
		assert.Equal(t, code, fault.CodeOf(err), path)
	}
}

func TestElementsOfListsAreChecked(t *testing.T) {
	t.Parallel()
	spec := tools.Spec{Name: "X", Effect: tools.Write, Gate: tools.AnyState, Approval: tools.OutsideWorkspace, Paths: []tools.Path{{Field: "file_paths", Access: tools.WritePath}}}
	err := verdict(newPolicy(t, policy.Config{}), &policy.Call{
		Spec: &spec, State: statemachine.Done, Workspace: workspace,
		Paths: map[string]string{"file_paths[0]": workspace + "/a", "file_paths[1]": "/root/b"},
	})
	assert.Equal(t, fault.ApprovalRequired, fault.CodeOf(err))
	assert.Equal(t, "file_paths[1]", fault.From(err).Field)
}

// S0-036, A-24: inside of the workspace and outside; the list of exceptions lets a secret through.
func TestSecretsAreRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, path := range []string{workspace + "/a", "/root/outside"} {
		err := verdict(p, writeCall(path, "x "+secret))
		require.Equal(t, fault.SecretDetected, fault.CodeOf(err))
		text, jsonErr := json.Marshal(fault.From(err))
		require.NoError(t, jsonErr)
		assert.NotContains(t, string(text), secret[:10])
		assert.Equal(t, "content", fault.From(err).Field)
	}
	c := writeCall(workspace+"/a", "")
	c.Args = json.RawMessage(`{"content":{"password":"hunter2"}}`)
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(verdict(p, c)), "structured content is searched, too")
	allowing := newPolicy(t, policy.Config{AllowSecrets: []string{"^ghp_0123"}})
	assert.NoError(t, verdict(allowing, writeCall(workspace+"/a", "x "+secret)))
}

// S0-083, S0-084: destructive commands ask, interactive ones are refused.
func TestCommands(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	require.NoError(t, verdict(p, bashCall("echo x > out.txt")))
	assert.Equal(t, tools.Write, p.Effect(bashCall("echo x > out.txt")))

	err := verdict(p, bashCall("rm out.txt"))
	require.Equal(t, fault.ApprovalRequired, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "destructive")
	assert.Contains(t, fault.From(err).Hint, "use a command that is not destructive")
	assert.Equal(t, tools.Destructive, p.Effect(bashCall("rm out.txt")))

	err = verdict(p, bashCall("vi x"))
	require.Equal(t, fault.ValidationError, fault.CodeOf(err))
	assert.Equal(t, "INTERACTIVE", fault.From(err).Reason)

	c := bashCall("touch x")
	c.Paths = map[string]string{"working_directory": "/root/src"}
	assert.Equal(t, fault.ApprovalRequired, fault.CodeOf(verdict(p, c)), "relative paths lie below the working directory")

	c.Args = json.RawMessage(`{"command":1}`)
	assert.Equal(t, fault.ApprovalRequired, fault.CodeOf(verdict(p, c)))
	c.Args = json.RawMessage(`{}`)
	assert.NoError(t, verdict(p, c), "a call without command has nothing to classify")
}

func TestApprovalAlwaysAndUnknown(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, rule := range []tools.Approval{tools.Always, "unheard-of", ""} {
		err := verdict(p, &policy.Call{Spec: &tools.Spec{Name: "FILE_DELETE", Gate: tools.AnyState, Approval: rule}, State: statemachine.Done})
		assert.Equal(t, fault.ApprovalRequired, fault.CodeOf(err), rule)
	}
}

// The effect of the call decides, not its tool. Only a tool that says that a call reads makes it free; what the arguments claim does not.
func TestApprovalByEffect(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	readOnly := newPolicy(t, policy.Config{ReadOnly: true})
	for name, c := range map[string]struct {
		spec, intent tools.Effect
		asks         bool
	}{
		"reads":                       {spec: tools.Destructive, intent: tools.Read},
		"writes":                      {spec: tools.Destructive, intent: tools.Write, asks: true},
		"can be repeated":             {spec: tools.Destructive, intent: tools.Idempotent, asks: true},
		"destroys":                    {spec: tools.Destructive, intent: tools.Destructive, asks: true},
		"says nothing":                {spec: tools.Destructive, asks: true},
		"a reading tool, says it not": {spec: tools.Read},
		"an unknown effect":           {spec: tools.Destructive, intent: "nothing", asks: true},
	} {
		call := policy.Call{
			Spec:  &tools.Spec{Name: "PROJECT_UNDO", Effect: c.spec, Gate: tools.InProgress, Approval: tools.ByEffect},
			State: statemachine.InProgress, Args: json.RawMessage(`{"dry_run":true}`), Intent: tools.Intent{Effect: c.intent},
		}
		ask, err := p.Decide(&call)
		require.NoError(t, err, name)
		assert.Equal(t, c.asks, ask != nil, name)
		assert.Equal(t, c.asks, fault.CodeOf(verdict(readOnly, &call)) == fault.ReadOnly, name)
	}
}

// The checks run in the documented order: each call violates one rule fewer than the previous one.
func TestOrder(t *testing.T) {
	t.Parallel()
	spec := writeSpec()
	spec.Command = "command"
	c := writeCall("/root/.git/x", secret)
	c.Spec, c.State = &spec, statemachine.Done
	c.Args = json.RawMessage(`{"content":"` + secret + `","command":"vi"}`)
	readOnly, p := newPolicy(t, policy.Config{ReadOnly: true}), newPolicy(t, policy.Config{})
	assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(verdict(readOnly, c)))
	c.State = statemachine.InProgress
	assert.Equal(t, fault.ReadOnly, fault.CodeOf(verdict(readOnly, c)))
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(verdict(p, c)))
	c.Paths["file_path"] = "/root/x"
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(verdict(p, c)))
	c.Args = json.RawMessage(`{"command":"vi"}`)
	assert.Equal(t, fault.ValidationError, fault.CodeOf(verdict(p, c)))
	c.Args = nil
	assert.Equal(t, fault.ApprovalRequired, fault.CodeOf(verdict(p, c)))
	c.Paths["file_path"] = workspace + "/x"
	assert.NoError(t, verdict(p, c))
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]policy.Config{
		"root":          {Root: "relative"},
		"working":       {Root: "/r", Working: "relative"},
		"data_dir":      {Root: "/r", DataDir: "relative"},
		"protected":     {Root: "/r", Protected: []string{"[a"}},
		"allow_secrets": {Root: "/r", AllowSecrets: []string{"("}},
	} {
		_, err := policy.New(cfg)
		require.Equal(t, fault.ValidationError, fault.CodeOf(err), field)
		assert.Equal(t, field, fault.From(err).Field)
	}
}

// The notes of a task belong to the node: the task may read them, and write files with the same names in its workspace.
func TestNotesAreProtected(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for path, code := range map[string]fault.Code{
		workspace + "/PROGRESS.md": fault.ProtectedPath, workspace + "/CHECKPOINTS.md": fault.ProtectedPath,
		workspace + "/workspace/PROGRESS.md": "", workspace + "/outputs/CHECKPOINTS.md": "",
	} {
		assert.Equal(t, code, fault.CodeOf(verdict(p, writeCall(path, ""))), path)
	}
	c := writeCall(workspace+"/PROGRESS.md", "")
	c.Spec.Paths = []tools.Path{{Field: "file_path", Access: tools.ReadPath}}
	require.NoError(t, verdict(p, c))
}

func TestProtectedPatternsAreConfigurable(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{Protected: []string{"docs/**", "*.lock"}})
	for path, code := range map[string]fault.Code{
		"/root/docs/a/b": fault.ProtectedPath, "/root/x/y.lock": fault.ProtectedPath, "/root/Makefile": fault.ApprovalRequired,
	} {
		assert.Equal(t, code, fault.CodeOf(verdict(p, writeCall(path, ""))), path)
	}
}
