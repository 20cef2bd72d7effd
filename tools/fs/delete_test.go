package fs_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// S0-051.
func TestFileDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env.Approval = "APPROVAL_1"
	path := b.file("dir/f", "x")
	assert.Equal(t, map[string]any{"file_path": path, "approval_id": "APPROVAL_1"}, b.must("FILE_DELETE", args{"file_path": path}))
	assert.NoFileExists(t, path)
	kept := b.file("dir/kept", "x")
	require.NoError(t, os.Symlink("kept", b.path("dir/link")))
	out := b.must("FILE_DELETE", args{"file_path": b.path("dir/link")})
	assert.Equal(t, b.path("dir/link"), out["file_path"])
	assert.Equal(t, "x", b.content(kept), "only the link goes")
}

// Nobody is asked to approve a deletion that would fail even with an approval.
func TestDeleteIsWorthAsking(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	full := filepath.Dir(b.file("full/f", "x"))
	for name, cases := range map[string]map[string]fault.Code{
		"FILE_DELETE":      {b.path("full/f"): "", b.path("absent"): fault.NotFound, "/etc/passwd": fault.OutsideRoot},
		"DIRECTORY_DELETE": {full: fault.Conflict, b.path("absent"): fault.NotFound, b.env.Workspace: "", "/etc": fault.OutsideRoot},
	} {
		for path, want := range cases {
			tool := b.tool(name)
			in := `{"file_path":"` + path + `"}`
			if name == "DIRECTORY_DELETE" {
				in = `{"directory_path":"` + path + `","recursive":false}`
			}
			intender, ok := tool.(tools.Intender)
			require.True(t, ok)
			_, err := intender.Intent(t.Context(), b.env, json.RawMessage(in))
			assert.Equal(t, want, fault.CodeOf(err), "%s %s", name, path)
		}
	}
}

func TestFileDeleteRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Symlink(t.TempDir(), b.path("exit")))
	require.NoError(t, os.Mkdir(b.path("empty"), 0o755))
	for path, want := range map[string]struct {
		code   fault.Code
		reason string
	}{
		b.path("absent"):        {fault.NotFound, ""},
		b.path("absent/absent"): {fault.NotFound, ""},
		b.path("empty"):         {fault.InvalidFormat, "INVALID_PATH"},
		"empty":                 {fault.InvalidFormat, "INVALID_PATH"},
		b.root:                  {fault.InvalidFormat, "INVALID_PATH"},
		b.path("exit/x"):        {fault.OutsideRoot, "OutsideRoot"},
		b.path("../x"):          {fault.OutsideRoot, "OutsideRoot"},
	} {
		_, err := b.call("FILE_DELETE", args{"file_path": path})
		refused(t, err, want.code, want.reason)
		assert.Equal(t, "file_path", fault.From(err).Field, path)
	}
	assert.DirExists(t, b.path("empty"))
}

// plant creates a directory with all kinds of entries.
func (b *bench) plant(dir string) {
	b.t.Helper()
	b.file(dir+"/a.txt", "A")
	b.file(dir+"/deep/er/b.sh", "#!/bin/sh\n")
	b.file(dir+"/"+strings.Repeat("n", 200)+"/"+strings.Repeat("m", 200), "long")
	b.file(dir+"/ünï\ncode", strings.Repeat("large ", 100_000))
	b.file(dir+"/empty.txt", "")
	require.NoError(b.t, os.Mkdir(b.path(dir+"/void"), 0o700))
	require.NoError(b.t, os.Chmod(b.path(dir+"/deep/er/b.sh"), 0o755))
	require.NoError(b.t, os.Chtimes(b.path(dir+"/a.txt"), time.Unix(1, 2), time.Unix(3, 4)))
	require.NoError(b.t, os.Symlink("/etc/passwd", b.path(dir+"/exit")))
	require.NoError(b.t, os.Symlink("deep/er", b.path(dir+"/inside")))
}

// tree describes everything below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		about := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			about += " " + info.ModTime().String() + " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			about += " " + target
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = about
		return err
	}))
	return all
}

// restore unpacks a backup below dir.
func restore(t *testing.T, backup, dir string) {
	t.Helper()
	f, err := os.Open(backup)
	require.NoError(t, err)
	defer f.Close()
	packed, err := gzip.NewReader(f)
	require.NoError(t, err)
	for in := tar.NewReader(packed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path, mode := filepath.Join(dir, header.Name), header.FileInfo().Mode()
		switch header.Typeflag {
		case tar.TypeDir:
			require.NoError(t, os.Mkdir(path, mode.Perm()))
		case tar.TypeSymlink:
			require.NoError(t, os.Symlink(header.Linkname, path))
		default:
			data, err := io.ReadAll(in)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, data, mode.Perm()))
			require.NoError(t, os.Chtimes(path, header.ModTime, header.ModTime))
		}
	}
}

