package node_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

const (
	// canary is the content of every file that an agent must not reach.
	canary = "CANARY-4d1c"
	// thief is the identity that tries to reach it, victim is its owner.
	thief, victim = "agent:thief", "agent:victim"
)

// closedWorld is a node with a repository as its root, rules that close part of it to agents, and the workspace of another
// agent.
type closedWorld struct {
	*node.Node
	t    *testing.T
	root string
	// closed are files that the thief must not reach, foreign is the one in the workspace of the victim.
	closed  []string
	foreign string
}

func newClosedWorld(t *testing.T) *closedWorld {
	t.Helper()
	cfg := config(t)
	cfg.Operator = "user:test"
	cfg.Confinement.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(cfg.Confinement.Policy, []byte(`
version: 1
rules:
  - {name: closed, action: deny, agents: ["agent:thief"], paths: ["secret/**", "*.cert", "{data,db}/*.db"]}
`), 0o600))
	w := &closedWorld{t: t, root: cfg.Root}
	for _, name := range []string{"secret/key.txt", "deep/er/a.cert", "open/file.txt"} {
		content := canary + "\n"
		if name == "open/file.txt" {
			content = "harmless\n"
		} else {
			w.closed = append(w.closed, filepath.Join(cfg.Root, name))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(cfg.Root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, name), []byte(content), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(cfg.Root, "data"), 0o755))
	require.NoError(t, os.Symlink("../secret", filepath.Join(cfg.Root, "open", "link")))
	w.git("init", "-q", "-b", "work")
	w.git("config", "core.looseCompression", "0")
	w.git("add", ".")
	w.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "fix: all")
	require.NoError(t, os.WriteFile(w.closed[0], []byte(canary+"\n"+canary+" in the index\n"), 0o644))
	w.git("add", ".")
	require.NoError(t, os.WriteFile(w.closed[0], []byte(canary+" in the work tree\n"), 0o644))
	w.Node = start(t, cfg)
	id, _ := w.run("user:test", "DATABASE_QUERY", map[string]any{"connection_string": "sqlite:" + cfg.Root + "/data/x.db", "query": "CREATE TABLE t AS SELECT '" + canary + "' AS c"})
	require.FileExists(t, filepath.Join(cfg.Root, "data", "x.db"), id)
	id, _ = w.run(victim, "BASH_EXECUTE", map[string]any{"command": "echo " + canary[:6] + canary[6:] + " >own.txt"})
	w.foreign = filepath.Join(cfg.Root, "Working", string(id), "workspace", "own.txt")
	require.FileExists(t, w.foreign)
	return w
}

func (w *closedWorld) git(args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = w.root
	said, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(said))
}

// run makes one call of a tool for an identity, approves whatever it needs, and returns everything that the task shows.
func (w *closedWorld) run(who, tool string, args map[string]any) (events.TaskID, string) {
	w.t.Helper()
	plan, err := json.Marshal(map[string]any{
		"orch": "v1", "steps": []any{map[string]any{"id": "a", "tool": tool, "with": args}}, "outputs": map[string]any{"said": "${{ steps.a.output }}"},
	})
	require.NoError(w.t, err)
	text, err := json.Marshal(string(plan))
	require.NoError(w.t, err)
	reply, err := w.API().Submit(w.t.Context(), api.SubmitRequest{Plan: text, Actor: who})
	require.NoError(w.t, err, "%s %v", tool, args)
	var r api.ResultReply
	require.Eventually(w.t, func() bool {
		r, err = w.API().Result(w.t.Context(), api.ResultRequest{ID: reply.ID, Wait: 50 * time.Millisecond})
		if err == nil && !r.Ended {
			w.grant(reply.ID)
		}
		return err == nil && r.Ended
	}, time.Minute, time.Millisecond, "%s %v", tool, args)
	shown, err := json.Marshal(r)
	require.NoError(w.t, err)
	return reply.ID, string(shown)
}

func (w *closedWorld) grant(task events.TaskID) {
	open, err := w.API().Approvals(w.t.Context(), api.ApprovalsRequest{})
	require.NoError(w.t, err)
	for _, a := range open.Approvals {
		if a.Task == task {
			_, err := w.API().Decide(w.t.Context(), api.DecideRequest{ID: a.ID, As: "granted", Actor: "user:bob"})
			require.NoError(w.t, err)
		}
	}
}

