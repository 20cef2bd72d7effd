package git_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/git"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a root with a workspace, which contains a repository after init.
type bench struct {
	t    *testing.T
	env  *tools.Env
	repo string
	cfg  git.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	runner, err := proc.New(proc.Config{})
	require.NoError(t, err)
	b := &bench{t: t, env: &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.Done, Root: root, Exec: runner,
		Workspace: filepath.Join(root.Name(), "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}}
	b.repo = filepath.Join(b.env.Workspace, "workspace")
	require.NoError(t, os.MkdirAll(b.repo, 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(b.env.Workspace, "temp"), 0o755))
	return b
}

// newRepo is a bench whose workspace is a repository with one commit of the files a.txt and b.txt.
func newRepo(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.git("init", "-q", "-b", "main")
	b.write("a.txt", "one\ntwo\nthree\nfour\nfive\n")
	b.write("b.txt", "b\n")
	b.git("add", ".")
	b.git("commit", "-qm", "first")
	return b
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", append([]string{
		"-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always", "-C", b.repo,
	}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.repo, name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
}

type entry struct {
	Path    string `json:"path"`
	Status  string `json:"status"`
	OldPath string `json:"old_path"`
}

type status struct {
	Branch    string   `json:"branch"`
	Commit    string   `json:"commit"`
	Upstream  string   `json:"upstream"`
	Ahead     int      `json:"ahead"`
	Behind    int      `json:"behind"`
	Staged    []entry  `json:"staged"`
	Unstaged  []entry  `json:"unstaged"`
	Untracked []string `json:"untracked"`
	Truncated bool     `json:"truncated"`
}

type diff struct {
	Diff      string   `json:"diff"`
	Files     []string `json:"files"`
	Truncated bool     `json:"truncated"`
}

// call runs a tool by name and decodes its output.
func call[Out any](b *bench, name string, args map[string]any) (Out, error) {
	b.t.Helper()
	var out Out
	for _, tool := range git.Tools(b.cfg) {
		if tool.Spec().Name != name {
			continue
		}
		raw, err := json.Marshal(args)
		require.NoError(b.t, err)
		if raw, err = tool.Check(raw); err != nil {
			return out, err
		}
		if raw, err = tool.Call(b.t.Context(), b.env, raw); err != nil {
			return out, err
		}
		require.NoError(b.t, json.Unmarshal(raw, &out))
		return out, nil
	}
	b.t.Fatalf("there is no tool %s", name)
	return out, nil
}

func (b *bench) status() status {
	b.t.Helper()
	out, err := call[status](b, "GIT_STATUS", map[string]any{})
	require.NoError(b.t, err)
	return out
}

func (b *bench) diff(staged bool) diff {
	b.t.Helper()
	out, err := call[diff](b, "GIT_DIFF", map[string]any{"staged": staged})
	require.NoError(b.t, err)
	return out
}

// S0-100: what is staged, unstaged and untracked.
func TestStatusOfChanges(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	clean := b.status()
	assert.Equal(t, "main", clean.Branch)
	assert.Equal(t, b.git("rev-parse", "HEAD"), clean.Commit)
	assert.Equal(t, []entry{}, clean.Staged)
	assert.Equal(t, []entry{}, clean.Unstaged)
	assert.Equal(t, []string{}, clean.Untracked)

	b.git("mv", "a.txt", "renamed file.txt")
	b.write("b.txt", "changed\n")
	b.git("add", "b.txt")
	b.write("b.txt", "changed again\n")
	b.write("new.txt", "new\n")
	b.git("add", "new.txt")
	require.NoError(t, os.Remove(filepath.Join(b.repo, "new.txt")))
	b.write("ünïcode \"quoted\"\nand two lines.txt", "x")
	b.write("folder/x", "x")
	out := b.status()
	assert.ElementsMatch(t, []entry{
		{"renamed file.txt", "renamed", "a.txt"}, {"b.txt", "modified", ""}, {"new.txt", "added", ""},
	}, out.Staged)
	assert.ElementsMatch(t, []entry{{"b.txt", "modified", ""}, {"new.txt", "deleted", ""}}, out.Unstaged)
	assert.ElementsMatch(t, []string{"folder/", "ünïcode \"quoted\"\nand two lines.txt"}, out.Untracked)
}

func TestStatusOfConflict(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	b.git("checkout", "-qb", "other")
	b.write("a.txt", "theirs\n")
	b.git("commit", "-qam", "theirs")
	b.git("checkout", "-q", "main")
	b.write("a.txt", "ours\n")
	b.git("commit", "-qam", "ours")
	merge := exec.CommandContext(t.Context(), "git", "-C", b.repo, "-c", "user.name=T", "-c", "user.email=t@example.com", "merge", "other")
	require.Error(t, merge.Run())
	out := b.status()
	assert.Equal(t, []entry{{"a.txt", "conflicted", ""}}, out.Unstaged)
	d := b.diff(false)
	assert.Equal(t, []string{"a.txt"}, d.Files)
	assert.Contains(t, d.Diff, "++<<<<<<< HEAD")
}

// S0-100: branches, a detached head, and none yet.
func TestStatusOfHeads(t *testing.T) {
	t.Parallel()
	unborn := newBench(t)
	unborn.git("init", "-q", "-b", "trunk")
	unborn.write("a", "x\n")
	unborn.git("add", "a")
	out := unborn.status()
	assert.Equal(t, "trunk", out.Branch)
	assert.Empty(t, out.Commit)
	assert.Equal(t, []entry{{"a", "added", ""}}, out.Staged)
	assert.Contains(t, unborn.diff(true).Diff, "+x")

	detached := newRepo(t)
	detached.git("checkout", "-q", "--detach")
	assert.Equal(t, "(detached)", detached.status().Branch)

	tracking := newRepo(t)
	tracking.git("branch", "upstream")
	tracking.git("branch", "-q", "--set-upstream-to=upstream")
	tracking.write("a.txt", "more\n")
	tracking.git("commit", "-qam", "ahead")
	out = tracking.status()
	assert.Equal(t, "upstream", out.Upstream)
	assert.Equal(t, 1, out.Ahead)
	assert.Equal(t, 0, out.Behind)
}

func TestSubmodule(t *testing.T) {
	t.Parallel()
	other := newRepo(t)
	b := newRepo(t)
	b.git("submodule", "add", "-q", other.repo, "sub")
	b.git("commit", "-qam", "submodule")
	assert.Empty(t, b.status().Unstaged)
	b.write("sub/a.txt", "dirty\n")
	assert.Empty(t, b.status().Unstaged, "the content of submodules is not looked at")
	sub := &bench{t: t, repo: filepath.Join(b.repo, "sub")}
	sub.git("commit", "-qam", "moved")
	assert.Equal(t, []entry{{"sub", "modified", ""}}, b.status().Unstaged)
	assert.Contains(t, b.diff(false).Diff, "Subproject commit")
}

// S0-101: of the work tree, and of what is staged.
func TestDiff(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	assert.Equal(t, diff{Files: []string{}}, b.diff(false))
	b.write("a.txt", "one\n2\nthree\nfour\nfive\n")
	b.write("b.txt", "staged\n")
	b.git("add", "b.txt")
	unstaged := b.diff(false)
	assert.Equal(t, []string{"a.txt"}, unstaged.Files)
	assert.Contains(t, unstaged.Diff, "diff --git a/a.txt b/a.txt")
	assert.Contains(t, unstaged.Diff, "-two\n+2\n")
	assert.False(t, unstaged.Truncated)
	staged := b.diff(true)
	assert.Equal(t, []string{"b.txt"}, staged.Files)
	assert.Contains(t, staged.Diff, "+staged")

	b.write("a.txt", strings.Repeat("0123456789\n", 200_000))
	long := b.diff(false)
	assert.True(t, long.Truncated)
	assert.LessOrEqual(t, len(long.Diff), 1<<20)
	assert.Equal(t, []string{"a.txt"}, long.Files)
}

// A hunk in the middle of a private key shows no line of it, also if only one of the two versions has the key.
func TestDiffWithinAKey(t *testing.T) {
	t.Parallel()
	key := func(middle string) string {
		lines := strings.Repeat(strings.Repeat("MIIE", 16)+"\n", 8)
		return "title\n-----BEGIN RSA PRIVATE KEY-----\n" + lines + middle + "\n" + lines + "-----END RSA PRIVATE KEY-----\n" + strings.Repeat("text\n", 9) + "end\n"
	}
	old, fresh, public := strings.Repeat("b2xk", 16), strings.Repeat("bmV3", 16), strings.Repeat("cHVi", 16)
	b := newRepo(t)
	b.write("a.txt", key(old))
	b.write("b.txt", "plain\n")
	b.git("add", ".")
	b.git("commit", "-qm", "key")
	b.write("a.txt", strings.Replace(key(fresh), "end\n", "END\n", 1))
	b.write("b.txt", "plain\n"+public+"\n")
	got := b.diff(false).Diff
	for _, secret := range []string{old, fresh, "MIIE"} {
		assert.NotContains(t, got, secret)
	}
	assert.Contains(t, got, "-[REDACTED:private_key]\n+[REDACTED:private_key]\n")
	assert.Contains(t, got, "+"+public+"\n", "no part of a key")
	assert.Contains(t, got, "-end\n+END\n")
}

// With a base the diff shows the changes since the merge base, committed or not, but no changes of others since then.
func TestDiffAgainstABase(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	b.git("branch", "-M", "main")
	b.git("checkout", "-q", "-b", "work")
	b.write("mine.txt", "committed\n")
	b.git("add", ".")
	b.git("commit", "-qm", "mine")
	b.git("checkout", "-q", "main")
	b.write("theirs.txt", "theirs\n")
	b.git("add", ".")
	b.git("commit", "-qm", "theirs")
	b.git("checkout", "-q", "work")
	b.write("a.txt", "changed\n")
	since := func(base string, staged bool) (diff, error) {
		return call[diff](b, "GIT_DIFF", map[string]any{"repository_path": b.repo, "base": base, "staged": staged})
	}
	for base, want := range map[string][]string{"main": {"a.txt", "mine.txt"}, "HEAD": {"a.txt"}, "HEAD~1": {"a.txt", "mine.txt"}} {
		got, err := since(base, false)
		require.NoError(t, err)
		assert.Equal(t, want, got.Files, base)
	}
	got, err := since("main", true)
	require.NoError(t, err)
	assert.Equal(t, []string{"mine.txt"}, got.Files)
	for _, base := range []string{"nothing", "--output=" + b.repo + "/x", "HEAD:a.txt", "-1", "main..work", "^main", "@{-9}"} {
		_, err := since(base, false)
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), base)
	}
	b.git("checkout", "-q", "--orphan", "apart")
	b.git("commit", "-qm", "apart")
	_, err = since("main", false)
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}

