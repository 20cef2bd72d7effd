package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// writes returns a plan with one command.
func writes(command string) string {
	return "orch: v1\nname: writes\nsteps:\n  - id: a\n    tool: BASH_EXECUTE\n    with:\n      command: |\n        " + strings.ReplaceAll(command, "\n", "\n        ") + "\n"
}

// listed returns all entries of a folder in lines: their kinds, paths, sizes, targets and why they are closed.
func listed(t *testing.T, owner api.API, r api.FilesRequest) []string {
	t.Helper()
	lines := []string{}
	for {
		reply, err := owner.Files(t.Context(), r)
		require.NoError(t, err)
		for _, f := range reply.Files {
			assert.WithinRange(t, f.Modified, time.Now().Add(-time.Hour), time.Now().Add(time.Minute))
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %d %s%s", f.Kind, f.Path, f.Size, f.Target, f.Closed)))
		}
		if r.Cursor = reply.Next; r.Cursor == "" {
			return lines
		}
	}
}

// wholeFile reads a file in parts.
func wholeFile(t *testing.T, owner api.API, r api.FileRequest) (text string, redacted int) {
	t.Helper()
	for {
		part, err := owner.File(t.Context(), r)
		require.NoError(t, err)
		text, redacted = text+part.Text+string(part.Data), redacted+part.Redacted
		if r.Offset = part.Next; r.Offset == 0 {
			return text, redacted
		}
	}
}

// refusedFile asserts how the reading of a file is refused.
func refusedFile(t *testing.T, owner api.API, id events.TaskID, path string, code fault.Code, reason string) {
	t.Helper()
	_, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: path})
	e := fault.From(err)
	assert.Equal(t, []any{code, reason, "path"}, []any{e.Code, e.Reason, e.Field}, "%q: %v", path, err)
}

// What the calls of a task have written is listed and read, also when the task has failed and when its workspace is archived.
func TestFiles(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	owner := n.API()
	id := submit(t, owner, writes("mkdir -p deep/er\necho 'package main' > deep/er/main.go\necho '# Report' > ../outputs/report.md\nprintf 'a\\0b' > blob\nhead -c 10000 /dev/zero | tr '\\0' '<' > page.html")+
		"  - {id: b, needs: [a], tool: FILE_READ, with: {file_path: /none}}\n")
	assert.Equal(t, "FAILED", string(result(t, owner, id).State))
	look := func() {
		t.Helper()
		top := []string{"file CHECKPOINTS.md", "file PROGRESS.md", "folder outputs", "folder workspace"}
		for i, line := range listed(t, owner, api.FilesRequest{ID: id, Limit: 1}) {
			assert.Contains(t, line, top[i])
		}
		assert.Equal(t, []string{"file workspace/blob 3", "folder workspace/deep 0", "file workspace/page.html 10000"}, listed(t, owner, api.FilesRequest{ID: id, Path: "workspace"}))
		text, _ := wholeFile(t, owner, api.FileRequest{ID: id, Path: "outputs/report.md", Limit: 4})
		assert.Equal(t, "# Report\n", text)
		text, _ = wholeFile(t, owner, api.FileRequest{ID: id, Path: "workspace/deep/er/main.go"})
		assert.Equal(t, "package main\n", text)
		blob, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/blob"})
		require.NoError(t, err)
		assert.Equal(t, []any{true, "a\x00b", "", uint64(3)}, []any{blob.Binary, string(blob.Data), blob.Text, blob.Size})
		page, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/page.html"})
		require.NoError(t, err)
		assert.Equal(t, []any{false, strings.Repeat("<", 10_000), ""}, []any{page.Binary, string(page.Data), page.Text}, "as text it would be six times as long in JSON")
	}
	require.Eventually(t, func() bool { return len(listed(t, owner, api.FilesRequest{ID: id})) == 4 }, time.Minute, time.Millisecond, "temp/ is removed")
	look()
	_, err := owner.Archive(t.Context(), api.ArchiveRequest{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		reply, err := owner.Files(t.Context(), api.FilesRequest{ID: id})
		return err == nil && strings.Contains(reply.Dir, "Archive/Failed")
	}, time.Minute, time.Millisecond)
	look()
}

