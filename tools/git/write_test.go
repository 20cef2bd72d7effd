package git_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/git"
)

const token = "ghp_"

// newWriter is newRepo for the writing tools, with an author and a secret detector.
func newWriter(t *testing.T) *bench {
	t.Helper()
	b := newRepo(t)
	b.env.State = statemachine.InProgress
	b.env.Allows = func(tools.Target) bool { return true }
	b.cfg = git.Config{
		FindSecret: func(data []byte) (string, bool) { return "token", strings.Contains(string(data), token) },
		IsSecretFile: func(path string) bool {
			name := filepath.Base(path)
			return name == ".env" || strings.HasPrefix(name, "id_rsa")
		},
		Name: "Orch", Email: "orch@example.com",
	}
	return b
}

// withRemote adds a bare remote inside the root and pushes main to it.
func withRemote(t *testing.T) (b *bench, bare string) {
	t.Helper()
	b = newWriter(t)
	bare = filepath.Join(b.env.Root.Name(), "remote.git")
	b.git("init", "-q", "--bare", "-b", "main", bare)
	b.git("remote", "add", "origin", bare)
	b.git("push", "-q", "origin", "main")
	return b, bare
}

func (b *bench) at(dir string) *bench { return &bench{t: b.t, repo: dir} }

// commits commits a new file.
func (b *bench) commits(name string) {
	b.t.Helper()
	b.write(name, name+"\n")
	b.git("add", name)
	b.git("commit", "-qm", "feat: "+name)
}

type added struct {
	Staged []string `json:"staged"`
}

type committed struct {
	CommitHash string   `json:"commit_hash"`
	Files      []string `json:"files"`
}

type pushed struct {
	Remote     string `json:"remote"`
	Branch     string `json:"branch"`
	Forced     bool   `json:"forced"`
	CommitHash string `json:"commit_hash"`
}

func (b *bench) add(paths ...string) ([]string, error) {
	b.t.Helper()
	out, err := call[added](b, "GIT_ADD", map[string]any{"file_paths": paths})
	return out.Staged, err
}

func (b *bench) commit(message string) (committed, error) {
	b.t.Helper()
	return call[committed](b, "GIT_COMMIT", map[string]any{"message": message})
}

func (b *bench) push(args map[string]any) (pushed, error) {
	b.t.Helper()
	return call[pushed](b, "GIT_PUSH", args)
}

// intent returns the intent of a push.
func (b *bench) intent(args map[string]any) (tools.Intent, error) {
	b.t.Helper()
	for _, tool := range git.Tools(b.cfg) {
		if tool.Spec().Name == "GIT_PUSH" {
			raw, err := json.Marshal(args)
			require.NoError(b.t, err)
			raw, err = tool.Check(raw)
			require.NoError(b.t, err)
			intender, ok := tool.(tools.Intender)
			require.True(b.t, ok)
			return intender.Intent(b.t.Context(), b.env, raw)
		}
	}
	return tools.Intent{}, nil
}

func reason(err error) string {
	if f := fault.From(err); f != nil {
		return f.Reason
	}
	return ""
}

// S0-102
func TestAdd(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.write("new.txt", "new\n")
	b.write("deep/er.txt", "x")
	b.write("-x", "x")
	b.write("*.txt", "x")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(b.repo, "link")))
	require.NoError(t, os.Remove(filepath.Join(b.repo, "a.txt")))
	staged, err := b.add(filepath.Join(b.repo, "new.txt"), "deep/er.txt", "-x", "*.txt", "link", "a.txt", "new.txt")
	require.NoError(t, err)
	want := []string{"*.txt", "-x", "a.txt", "deep/er.txt", "link", "new.txt"}
	assert.Equal(t, want, staged)
	assert.Equal(t, "A\t*.txt\nA\t-x\nD\ta.txt\nA\tdeep/er.txt\nA\tlink\nA\tnew.txt", b.git("diff", "--cached", "--name-status"))
	b.git("fsck", "--strict")
	left, err := filepath.Glob(filepath.Join(b.repo, ".git", "index*"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(b.repo, ".git", "index")}, left)
	again, err := b.add("new.txt")
	require.NoError(t, err)
	assert.Equal(t, []string{"new.txt"}, again)
}