// S0-100, S0-101: where no repository is, and where none may be looked for.
func TestRepositoryPath(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	b.write("deep/er/x", "x")
	b.git("add", ".")
	out, err := call[status](b, "GIT_STATUS", map[string]any{"repository_path": filepath.Join(b.repo, "deep")})
	require.NoError(t, err)
	assert.Equal(t, []entry{{"deep/er/x", "added", ""}}, out.Staged)
	require.NoError(t, os.Symlink("/", filepath.Join(b.repo, "out")))
	for path, code := range map[string]fault.Code{
		b.env.Root.Name():                fault.NotFound,
		filepath.Join(b.repo, "missing"): fault.NotFound,
		filepath.Join(b.repo, ".git"):    fault.NotFound,
		filepath.Join(b.repo, "a.txt"):   fault.InvalidFormat,
		filepath.Join(b.repo, "out"):     fault.OutsideRoot,
		"/":                              fault.OutsideRoot,
		"relative":                       fault.InvalidFormat,
		"--upload-pack=x":                fault.InvalidFormat,
	} {
		for _, tool := range []string{"GIT_STATUS", "GIT_DIFF"} {
			_, err := call[status](b, tool, map[string]any{"repository_path": path})
			assert.Equal(t, code, fault.CodeOf(err), "%s %s", tool, path)
			assert.Equal(t, "repository_path", fault.From(err).Field)
		}
	}
	_, err = call[status](b, "GIT_STATUS", map[string]any{"repository_path": b.env.Root.Name()})
	assert.Equal(t, "REPO_NOT_FOUND", fault.From(err).Reason)
}