// pathless returns the tools whose arguments cannot lead to a file of the root, with the reason.
func pathless() map[string]string {
	return map[string]string{
		"AGENT_CLAIM": "log", "AGENT_HEARTBEAT": "log", "AGENT_REPORT": "log", "AGENT_TASK": "log", "AGENT_EXECUTE": "runs a command of the operator",
		"MODEL_CALL":    "network, and scripts in a folder of their own",
		"firebase.read": "its own store", "firebase.subscribe": "its own store", "firebase.unsubscribe": "its own store", "firebase.write": "its own store",
		"github.createIssue": "network", "github.createPR": "network", "github.getWorkflowRuns": "network", "github.readFile": "network", "github.searchCode": "network",
		"MESSAGE_ACK": "log", "MESSAGE_GROUP": "log", "MESSAGE_INBOX": "log", "MESSAGE_SEND": "log", "NOTIFICATION_SEND": "network",
		"onboarding.getChecklist": "log", "onboarding.getWelcome": "log", "onboarding.registerAgent": "log",
		"system.getAgents": "log", "system.getSystemStatus": "log", "system.getTaskQueue": "log", "system.listSkills": "log",
		"APPROVAL_CHECK": "log", "APPROVAL_REQUEST": "log", "QUESTION_ASK": "log", "CHECKPOINT_CREATE": "log", "CHECKPOINT_RESTORE": "log", "LOG_WRITE": "log",
		"HTTP_REQUEST": "network", "WEB_FETCH": "network", "WEB_SEARCH": "network",
		"PROJECT_UNDO":    "puts back what the calls of the own session have changed, and what the identity does not see stays",
		"TASK_SPAWN":      "the name of a template, which is no path",
		"PACKAGE_INSTALL": "its programs start as those of BUILD_EXECUTE do, and need a network",
	}
}