// S0-102, S0-103: if one file is rejected, none is staged.
func TestAddAllOrNone(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.write("good.txt", "good\n")
	b.write(".gitignore", "*.log\n")
	b.write("x.log", "x")
	b.write(".env", "A=1\n")
	b.write("keys/id_rsa.old", "x")
	b.write("token.txt", "my "+token+"\n")
	b.write("large.bin", strings.Repeat("x", 16<<20+1))
	outside := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(b.repo, "out")))
	require.NoError(t, os.Symlink(".git", filepath.Join(b.repo, "meta")))
	for path, code := range map[string]fault.Code{
		"missing.txt": fault.NotFound, "x.log": fault.ValidationError, ".env": fault.SecretDetected, "keys/id_rsa.old": fault.SecretDetected,
		"token.txt": fault.SecretDetected, "large.bin": fault.ValidationError, "keys": fault.InvalidFormat, ".": fault.InvalidFormat,
		"": fault.InvalidFormat, "out/f": fault.OutsideRoot, outside: fault.OutsideRoot, "../temp": fault.InvalidFormat,
		".git/config": fault.ProtectedPath, ".GIT/config": fault.ProtectedPath, "meta/config": fault.ProtectedPath, "a\x00b": fault.InvalidFormat,
		"a.txt/x": fault.InvalidFormat, "../../../../x": fault.OutsideRoot, "-f": fault.NotFound, ":(exclude)a.txt": fault.NotFound, "*": fault.NotFound,
	} {
		_, err := b.add("good.txt", path)
		assert.Equal(t, code, fault.CodeOf(err), "%q: %v", path, err)
		assert.Empty(t, b.git("diff", "--cached", "--name-only"), path)
	}
	_, err := b.add("token.txt")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), token)
	b.cfg = git.Config{}
	_, err = b.add("good.txt")
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(err), "without a finder nothing is staged")
}

func TestAddRefusesForeignWorkspaceLocksAndFilters(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.write("c.bin", "x")
	b.write(".gitattributes", "*.bin filter=lfs\n")
	b.git("config", "filter.lfs.clean", "cat")
	_, err := b.add("c.bin")
	assert.Equal(t, "FILTERED", reason(err))
	lock := filepath.Join(b.repo, ".git", "index.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	_, err = b.add(".gitattributes")
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	assert.FileExists(t, lock)
	require.NoError(t, os.Remove(lock))
	_, err = b.add(".gitattributes")
	require.NoError(t, err)

	b.env.Workspace = filepath.Join(filepath.Dir(b.env.Workspace), "TASK_01JD0000000000000000000001")
	for tool, args := range map[string]map[string]any{
		"GIT_ADD": {"file_paths": []string{"a.txt"}}, "GIT_COMMIT": {"message": "fix: x"}, "GIT_PUSH": {},
	} {
		args["repository_path"] = b.repo
		_, err = call[added](b, tool, args)
		assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%s: %v", tool, err)
	}
}

// S0-104
func TestCommit(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	_, err := b.commit("feat: nothing")
	assert.Equal(t, "NOTHING_STAGED", reason(err))
	b.write("new.txt", "new\n")
	b.write("b.txt", "other\n")
	b.git("add", "new.txt", "b.txt")
	b.write("a.txt", "not staged\n")
	out, err := b.commit("feat(x): add \"$(touch y)\" `z`\n\n# no comment\nsecond line\n")
	require.NoError(t, err)
	assert.Equal(t, b.git("rev-parse", "HEAD"), out.CommitHash)
	assert.Equal(t, []string{"b.txt", "new.txt"}, out.Files)
	assert.Equal(t, "Orch <orch@example.com>", b.git("log", "-1", "--format=%an <%ae>"))
	assert.Contains(t, b.git("log", "-1", "--format=%B"), "# no comment")
	assert.Equal(t, "a.txt", b.git("diff", "--name-only"))
}

// S0-105, A-34
func TestCommitMessages(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	for _, message := range []string{
		"x", "Fix: y", "fix y", "fix:y", "fix: ", "fix(): y", "wip: y", " fix: y", "fix: y\nno empty line", "fix: y\r\n", "fix: \x00", "-m", "--amend",
		"fix: " + strings.Repeat("y", 68), "\nfix: y", "#fix: y",
	} {
		_, err := b.commit(message)
		assert.Equal(t, "BAD_MESSAGE", reason(err), "%q", message)
	}
	for _, message := range []string{"fix: y", "feat(api)!: y", "chore: " + strings.Repeat("ü", 65), "docs: y\n\nbody"} {
		_, err := b.commit(message)
		assert.Equal(t, "NOTHING_STAGED", reason(err), "%q", message)
	}
	b.cfg.Conventions = `^[A-Z]+-\d+ `
	_, err := b.commit("ABC-1 text")
	assert.Equal(t, "NOTHING_STAGED", reason(err))
	b.cfg.Conventions = `(`
	_, err = b.commit("fix: y")
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}

func TestCommitNeedsAuthorAndNoSecrets(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.cfg.Name, b.cfg.Email = "", ""
	b.write("new.txt", "new\n")
	b.git("add", "new.txt")
	_, err := b.commit("feat: x")
	assert.Equal(t, "IDENTITY_MISSING", reason(err), "%v", err)
	b.cfg.Own = func(context.Context) (string, string) { return "Own", "own@example.com" }
	_, err = b.commit("feat: x")
	require.NoError(t, err)
	assert.Equal(t, "Own own@example.com", b.git("log", "-1", "--format=%cn %ae"))
	b.git("config", "user.name", "Repo")
	b.git("config", "user.email", "repo@example.com")
	b.write("newer.txt", "new\n")
	b.git("add", "newer.txt")
	_, err = b.commit("feat: x")
	require.NoError(t, err)
	assert.Equal(t, "Repo", b.git("log", "-1", "--format=%cn"))
	for _, name := range []string{".env", "token.txt"} {
		b.write(name, token)
		b.git("add", name)
		_, err = b.commit("feat: x")
		assert.Equal(t, fault.SecretDetected, fault.CodeOf(err), name)
		b.git("reset", "-q")
	}
}

// S0-104: hooks run in the sandbox, and their output is returned.
func TestCommitHooks(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	before := b.git("rev-parse", "HEAD")
	hook := func(name, script string) {
		path := filepath.Join(b.repo, ".git", "hooks", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	b.write("new.txt", "new\n")
	b.git("add", "new.txt")
	hook("pre-commit", "echo lint says no; exit 1")
	_, err := b.commit("feat: x")
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Equal(t, "HOOK_FAILED", reason(err))
	assert.Contains(t, err.Error(), "lint says no")
	hook("pre-commit", "exit 0")
	hook("commit-msg", "echo bad subject >&2; exit 7")
	_, err = b.commit("feat: x")
	assert.Equal(t, "HOOK_FAILED", reason(err))
	assert.Contains(t, err.Error(), "bad subject")
	assert.Equal(t, before, b.git("rev-parse", "HEAD"))

	outside := filepath.Join(t.TempDir(), "mark")
	hook("commit-msg", "touch "+outside+" "+filepath.Join(b.env.Root.Name(), "mark")+"; env > "+filepath.Join(b.repo, "seen")+"; exit 0")
	_, err = b.commit("feat: x")
	require.NoError(t, err)
	assert.NoFileExists(t, outside)
	assert.NoFileExists(t, filepath.Join(b.env.Root.Name(), "mark"))
	seen, err := os.ReadFile(filepath.Join(b.repo, "seen"))
	require.NoError(t, err)
	assert.Contains(t, string(seen), "GIT_TERMINAL_PROMPT=0")

	b.write("husky/pre-commit", "#!/bin/sh\necho husky; exit 1\n")
	require.NoError(t, os.Chmod(filepath.Join(b.repo, "husky", "pre-commit"), 0o755))
	b.git("config", "core.hooksPath", "husky")
	b.git("add", "husky")
	_, err = b.commit("feat: x")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "husky")
	b.git("config", "core.hooksPath", t.TempDir())
	_, err = b.commit("feat: x")
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err))
}

