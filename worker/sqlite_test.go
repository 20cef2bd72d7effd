package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// The file of an SQLite database is checked like a path of FILE_WRITE: protected paths, names of secrets, workspaces of other
// tasks and paths outside the root stay closed, also if the plan or a person has opened the connection.
func TestFilesOfSQLite(t *testing.T) {
	t.Parallel()
	need.Long(t)
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	outside := t.TempDir()
	for _, dir := range []string{".git", ".orch", "proj/.GIT", "Working/TASK_01JD0000000000000000000001/workspace", "db"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.root.Name(), dir), 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(b.root.Name(), ".git"), filepath.Join(b.root.Name(), "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(b.root.Name(), "out")))
	for path, codes := range map[string][2]fault.Code{ // of a change and of a read
		"ROOT/.git/x.db":        {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/.orch/x.db":       {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/proj/.GIT/x.db":   {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/link/x.db":        {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/db/../.git/x.db":  {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/.env":             {fault.ProtectedPath, fault.NotFound},
		"ROOT/db/store.P12":     {fault.ProtectedPath, fault.NotFound},
		"ROOT/db/.Env.local":    {fault.ProtectedPath, fault.NotFound},
		"ROOT/go.mod":           {fault.ProtectedPath, fault.NotFound},
		"ROOT/db/Makefile":      {fault.ProtectedPath, fault.NotFound},
		"OTHER/workspace/x.db":  {fault.NotFound, fault.NotFound},
		"ROOT/out/x.db":         {fault.OutsideRoot, fault.OutsideRoot},
		"ROOT/../x.db":          {fault.OutsideRoot, fault.OutsideRoot},
		outside + "/x.db":       {fault.OutsideRoot, fault.OutsideRoot},
		"ROOT/db/x.db":          {"", ""},
		"ROOT/db/x.db?mode=rwc": {fault.InvalidFormat, fault.InvalidFormat},
		"ROOT/db/x.db%00.db":    {fault.InvalidFormat, fault.InvalidFormat},
		"ROOT/%2egit/x.db":      {fault.ProtectedPath, fault.ProtectedPath},
		"ROOT/Working/x.db":     {fault.NotFound, fault.NotFound},

		"file:ROOT/db/x.db":      {fault.InvalidFormat, fault.InvalidFormat},
		"ROOT/db/x.db#.git/x.db": {fault.InvalidFormat, fault.InvalidFormat},
	} {
		path = strings.NewReplacer("ROOT", b.root.Name(), "OTHER", filepath.Join(b.root.Name(), "Working/TASK_01JD0000000000000000000001")).Replace(path)
		name := "sqlite:" + filepath.Clean(path)
		for i, query := range []string{"CREATE TABLE t (a)", "SELECT 1"} {
			c := call("DATABASE_QUERY", `{"connection_string":"sqlite:`+path+`","query":"`+query+`"}`)
			c.Effect, c.Access = "write", &work.Access{Connections: []string{name}, Scopes: []string{"write " + name}}
			out := b.Execute(t.Context(), c)
			if out.ApprovalRequest != nil { // every CREATE asks; with its grant it runs
				c.Grant = &work.Grant{ID: "APR", ArgsSHA256: out.ApprovalRequest.ArgsSHA256}
				out = b.Execute(t.Context(), c)
			}
			require.Nil(t, out.ApprovalRequest, path)
			assert.Equal(t, codes[i], codeOf(out), "%s: %s: %v", path, query, out.Error)
		}
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// codeOf returns the code of the error of an outcome, "" for none.
func codeOf(o work.Outcome) fault.Code {
	if o.Error == nil {
		return ""
	}
	return o.Error.Code
}

// A link that is changed between the check and the call leads nowhere.
func TestFileOfSQLiteIsTheJudgedOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, builtin.All(builtin.Config{})...)
	for _, dir := range []string{"good", "secret"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.root.Name(), dir), 0o755))
	}
	link := filepath.Join(b.root.Name(), "link")
	require.NoError(t, os.Symlink("good", link))
	b.owner.onStart = func(context.Context, int) error {
		return errors.Join(os.Remove(link), os.Symlink("secret", link))
	}
	c := call("DATABASE_QUERY", `{"connection_string":"sqlite:`+link+`/x.db","query":"CREATE TABLE t (a)"}`)
	c.Effect = "write"
	out := b.Execute(t.Context(), c)
	require.NotNil(t, out.ApprovalRequest)
	c.Grant = &work.Grant{ID: "APR", ArgsSHA256: out.ApprovalRequest.ArgsSHA256}
	assert.Equal(t, fault.Conflict, codeOf(b.Execute(t.Context(), c)))
	assert.NoFileExists(t, filepath.Join(b.root.Name(), "secret", "x.db"))
}