// attacks returns for each other tool the arguments with which the thief tries to reach a file.
func (w *closedWorld) attacks() map[string]func(file string) []map[string]any {
	dir := filepath.Dir
	one := func(field string, more map[string]any) func(string) []map[string]any {
		return func(file string) []map[string]any {
			args := map[string]any{field: file}
			maps.Copy(args, more)
			return []map[string]any{args}
		}
	}
	program := func(field string) func(string) []map[string]any {
		return func(file string) []map[string]any {
			var all []map[string]any
			for _, command := range w.commands(file) {
				all = append(all, map[string]any{field: command})
			}
			return all
		}
	}
	search := func(file string) []map[string]any {
		return []map[string]any{
			{"pattern": "CANARY.*", "path": w.root},
			{"pattern": "CANARY.*", "path": dir(file)},
			{"pattern": "CANARY.*", "path": dir(dir(file))},
			{"pattern": "CANARY.*", "path": file},
			{"pattern": "CANARY.*", "path": w.root, "glob": "**/" + filepath.Base(file)},
			{"pattern": "CANARY.*", "path": filepath.Join(w.root, "Working")},
		}
	}
	repository := func(string) []map[string]any { return []map[string]any{{"repository_path": w.root}} }
	return map[string]func(string) []map[string]any{
		"FILE_READ": one("file_path", nil), "FILE_WRITE": one("file_path", map[string]any{"content": "x"}),
		"FILE_EDIT":   one("file_path", map[string]any{"old_string": canary, "new_string": "x"}),
		"FILE_DELETE": one("file_path", nil), "DIRECTORY_DELETE": func(file string) []map[string]any {
			return []map[string]any{{"directory_path": dir(file), "recursive": true}, {"directory_path": dir(dir(file)), "recursive": true}}
		},
		"DIRECTORY_CREATE": func(file string) []map[string]any { return []map[string]any{{"directory_path": file + "/new"}} },
		"DIRECTORY_LIST": func(file string) []map[string]any {
			return []map[string]any{{"directory_path": dir(file)}, {"directory_path": w.root, "recursive": true}}
		},
		"GLOB_SEARCH": func(file string) []map[string]any {
			return []map[string]any{{"pattern": "**/*", "path": w.root}, {"pattern": "*", "path": dir(file)}, {"pattern": "*/" + filepath.Base(file), "path": dir(dir(file))}}
		},
		"GREP_SEARCH": search, "append": one("path", map[string]any{"content": "x"}), "write_file": one("path", map[string]any{"content": "x"}),
		"create_directory": func(file string) []map[string]any { return []map[string]any{{"path": file + "/new"}} },
		"patch_apply":      one("path", map[string]any{"patch": "--- a\n+++ b\n@@ -1 +1 @@\n-" + "x\n+y\n"}),
		"move_file": func(file string) []map[string]any {
			return []map[string]any{
				{"source": file, "destination": "${{ task.workspace }}/workspace/stolen"},
				{"source": dir(file), "destination": "${{ task.workspace }}/workspace/stolen"},
				{"source": dir(dir(file)), "destination": "${{ task.workspace }}/workspace/stolen"},
			}
		},
		"GIT_ADD": func(file string) []map[string]any {
			return []map[string]any{{"repository_path": w.root, "file_paths": []string{file}}}
		},
		"GIT_COMMIT": func(string) []map[string]any {
			return []map[string]any{{"repository_path": dir(w.root), "message": "fix: x"}}
		},
		"GIT_DIFF": func(string) []map[string]any {
			return []map[string]any{{"repository_path": w.root}, {"repository_path": w.root, "staged": true}, {"repository_path": w.root + "/open"}}
		},
		"GIT_STATUS": repository, "GIT_PUSH": repository,
		"BASH_EXECUTE": program("command"), "BUILD_EXECUTE": program("build_command"),
		"shell_exec": func(file string) []map[string]any {
			return []map[string]any{
				{"command": "cat", "args": []string{file}},
				{"command": "grep", "args": []string{"-r", "CANARY", "."}},
				{"command": "grep", "args": []string{"-R", "CANARY", dir(file)}},
				{"command": "cat", "args": []string{"/proc/self/root" + file}},
				{"command": "find", "args": []string{dir(file), "-type", "f"}},
				{"command": "diff", "args": []string{file, "open/file.txt"}},
				{"command": "grep", "args": []string{"-ra", "CANARY", ".git"}},
			}
		},
		"TEST_EXECUTE": one("test_path", nil),
		"DATABASE_QUERY": func(string) []map[string]any {
			return []map[string]any{{"connection_string": "sqlite:" + w.root + "/data/x.db", "query": "SELECT * FROM t"}}
		},
	}
}

// commands returns shell commands that try to read a file.
func (w *closedWorld) commands(file string) []string {
	rel, err := filepath.Rel(w.root, file)
	require.NoError(w.t, err)
	return []string{
		"cat " + file, "cat /proc/self/root" + file, "cd " + w.root + " && cat " + rel, "grep -r CANARY " + w.root, "cat " + filepath.Dir(file) + "/*",
		"ln -s " + file + " l; cat l", "ln " + file + " h; cat h", "cp -r " + filepath.Dir(file) + " c; cat c/*", "mv " + file + " m; cat m",
		"mv " + filepath.Dir(file) + " d; cat d/*", "cat " + w.root + "/open/link/key.txt", "cat " + w.root + "/open/../" + rel, "cat " + strings.ToUpper(file),
		"GIT_CEILING_DIRECTORIES=/ git -c safe.directory='*' -C " + w.root + " show :" + rel, "git -c safe.directory='*' -C " + w.root + " log -p",
		"git clone -q " + w.root + " cl; cat cl/" + rel, "cp -r " + w.root + "/.git g; git --git-dir=g show HEAD:" + rel,
		"mkdir n; echo " + w.root + "/.git/objects >n/alternates; cat " + w.root + "/.git/objects/??/* | head -c 100",
		"strings " + w.root + "/data/x.db; cat " + w.root + "/data/x.db; rm -rf " + filepath.Dir(file),
	}
}