// A repository above the root is not used; the error tells that it exists.
func TestDiscoveryStaysBelowTheRoot(t *testing.T) {
	t.Parallel()
	outer := newRepo(t)
	root, err := pathguard.Open(outer.repo)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	inner := filepath.Join(outer.repo, "inner")
	require.NoError(t, os.MkdirAll(inner, 0o755))
	guard, err := pathguard.Open(inner)
	require.NoError(t, err)
	t.Cleanup(func() { guard.Close() })
	outer.env.Root = guard
	for _, tool := range []string{"GIT_STATUS", "GIT_DIFF"} {
		_, err = call[status](outer, tool, map[string]any{"repository_path": inner})
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		assert.Equal(t, fault.OutsideRoot, f.Code)
		assert.Equal(t, "the work tree of "+inner+" lies outside of the root", f.Message)
		assert.Contains(t, f.Hint, "--root")
		assert.Equal(t, "repository_path", f.Field)
	}
}

// A work tree whose repository is above the root has another error than one that is above the root itself.
func TestLinkedWorkTree(t *testing.T) {
	t.Parallel()
	outer := newRepo(t)
	linked := filepath.Join(t.TempDir(), "linked")
	outer.git("commit", "-q", "--allow-empty", "-m", "first")
	outer.git("worktree", "add", "-q", linked)
	guard, err := pathguard.Open(linked)
	require.NoError(t, err)
	t.Cleanup(func() { guard.Close() })
	outer.env.Root = guard
	_, err = call[status](outer, "GIT_STATUS", map[string]any{"repository_path": linked})
	f := fault.From(err)
	assert.Equal(t, fault.OutsideRoot, f.Code)
	assert.Equal(t, "the work tree of "+linked+" belongs to a repository that lies outside of the root", f.Message)
	assert.Contains(t, f.Hint, "clone")
}