// S0-071: the backup restores everything.
func TestDirectoryDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env.Approval = "APPROVAL_1"
	b.plant("dir")
	before := tree(t, b.path("dir"))
	out := b.must("DIRECTORY_DELETE", args{"directory_path": b.path("dir"), "recursive": true})
	assert.Equal(t, b.path("dir"), out["directory_path"])
	assert.Equal(t, "APPROVAL_1", out["approval_id"])
	assert.NoDirExists(t, b.path("dir"))
	backup := out["backup_path"].(string)
	assert.Equal(t, filepath.Join(b.env.Workspace, "temp", "backups"), filepath.Dir(backup))
	assert.Regexp(t, `^\d{8}T\d{6}Z-[A-Z0-9]+\.tar\.gz$`, filepath.Base(backup))
	info, err := os.Stat(backup)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again := t.TempDir()
	restore(t, backup, again)
	assert.Equal(t, before, tree(t, filepath.Join(again, "dir")))
}

// S0-072: an empty directory needs neither recursive nor a backup.
func TestDirectoryDeleteEmpty(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, recursive := range []bool{true, false} {
		require.NoError(t, os.Mkdir(b.path("empty"), 0o755))
		out := b.must("DIRECTORY_DELETE", args{"directory_path": b.path("empty"), "recursive": recursive})
		assert.Empty(t, out["backup_path"])
		assert.NoDirExists(t, b.path("empty"))
	}
	assert.NoDirExists(t, filepath.Join(b.env.Workspace, "temp"))
}

// S0-070, S0-072.
func TestDirectoryDeleteRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, os.Symlink(t.TempDir(), b.path("exit")))
	require.NoError(t, os.Symlink("full", b.path("alias")))
	file := b.file("full/f", "x")
	for _, dir := range []string{"workspace", "outputs", "temp/backups"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.env.Workspace, dir), 0o755))
	}
	before := tree(t, b.root)
	for path, want := range map[string]struct {
		code   fault.Code
		reason string
	}{
		b.path("full"):                      {fault.Conflict, ""},
		b.path("absent"):                    {fault.NotFound, ""},
		file:                                {fault.InvalidFormat, "INVALID_PATH"},
		"full":                              {fault.InvalidFormat, "INVALID_PATH"},
		b.path("alias"):                     {fault.InvalidFormat, "INVALID_PATH"}, // a link is not a directory
		b.path("exit"):                      {fault.InvalidFormat, "INVALID_PATH"},
		b.path("exit/x"):                    {fault.OutsideRoot, "OutsideRoot"},
		b.path(".."):                        {fault.OutsideRoot, "OutsideRoot"},
		b.root:                              {fault.ProtectedPath, ""},
		b.path("Working"):                   {fault.ProtectedPath, ""},
		b.env.Workspace:                     {fault.ProtectedPath, ""},
		b.env.Workspace + "/outputs":        {fault.ProtectedPath, ""},
		b.env.Workspace + "/workspace/.":    {fault.ProtectedPath, ""},
		b.env.Workspace + "/temp":           {fault.ProtectedPath, ""},
		b.env.Workspace + "/temp/backups//": {fault.ProtectedPath, ""},
	} {
		for _, recursive := range []bool{true, false} {
			if path == b.path("full") && recursive {
				continue
			}
			_, err := b.call("DIRECTORY_DELETE", args{"directory_path": path, "recursive": recursive})
			refused(t, err, want.code, want.reason)
			assert.Equal(t, "directory_path", fault.From(err).Field, path)
		}
	}
	_, err := b.call("DIRECTORY_DELETE", args{"directory_path": b.path("full")})
	refused(t, err, fault.RequiredField, "")
	assert.Equal(t, before, tree(t, b.root))
}

// S0-071: without a backup nothing is deleted.
func TestDirectoryDeleteNeedsItsBackup(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(b *bench) error
		code  fault.Code
	}{
		"a file in the place of the folder": {func(b *bench) error { b.file("Working/"+string(b.env.Task)+"/temp/backups", ""); return nil }, fault.InvalidFormat},
		"a link out of the root":            {func(b *bench) error { return os.Symlink(b.t.TempDir(), b.env.Workspace+"/temp") }, fault.OutsideRoot},
		"a link into the directory":         {func(b *bench) error { return os.Symlink(b.path("dir"), b.env.Workspace+"/temp") }, fault.ProtectedPath},
		"a link to the directory": {func(b *bench) error {
			return errors.Join(os.Mkdir(b.env.Workspace+"/temp", 0o755), os.Symlink(b.path("dir/void"), b.env.Workspace+"/temp/backups"))
		}, fault.ProtectedPath},
		"a socket": {func(b *bench) error { return syscall.Mknod(b.path("dir/socket"), syscall.S_IFSOCK|0o600, 0) }, fault.InvalidFormat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.plant("dir")
			require.NoError(t, tc.spoil(b))
			before := tree(t, b.path("dir"))
			_, err := b.call("DIRECTORY_DELETE", args{"directory_path": b.path("dir"), "recursive": true})
			refused(t, err, tc.code, "")
			assert.Equal(t, before, tree(t, b.path("dir")))
			left, err := filepath.Glob(b.env.Workspace + "/temp/backups/*")
			require.NoError(t, err)
			if name == "a socket" {
				assert.Empty(t, left, "no half backup stays")
			}
		})
	}
}