func TestCommitOfHeads(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	other := newRepo(t)
	b.git("submodule", "add", "-q", other.repo, "sub")
	out, err := b.commit("feat: submodule")
	require.NoError(t, err)
	assert.Equal(t, []string{".gitmodules", "sub"}, out.Files)
	b.write("sub/new.txt", "x")
	_, err = b.add("sub/new.txt")
	require.Error(t, err, "a file of a submodule is not one of the repository")

	b.git("checkout", "-q", "--detach")
	b.write("d.txt", "x")
	_, err = b.add("d.txt")
	require.NoError(t, err)
	out, err = b.commit("feat: detached")
	require.NoError(t, err)
	assert.Equal(t, []string{"d.txt"}, out.Files)

	unborn := newWriter(t)
	require.NoError(t, os.RemoveAll(filepath.Join(unborn.repo, ".git")))
	unborn.git("init", "-q", "-b", "trunk")
	_, err = unborn.add("a.txt", "b.txt")
	require.NoError(t, err)
	out, err = unborn.commit("feat: first")
	require.NoError(t, err)
	assert.Equal(t, []string{"a.txt", "b.txt"}, out.Files)

	linked := newWriter(t)
	tree := filepath.Join(linked.env.Workspace, "linked")
	linked.git("worktree", "add", "-q", "-b", "side", tree)
	require.NoError(t, os.WriteFile(filepath.Join(tree, "n.txt"), []byte("x"), 0o600))
	_, err = call[added](linked, "GIT_ADD", map[string]any{"file_paths": []string{"n.txt"}, "repository_path": tree})
	require.NoError(t, err)
	_, err = call[committed](linked, "GIT_COMMIT", map[string]any{"message": "feat: n", "repository_path": tree})
	require.NoError(t, err)
	assert.Equal(t, "feat: n", linked.git("log", "-1", "--format=%s", "side"))
}

func TestCommitOfConflict(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	b.git("checkout", "-qb", "other")
	b.write("a.txt", "theirs\n")
	b.git("commit", "-qam", "theirs")
	b.git("checkout", "-q", "main")
	b.write("a.txt", "ours\n")
	b.git("commit", "-qam", "ours")
	merge := exec.CommandContext(t.Context(), "git", "-C", b.repo, "-c", "user.name=T", "-c", "user.email=t@example.com", "merge", "other")
	require.Error(t, merge.Run())
	_, err := b.commit("feat: x")
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
}