// No program in the configuration of a repository runs, and nothing outside is shown.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	mark := filepath.Join(t.TempDir(), "ran")
	run := "touch " + mark + "; cat #"
	for _, setting := range [][2]string{
		{"core.fsmonitor", run},
		{"core.pager", run},
		{"pager.diff", run},
		{"pager.status", run},
		{"diff.external", run},
		{"core.editor", run},
		{"core.sshCommand", run},
		{"alias.status", "!" + run},
		{"alias.diff", "!" + run},
		{"diff.evil.textconv", run},
		{"diff.evil.command", run},
		{"filter.evil.clean", run},
		{"filter.evil.smudge", run},
		{"filter.proc.process", run},
		{"filter.proc.required", "true"},
		{"filter.a=b.clean", run},
		{"filter.x.y.clean", run},
		{"diff.noprefix", "true"},
		{"color.diff", "always"},
		{"diff.orderFile", "/etc/passwd"},
	} {
		b.git("config", setting[0], setting[1])
	}
	b.write(".git/info/attributes", "a.txt filter=evil diff=evil\nb.txt filter=proc\nc.txt filter=x.y\n")
	b.write("a.txt", "changed\n")
	b.write("b.txt", "changed\n")
	b.write("c.txt", "new\n")
	hook := filepath.Join(b.repo, ".git", "hooks", "post-index-change")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"+run+"\n"), 0o755))

	assert.Equal(t, []entry{{"a.txt", "modified", ""}, {"b.txt", "modified", ""}}, b.status().Unstaged)
	d := b.diff(false)
	assert.Contains(t, d.Diff, "diff --git a/a.txt b/a.txt\n")
	assert.NotContains(t, d.Diff, "\x1b[")
	assert.NoFileExists(t, mark)

	b.git("config", "core.worktree", "/etc")
	_, err := call[status](b, "GIT_STATUS", map[string]any{})
	require.Error(t, err)
	assert.Contains(t, []fault.Code{fault.OutsideRoot, fault.NotFound}, fault.CodeOf(err))
}

func TestRepositoryElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	outside := newRepo(t)
	b := newBench(t)
	b.write(".git", "gitdir: "+filepath.Join(outside.repo, ".git")+"\n")
	_, err := call[status](b, "GIT_STATUS", map[string]any{})
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err))
}

func TestWithoutGit(t *testing.T) {
	t.Parallel()
	b := newRepo(t)
	var err error
	b.env.Exec, err = proc.New(proc.Config{Path: []string{"/nowhere"}})
	require.NoError(t, err)
	for _, tool := range []string{"GIT_STATUS", "GIT_DIFF"} {
		_, err = call[status](b, tool, map[string]any{})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), tool)
	}
}
