package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// contents maps every file and link outside the workspaces to its content.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(root, "Working"):
			return fs.SkipDir
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[path] = "-> " + target
			return err
		case entry.IsDir():
			all[path] = "directory"
			return nil
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	}))
	return all
}

// hostilePaths returns paths outside the workspace of the task, in the forms that an attacker would use to avoid an approval.
// ROOT and WS are replaced.
func hostilePaths() []string {
	return []string{
		"ROOT/x", "ROOT/./x", "ROOT//x", "ROOT/sub/../x", "WS/../../../x", "WS/../../x", "WS/../x/../../../x", "WS/workspace/../../../../x",
		"WS/workspace/out/x", "WS/workspace/chain/x", "WS/workspace/file", "WS/workspace/dangling", "WS/workspace/abs/x", "WS/workspace/up/up/x",
		"WS-evil/x", "WS/../TASK_01JD0000000000000000000000evil/x", "WSX/x", "ROOT/working/TASK_01JD0000000000000000000000/x",
		"ROOT/Working/task_01jd0000000000000000000000/x", "ROOT/Working/TASK_01JD0000000000000000000000\u200b/x", "ROOT/Working/TASK_01JD0000000000000000000000 /x",
		"ROOT/Ｗorking/TASK_01JD0000000000000000000000/x", "ROOT/Working/TASK_01JD0000000000000000000000\\\\../x", "WS\\\\..\\\\..\\\\x", "ROOT/Working/x", "ROOT/Working/.gitignore",
		"ROOT/Working/TASK_01JD0000000000000000000001/x", "ROOT/go.mod", "ROOT/GO.MOD", "ROOT/.git/config", "ROOT/.GIT/config", "ROOT/.git\u200c/config",
		"WS/workspace/.git/hooks/x", "WS/workspace/sub/.Git/config", "WS/.env", "WS/workspace/.ENV", "/proc/self/root/ROOT/x", "/proc/self/cwd/x", "/dev/fd/3", "WS/workspace/%2e%2e/../../../../x",
	}
}

// No writing tool reaches anything outside the workspace, or anything protected, without an approval.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	root, ws := b.root.Name(), b.working()
	for _, dir := range []string{filepath.Join(root, "sub"), filepath.Join(root, ".git"), b.working("workspace"), b.working("outputs"), filepath.Join(root, "Working/TASK_01JD0000000000000000000001")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for name, target := range map[string]string{
		"out": root, "chain": "out", "file": filepath.Join(root, "victim"), "dangling": filepath.Join(root, "new"), "abs": "/", "up": "..",
	} {
		require.NoError(t, os.Symlink(target, b.working("workspace", name)))
	}
	for _, name := range []string{"victim", "x", "go.mod", ".git/config", "Working/TASK_01JD0000000000000000000001/x"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte("old\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(b.working("workspace", "own"), []byte("own\n"), 0o600))
	before := contents(t, root)
	const patch = `--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+evil\n`
	for _, path := range hostilePaths() {
		path = strings.NewReplacer("ROOT", root, "WS", ws).Replace(path)
		for tool, args := range map[string]string{
			"FILE_WRITE": `{"file_path":"P","content":"evil"}`, "write_file": `{"path":"P","content":"evil"}`, "append": `{"path":"P","content":"evil"}`,
			"create_directory": `{"path":"P"}`, "DIRECTORY_DELETE": `{"directory_path":"P","recursive":true}`, "FILE_DELETE": `{"file_path":"P"}`,
			"patch_apply": `{"path":"P","patch":"` + patch + `"}`, "move_file": `{"source":"` + b.working("workspace", "own") + `","destination":"P"}`,
			"BASH_EXECUTE": `{"command":"echo evil > 'P'"}`,
		} {
			for _, state := range []string{"IN_PROGRESS", "AWAITING_APPROVAL"} {
				c := call(tool, strings.ReplaceAll(args, "P", path))
				require.True(t, json.Valid(c.Args), "%s", c.Args)
				c.State = state
				b.Execute(t.Context(), c)
			}
		}
		require.Equal(t, before, contents(t, root), path)
	}
	_, err := os.Stat(filepath.Join(root, "Working/TASK_01JD0000000000000000000001/x"))
	require.NoError(t, err)
	assert.NoFileExists(t, b.working("workspace", ".ENV"))
	assert.NoFileExists(t, b.working(".env"))
	assert.NoDirExists(t, b.working("workspace", "sub", ".Git"))
}

// A link that is changed after the call was checked does not lead it elsewhere.
func TestTurnedLink(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	link, inside, outside := b.working("workspace", "link"), b.working("workspace", "dir"), filepath.Join(b.root.Name(), "sub")
	for _, dir := range []string{inside, outside} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("old\n"), 0o600))
	}
	for tool, args := range map[string]string{
		"append": `{"path":"LINK/x","content":"evil"}`, "FILE_EDIT": `{"file_path":"LINK/x","old_string":"old","new_string":"evil"}`,
		"patch_apply": `{"path":"LINK/x","patch":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+evil\n"}`,
		"move_file":   `{"source":"` + inside + `/x","destination":"LINK/y"}`, "DIRECTORY_CREATE": `{"directory_path":"LINK/z"}`,
		"BASH_EXECUTE": `{"command":"echo evil > x","working_directory":"LINK"}`,
	} {
		require.NoError(t, os.RemoveAll(link))
		require.NoError(t, os.Symlink("dir", link))
		b.owner.onStart = func(context.Context, int) error {
			return errors.Join(os.Remove(link), os.Symlink("../../../sub", link))
		}
		out := b.Execute(t.Context(), call(tool, strings.ReplaceAll(args, "LINK", link)))
		require.Nil(t, out.ApprovalRequest, tool)
		assert.Equal(t, fault.Conflict, codeOf(out), "%s: %v", tool, out.Error)
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		assert.Len(t, entries, 1, tool)
		data, err := os.ReadFile(filepath.Join(outside, "x"))
		require.NoError(t, err)
		assert.Equal(t, "old\n", string(data), tool)
	}
}