// Every tool of the catalogue that can reach a path is tried on paths that the policy file closes to the agent, and on the
// workspace of another one. A new tool needs an entry here.
func TestNoToolReachesWhatIsClosed(t *testing.T) {
	t.Parallel()
	w := newClosedWorld(t)
	attacks, harmless := w.attacks(), pathless()
	tried := 0
	for _, tool := range append(builtin.All(builtin.Config{}), builtin.Internal(builtin.Config{})...) {
		spec := tool.Spec()
		attack, ok := attacks[spec.Name]
		if !ok {
			assert.NotEmpty(t, harmless[spec.Name], "%s needs an entry in this test: how an agent goes for a file with it", spec.Name)
			assert.Empty(t, spec.Paths, "%s has fields with paths", spec.Name)
			continue
		}
		for _, file := range append(slices.Clone(w.closed), w.foreign) {
			for _, args := range attack(file) {
				tried++
				id, shown := w.run(thief, spec.Name, args)
				asked, err := json.Marshal(args)
				require.NoError(t, err)
				w.nothingSeen(spec, id, strings.ReplaceAll(shown, string(asked), ""), string(asked))
			}
		}
	}
	for _, file := range append(slices.Clone(w.closed), w.foreign) {
		data, err := os.ReadFile(file)
		require.NoError(t, err, "it is where it was")
		assert.Contains(t, string(data), canary)
	}
	t.Logf("%d calls", tried)
}

// nothingSeen checks what a call has shown, and what it left in the workspace of its task.
func (w *closedWorld) nothingSeen(spec tools.Spec, id events.TaskID, shown, asked string) {
	w.t.Helper()
	assert.NotContains(w.t, strings.ReplaceAll(shown, asked, ""), canary, "%s %s", spec.Name, asked)
	root := filepath.Join(w.root, "Working", string(id))
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".md") {
			return nil //nolint:nilerr // what is not there shows nothing
		}
		data, err := os.ReadFile(path)
		assert.NotContains(w.t, string(data), canary, "%s %s left it in %s", spec.Name, asked, path)
		return err
	})
	require.NoError(w.t, err)
	if spec.Name == "DIRECTORY_LIST" || spec.Name == "GLOB_SEARCH" || spec.Name == "GIT_STATUS" {
		for _, name := range []string{"key.txt", "a.cert", "own.txt"} {
			assert.NotContains(w.t, strings.ReplaceAll(shown, "pattern", ""), "/"+name+`\"`, "%s %s lists it", spec.Name, asked)
		}
	}
}

// Files that are closed to one identity are open to others, and other files to all: nothing more than necessary is closed.
func TestWhatIsClosedToOneIsOpenToOthers(t *testing.T) {
	t.Parallel()
	w := newClosedWorld(t)
	for _, tc := range []struct {
		who, tool string
		args      map[string]any
		want      string
	}{
		{victim, "FILE_READ", map[string]any{"file_path": w.closed[0]}, canary},
		{victim, "BASH_EXECUTE", map[string]any{"command": "cat " + w.closed[0] + " " + w.closed[1]}, canary},
		{victim, "BASH_EXECUTE", map[string]any{"command": "git -c safe.directory='*' -C " + w.root + " show HEAD:secret/key.txt"}, canary},
		{victim, "FILE_READ", map[string]any{"file_path": w.foreign}, canary},
		{victim, "BASH_EXECUTE", map[string]any{"command": "cat " + w.foreign}, canary},
		{"user:test", "BASH_EXECUTE", map[string]any{"command": "cat " + w.foreign}, canary},
		{"user:test", "GREP_SEARCH", map[string]any{"pattern": "CANARY", "path": w.root + "/Working"}, canary},
		{thief, "BASH_EXECUTE", map[string]any{"command": "cat " + w.root + "/open/file.txt; echo x >mine; cat mine"}, "harmless"},
		{thief, "GREP_SEARCH", map[string]any{"pattern": "harmless", "path": w.root}, "harmless"},
		{thief, "shell_exec", map[string]any{"command": "cat", "args": []string{"open/file.txt"}}, "harmless"},
		{thief, "GIT_STATUS", map[string]any{"repository_path": w.root}, "work"},
		{thief, "GIT_DIFF", map[string]any{"repository_path": w.root}, `"files":[]`},
		{"user:other", "FILE_READ", map[string]any{"file_path": w.foreign}, "NOT_FOUND"},
		{thief, "FILE_READ", map[string]any{"file_path": w.closed[0]}, "POLICY_DENIED"},
	} {
		_, shown := w.run(tc.who, tc.tool, tc.args)
		assert.Contains(t, strings.ReplaceAll(shown, `\"`, `"`), tc.want, "%s: %s %v", tc.who, tc.tool, tc.args)
	}
}