func TestBadRequestsForFiles(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	owner := n.API()
	id := submit(t, owner, writes("echo hello > a; mkdir d"))
	result(t, owner, id)
	for _, path := range []string{"/etc/passwd", "../x", "workspace/../../..", "workspace//a", "workspace/a/", ".", "workspace/a\x00", "workspace/\xff"} {
		refusedFile(t, owner, id, path, fault.InvalidFormat, "INVALID_PATH")
		_, err := owner.Files(t.Context(), api.FilesRequest{ID: id, Path: path})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), path)
	}
	refusedFile(t, owner, id, "", fault.RequiredField, "")
	refusedFile(t, owner, id, "workspace/none", fault.NotFound, "")
	refusedFile(t, owner, id, "workspace/none/x", fault.NotFound, "")
	refusedFile(t, owner, id, "workspace/a/x", fault.InvalidFormat, "INVALID_PATH")
	refusedFile(t, owner, id, "workspace/d", fault.InvalidFormat, api.ReasonFolder)
	_, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/a", Offset: 7})
	assert.Equal(t, "offset", fault.From(err).Field)
	_, err = owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/a", Offset: 1 << 63})
	assert.Equal(t, "offset", fault.From(err).Field)
	for _, limit := range []int{-1, api.MaxFilePart + 1} {
		_, err = owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/a", Limit: limit})
		assert.Equal(t, "limit", fault.From(err).Field)
		_, err = owner.Files(t.Context(), api.FilesRequest{ID: id, Limit: limit})
		assert.Equal(t, "limit", fault.From(err).Field)
	}
	_, err = owner.Files(t.Context(), api.FilesRequest{ID: id, Cursor: "!"})
	assert.Equal(t, "cursor", fault.From(err).Field)
	_, err = owner.Files(t.Context(), api.FilesRequest{ID: id, Path: "workspace/a"})
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	_, err = owner.Files(t.Context(), api.FilesRequest{ID: "TASK_01KE0000000000000000000009"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// token is what looks like a secret.
const token = "ghp_" + "4paQ9o0F4w08wzaiZk7p3fjE0ZH6lIN1s14i"

// hostileTree fills a workspace with what must not be read, and returns its folder.
func hostileTree(t *testing.T, root string, id events.TaskID) string {
	t.Helper()
	dir := filepath.Join(root, "Working", string(id), "workspace")
	require.NoError(t, os.WriteFile(filepath.Join(root, "outside"), []byte("outside"), 0o600))
	for name, target := range map[string]string{"absolute": "/etc/passwd", "exit": "../../../outside", "folder": "..", "inner": "plain", "loop": "loop"} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for name, text := range map[string]string{
		".env": "A=1", ".env.example": "A=1", "id_rsa": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAx5yZ4vG\n-----END RSA PRIVATE KEY-----\n",
		"plain": "plain", "private.txt": "for nobody", "<img src=x onerror=alert(1)>\u202e\x1b[31m\n": "x", "bad\xff": "x", token: "x",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	return dir
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Confinement.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(cfg.Confinement.Policy, []byte("version: 1\nrules:\n  - {name: private, action: deny, paths: [private.txt]}\n"), 0o600))
	n := start(t, cfg)
	owner := n.API()
	id := submit(t, owner, writes("true"))
	result(t, owner, id)
	hostileTree(t, cfg.Root, id)
	assert.Equal(t, []string{
		"file workspace/.env 3 SECRET_FILE", "file workspace/.env.example 3", "file workspace/<img src=x onerror=alert(1)>\u202e\x1b[31m\n 1",
		"link workspace/absolute 0 /etc/passwd", "file workspace/bad\uFFFD 1 NAME_NOT_UTF8", "link workspace/exit 0 ../../../outside", "link workspace/folder 0 ..",
		"file workspace/[REDACTED:github_token] 1 SECRET_FILE", "file workspace/id_rsa 86", "link workspace/inner 0 plain", "link workspace/loop 0 loop",
		"other workspace/pipe 0", "file workspace/plain 5", "file workspace/private.txt 10 POLICY_DENIED", "file workspace/sparse 1099511627776",
	}, listed(t, owner, api.FilesRequest{ID: id, Path: "workspace", Limit: 2}))
	for _, name := range []string{"absolute", "exit", "inner", "loop", "pipe", "folder", "folder/outputs", "exit/x"} {
		refusedFile(t, owner, id, "workspace/"+name, fault.InvalidFormat, "INVALID_PATH")
	}
	refusedFile(t, owner, id, "workspace/.env", fault.ProtectedPath, "SECRET_FILE")
	refusedFile(t, owner, id, "workspace/id_rsa", fault.ProtectedPath, "SECRET_FILE")
	refusedFile(t, owner, id, "workspace/private.txt", fault.Forbidden, "POLICY_DENIED")
	text, _ := wholeFile(t, owner, api.FileRequest{ID: id, Path: "workspace/.env.example"})
	assert.Equal(t, "A=1", text)
	part, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/sparse", Offset: 1 << 39, Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, []any{10, uint64(1<<39 + 10), true}, []any{len(part.Data), part.Next, part.Binary})
}

// Names that are as long and as hostile as they can be make shorter pages, and a path that is too long is an entry that cannot be opened.
func TestFilesWithLongNames(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	owner := n.API()
	id := submit(t, owner, writes("true"))
	result(t, owner, id)
	dir, err := os.OpenRoot(filepath.Join(cfg.Root, "Working", string(id), "workspace"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, dir.Close()) })
	name, at := strings.Repeat("\x01", 250), "workspace"
	for range 16 {
		require.NoError(t, dir.Mkdir(name, 0o700))
		below, err := dir.OpenRoot(name)
		require.NoError(t, err)
		require.NoError(t, dir.Close())
		dir, at = below, at+"/"+name
	}
	for i := range 1000 {
		require.NoError(t, dir.Mkdir(fmt.Sprintf("%s%04d", strings.Repeat("\x02", 250), i), 0o700))
	}
	assert.Len(t, listed(t, owner, api.FilesRequest{ID: id, Path: at, Limit: api.MaxFiles}), 1000)
	reply, err := owner.Files(t.Context(), api.FilesRequest{ID: id, Path: at, Limit: api.MaxFiles})
	require.NoError(t, err)
	text, err := json.Marshal(reply)
	require.NoError(t, err)
	assert.Less(t, len(text), 3<<20)
	_, err = owner.Files(t.Context(), api.FilesRequest{ID: id, Path: reply.Files[0].Path})
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
}

// Secrets in files are replaced: what looks like one, also where it lies across two parts, and those of the plan in all their forms.
func TestSecretsInFiles(t *testing.T) {
	cfg := config(t)
	t.Setenv("FILES_TEST_PASSWORD", "correct horse battery staple")
	cfg.Tools.SecretsAllow = []string{"env:FILES_TEST_*"}
	n := start(t, cfg)
	owner := n.API()
	id := submit(t, owner, "orch: v1\nname: writes\nsecrets: {PW: env:FILES_TEST_PASSWORD}\nsteps:\n  - id: a\n    tool: BASH_EXECUTE\n    with:\n      env: {PW: '${{ secrets.PW }}'}\n"+
		"      command: |\n        echo \"pw is $PW.\" > plain; printf %s \"$PW\" | base64 > encoded\n        head -c 1020 /dev/zero | tr '\\0' x > long; printf ' ghp''_4paQ9o0F4w08wzaiZk7p3fjE0ZH6lIN1s14i end' >> long\n")
	require.Equal(t, "DONE", string(result(t, owner, id).State))
	text, redacted := wholeFile(t, owner, api.FileRequest{ID: id, Path: "workspace/plain"})
	assert.Equal(t, []any{"pw is [REDACTED:secrets.PW].\n", 1}, []any{text, redacted})
	text, _ = wholeFile(t, owner, api.FileRequest{ID: id, Path: "workspace/encoded"})
	assert.Contains(t, text, "[REDACTED:secrets.PW]")
	assert.NotContains(t, text, "Y29ycmVjdC")
	for _, limit := range []int{7, 512, 1024, 1030, 4096} {
		text, redacted = wholeFile(t, owner, api.FileRequest{ID: id, Path: "workspace/long", Limit: limit})
		assert.Equal(t, []any{strings.Repeat("x", 1020) + " [REDACTED:github_token] end", 1}, []any{text, redacted}, "in parts of %d", limit)
	}
}

// A task without files says why.
func TestNoFiles(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	owner := n.API()
	refused := func(id events.TaskID, code fault.Code, reason string) {
		t.Helper()
		_, err := owner.Files(t.Context(), api.FilesRequest{ID: id})
		e := fault.From(err)
		assert.Equal(t, []any{code, reason, "id"}, []any{e.Code, e.Reason, e.Field}, "%v", err)
		refusedBoth := fault.From(func() error {
			_, err := owner.File(t.Context(), api.FileRequest{ID: id, Path: "workspace/a"})
			return err
		}())
		assert.Equal(t, e.Reason, refusedBoth.Reason)
	}
	talks := submit(t, owner, "orch: v1\nsteps: [{id: a, tool: LOG_WRITE, with: {level: INFO, message: hello}}]\n")
	result(t, owner, talks)
	refused(talks, fault.NotFound, api.ReasonNoWorkspace)
	waits := submit(t, owner, "orch: v1\nsteps: [{id: w, wait: {signal: go}}, {id: a, needs: [w], tool: BASH_EXECUTE, with: {command: ls}}]\n")
	refused(waits, fault.NotFound, api.ReasonNoWorkspace)
	writesOne := submit(t, owner, writes("echo hello > a"))
	result(t, owner, writesOne)
	folder := filepath.Join(cfg.Root, "Working", string(writesOne))
	going := filepath.Join(cfg.Root, "Working", "Archive", "Going", string(writesOne))
	require.NoError(t, os.MkdirAll(filepath.Dir(going), 0o700))
	require.NoError(t, os.Rename(folder, going))
	refused(writesOne, fault.Gone, api.ReasonWorkspaceRemoved)
	require.NoError(t, os.RemoveAll(going))
	refused(writesOne, fault.NotFound, api.ReasonWorkspaceElsewhere)
	require.NoError(t, os.Symlink("/etc", folder))
	_, err := owner.Files(t.Context(), api.FilesRequest{ID: writesOne})
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err))
	require.NoError(t, os.Remove(folder))
	require.NoError(t, n.Stop(t.Context()))
	cfg.Limits.Retention = node.Retention{Completed: day}
	cfg.Wall = func() time.Time { return time.Now().Add(2 * day) }
	owner = start(t, cfg).API()
	refused(writesOne, fault.Gone, api.ReasonWorkspaceRemoved)
	refused(talks, fault.NotFound, api.ReasonNoWorkspace)
}

