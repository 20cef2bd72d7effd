package git_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/git"
)

// S0-106, S0-107
func TestPush(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	_, err := b.push(map[string]any{})
	assert.Equal(t, "NOTHING_TO_PUSH", reason(err), "%v", err)
	b.commits("c.txt")
	out, err := b.push(map[string]any{})
	require.NoError(t, err)
	head := b.git("rev-parse", "HEAD")
	assert.Equal(t, pushed{Remote: "origin", Branch: "main", CommitHash: head}, out)
	assert.Equal(t, head, b.at(bare).git("rev-parse", "main"))
	assert.Equal(t, head, b.git("rev-parse", "origin/main"))
	left, err := filepath.Glob(filepath.Join(b.env.Workspace, "temp", "push-*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	b.git("branch", "side/way")
	out, err = b.push(map[string]any{"branch": "side/way", "remote": "origin"})
	require.NoError(t, err)
	assert.Equal(t, "side/way", out.Branch)
	assert.Equal(t, "main\nside/way", b.at(bare).git("for-each-ref", "--format=%(refname:short)"))
}

// S0-107
func TestPushRejected(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	b.commits("c.txt")
	_, err := b.push(map[string]any{})
	require.NoError(t, err)
	theirs := b.git("rev-parse", "HEAD")
	b.git("reset", "-q", "--hard", "HEAD~1")
	b.commits("d.txt")
	_, err = b.push(map[string]any{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
	assert.Equal(t, "NON_FAST_FORWARD", reason(err))
	assert.Equal(t, theirs, b.at(bare).git("rev-parse", "main"))
	out, err := b.push(map[string]any{"force": true})
	require.NoError(t, err)
	assert.True(t, out.Forced)
	assert.Equal(t, b.git("rev-parse", "HEAD"), b.at(bare).git("rev-parse", "main"))

	hook := filepath.Join(bare, "hooks", "pre-receive")
	require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\necho not on fridays; exit 1\n"), 0o755))
	b.commits("e.txt")
	_, err = b.push(map[string]any{})
	assert.Equal(t, "REMOTE_REJECTED", reason(err), "%v", err)
	assert.Contains(t, err.Error(), "not on fridays")
}

// S0-107
func TestPushToNowhere(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	_, err := b.push(map[string]any{})
	assert.Equal(t, "REMOTE_NOT_FOUND", reason(err))
	empty := filepath.Join(b.env.Root.Name(), "empty")
	require.NoError(t, os.Mkdir(empty, 0o755))
	b.git("remote", "add", "origin", empty)
	for _, url := range []string{empty, empty + "/missing", "https://127.0.0.1:1/x.git", "https://name.invalid/x.git"} {
		b.git("config", "remote.origin.url", url)
		_, err = b.push(map[string]any{})
		assert.Equal(t, fault.NetworkError, fault.CodeOf(err), "%s: %v", url, err)
	}
}

func TestPushOfHeads(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	b.git("checkout", "-q", "--detach")
	_, err := b.push(map[string]any{})
	assert.Equal(t, "DETACHED_HEAD", reason(err))
	_, err = b.push(map[string]any{"branch": "missing"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	b.git("checkout", "-q", "--orphan", "trunk")
	_, err = b.push(map[string]any{})
	assert.Equal(t, "NOTHING_TO_PUSH", reason(err))

	shallow := filepath.Join(b.env.Workspace, "shallow")
	b.git("checkout", "-qf", "main")
	b.commits("c.txt")
	b.git("push", "-q", "origin", "main")
	b.git("clone", "-q", "--depth=1", "file://"+bare, shallow)
	b.at(shallow).commits("s.txt")
	_, err = b.push(map[string]any{"repository_path": shallow})
	require.NoError(t, err)
	assert.Equal(t, b.at(shallow).git("rev-parse", "HEAD"), b.at(bare).git("rev-parse", "main"))
}

// S0-108, A-35
func TestPushToProtectedBranch(t *testing.T) {
	t.Parallel()
	b, _ := withRemote(t)
	rules, err := policy.New(policy.Config{Root: b.env.Root.Name(), Working: filepath.Dir(b.env.Workspace), DataDir: "/nowhere"})
	require.NoError(t, err)
	decide := func(args map[string]any) (*policy.Ask, policy.Call, error) {
		intent, err := b.intent(args)
		require.NoError(t, err)
		var spec tools.Spec
		for _, tool := range git.Tools(b.cfg) {
			if tool.Spec().Name == "GIT_PUSH" {
				spec = tool.Spec()
			}
		}
		c := policy.Call{
			Task: b.env.Task, Spec: &spec, State: statemachine.InProgress, Workspace: b.env.Workspace,
			Intent: intent, Args: []byte(`{}`),
		}
		ask, err := rules.Decide(&c)
		return ask, c, err
	}
	for _, branch := range []string{"main", "master", "release/1.0"} {
		if branch != "main" {
			b.git("branch", branch)
		}
		ask, _, err := decide(map[string]any{"branch": branch})
		require.NoError(t, err)
		require.NotNil(t, ask)
		assert.Equal(t, "protected_branch", ask.Rule)
		_, _, err = decide(map[string]any{"branch": branch, "force": true})
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	}
	b.git("branch", "topic")
	ask, c, err := decide(map[string]any{"branch": "topic", "force": true})
	require.NoError(t, err)
	assert.Nil(t, ask)
	assert.Equal(t, tools.Destructive, c.Intent.Effect)

	// The branch that is checked out when the push runs is not the one that was checked.
	b.git("checkout", "-q", "topic")
	ask, c, err = decide(map[string]any{})
	require.NoError(t, err)
	assert.Nil(t, ask)
	b.env.Allows = func(t tools.Target) bool { return rules.AllowsTarget(&c, t) }
	b.git("checkout", "-q", "main")
	b.commits("c.txt")
	before := b.git("rev-parse", "origin/main")
	_, err = b.push(map[string]any{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	assert.Equal(t, before, b.git("rev-parse", "origin/main"))
}

func TestPushIntent(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.cfg.SSHCommand = "ssh -o BatchMode=yes"
	b.git("remote", "add", "origin", "x")
	for url, name := range map[string]string{
		"https://Example.com/x.git":          "https://example.com:443",
		"https://example.com:8443/x.git":     "https://example.com:8443",
		"https://[::1]/x.git":                "https://[::1]:443",
		"ssh://git@example.com/x.git":        "ssh://example.com:22",
		"ssh://git@example.com:2222/x.git":   "ssh://example.com:2222",
		"git@example.com:owner/x.git":        "ssh://example.com:22",
		"https://user@example.com/x.git":     "https://example.com:443",
		"https://example.com/a%20b/ü/x.git?": "https://example.com:443",
	} {
		b.git("config", "remote.origin.url", url)
		intent, err := b.intent(map[string]any{})
		require.NoError(t, err, url)
		assert.Equal(t, tools.Intent{Effect: tools.Write, Reason: "push", Targets: []tools.Target{
			{Kind: tools.Branch, Name: "origin/main"}, {Kind: tools.Endpoint, Name: name},
		}}, intent, url)
	}
	b.env.Allows = func(target tools.Target) bool { return target.Kind == tools.Branch }
	_, err := b.push(map[string]any{})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "an endpoint that nobody has opened")
}