// Committed versions of closed files, and those in git LFS, are in the repository. An agent that must not read the files cannot
// read them there with any tool, and the git tools still work.
func TestNoToolReadsClosedContentsInTheRepository(t *testing.T) {
	t.Parallel()
	w := newClosedWorld(t)
	store := filepath.Join(w.root, ".git")
	kept := filepath.Join(store, "lfs", "objects", "ab", "cd", "abcd")
	require.NoError(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	require.NoError(t, os.WriteFile(kept, []byte(canary+"\n"), 0o644))
	files := append(w.looseObjects(), kept)
	require.Greater(t, len(files), 2)
	_, shown := w.run(victim, "FILE_READ", map[string]any{"file_path": kept})
	assert.Contains(t, shown, canary, "others read it")
	attacks := w.attacks()
	for _, tool := range builtin.All(builtin.Config{}) {
		spec := tool.Spec()
		if !slices.Contains([]string{"FILE_READ", "GREP_SEARCH", "GLOB_SEARCH", "DIRECTORY_LIST", "move_file", "shell_exec", "FILE_DELETE", "DIRECTORY_DELETE", "FILE_EDIT", "patch_apply", "append"}, spec.Name) {
			continue
		}
		for _, file := range files {
			for _, args := range attacks[spec.Name](file) {
				id, shown := w.run(thief, spec.Name, args)
				asked, err := json.Marshal(args)
				require.NoError(t, err)
				w.nothingSeen(spec, id, strings.ReplaceAll(shown, string(asked), ""), string(asked))
			}
		}
	}
	for _, file := range files {
		assert.FileExists(t, file)
	}
	for tool, want := range map[string]string{"GIT_STATUS": "work", "GIT_DIFF": `"files":[]`} {
		_, shown := w.run(thief, tool, map[string]any{"repository_path": w.root})
		assert.Contains(t, strings.ReplaceAll(shown, `\"`, `"`), want, tool)
	}
}

// looseObjects returns the objects of the repository that contain closed content without compression.
func (w *closedWorld) looseObjects() []string {
	all, err := filepath.Glob(filepath.Join(w.root, ".git", "objects", "??", "*"))
	require.NoError(w.t, err)
	return slices.DeleteFunc(all, func(file string) bool {
		data, err := os.ReadFile(file)
		require.NoError(w.t, err)
		return !strings.Contains(string(data), canary)
	})
}

// Files that programs of one agent put into their caches do not reach programs of another agent.
func TestCachesBelongToOneIdentity(t *testing.T) {
	t.Parallel()
	w := newClosedWorld(t)
	plant := `for d in "$GOCACHE" "$GOMODCACHE"; do mkdir -p "$d" && echo ` + canary + ` >"$d/planted" && echo planted; done`
	_, shown := w.run(victim, "BASH_EXECUTE", map[string]any{"command": plant})
	assert.Contains(t, shown, `planted\nplanted`)
	_, shown = w.run(victim, "BASH_EXECUTE", map[string]any{"command": `cat "$GOCACHE/planted" "$GOMODCACHE/planted"`})
	assert.Contains(t, shown, canary, "the next task of the same identity finds them")
	for _, who := range []string{thief, "user:test"} {
		_, shown = w.run(who, "BASH_EXECUTE", map[string]any{"command": `cat "$GOCACHE/planted" "$GOMODCACHE/planted"`})
		assert.NotContains(t, shown, canary, who)
	}
	_, shown = w.run(thief, "BASH_EXECUTE", map[string]any{"command": "cat " + w.root + "/Working/.cache/*/*/planted; for d in " + w.root + "/Working/.cache/*/; do echo x >$d/new; done"})
	assert.NotContains(t, shown, canary)
	written, err := filepath.Glob(filepath.Join(w.root, "Working", ".cache", "*", "new"))
	require.NoError(t, err)
	assert.Len(t, written, 1, "its own")
}