// A grant is for its call only. Other arguments or another tool need another approval; another form of the same arguments does
// not.
func TestHostileGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	file := filepath.Join(b.root.Name(), "a")
	asked := b.Execute(t.Context(), call("FILE_WRITE", `{"file_path":"`+file+`","content":"good"}`)).ApprovalRequest
	require.NotNil(t, asked)
	for args, same := range map[string]bool{
		`{"file_path":"` + file + `","content":"evil"}`:                        false,
		`{"file_path":"` + file + `","content":"good","content":"evil"}`:       false,
		`{"file_path":"` + file + `","content":"evil","content":"good"}`:       true,
		`{"content":"good","file_path":"` + file + `"}`:                        true,
		`{"content":"\u0067ood","file_path":"` + file + `"}`:                   true,
		`{"content":"good ","file_path":"` + file + `"}`:                       false,
		`{"content":"good","file_path":"` + file + `/"}`:                       false,
		`{"content":"good","file_path":"` + file + `","Content":"evil"}`:       false,
		`{"content":"good","file_path":"` + file + `","FILE_PATH":"/x"}`:       false,
		`{"content":["good"],"file_path":"` + file + `"}`:                      false,
		`{"content":"good","file_path":["` + file + `"]}`:                      false,
		`{"content":"good","file_path":"` + file + `"} {"content":"evil"}`:     false,
		`[{"content":"good","file_path":"` + file + `"}]`:                      false,
		`{"content":"good","file_path":"` + file + "\u0000\"}":                 false,
		`{"content":"good","file_path":"` + filepath.Dir(file) + `/./a"}`:      false,
		`{"content":"good","file_path":"` + file + `","approval":"x"}`:         false,
		`{"content":"good","file_path":"` + file + `","content\u0000":"evil"}`: false,
	} {
		require.NoError(t, os.RemoveAll(file))
		c := call("FILE_WRITE", args)
		c.Grant = &work.Grant{ID: "APR", ArgsSHA256: asked.ArgsSHA256}
		out := b.Execute(t.Context(), c)
		assert.Equal(t, same, out.Error == nil && out.ApprovalRequest == nil, args)
		data, err := os.ReadFile(file)
		assert.Equal(t, same, err == nil, args)
		assert.NotContains(t, string(data), "evil", args)
	}
	for _, tool := range []string{"write_file", "append"} {
		c := call(tool, `{"path":"`+file+`","content":"good"}`)
		c.Grant = &work.Grant{ID: "APR", ArgsSHA256: asked.ArgsSHA256}
		assert.NotNil(t, b.Execute(t.Context(), c).ApprovalRequest, tool)
	}
}