// The workspace of a task of another folder of this machine is read there.
func TestFilesOfAnotherRoot(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	other := t.TempDir()
	plan := []byte(`{"orch":"v1","steps":[{"id":"a","tool":"BASH_EXECUTE","with":{"command":"true"}}]}`)
	sent, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: plan, Actor: "user:test", Root: other})
	require.NoError(t, err)
	_, err = n.API().Files(t.Context(), api.FilesRequest{ID: sent.ID})
	assert.Equal(t, api.ReasonNoWorkspace, fault.From(err).Reason)
	require.NoError(t, os.MkdirAll(filepath.Join(other, "Working", string(sent.ID), "outputs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "Working", string(sent.ID), "outputs", "a"), []byte("hello"), 0o600))
	text, _ := wholeFile(t, n.API(), api.FileRequest{ID: sent.ID, Path: "outputs/a"})
	assert.Equal(t, "hello", text)
	require.NoError(t, os.RemoveAll(other))
	_, err = n.API().Files(t.Context(), api.FilesRequest{ID: sent.ID})
	assert.Equal(t, api.ReasonNoWorkspace, fault.From(err).Reason)
}

// The calls of a session share its workspace, and each of them shows it.
func TestFilesOfASession(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	owner := n.API()
	id := events.NewTaskID(time.Now())
	session, err := owner.Submit(t.Context(), api.SubmitRequest{ID: id, Session: id, Plan: api.SessionPlan(time.Hour), Actor: "user:test"})
	require.NoError(t, err)
	call, err := owner.Submit(t.Context(), api.SubmitRequest{
		Plan: fmt.Appendf(nil, `{"orch":"v1","steps":[{"id":"a","tool":"FILE_WRITE","with":{"file_path":%q,"content":"hello"}}]}`,
			filepath.Join(cfg.Root, "Working", string(id), "outputs", "a")),
		Actor: "user:test", Session: session.ID, Shares: true,
	})
	require.NoError(t, err)
	require.Equal(t, "DONE", string(result(t, owner, call.ID).State))
	for _, id := range []events.TaskID{call.ID, session.ID} {
		reply, err := owner.Files(t.Context(), api.FilesRequest{ID: id, Path: "outputs"})
		require.NoError(t, err)
		assert.Equal(t, session.ID, reply.Task)
		require.Len(t, reply.Files, 1)
	}
}
