package proc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/internal/proc"
)

// about returns the metadata of a file in a comparable form.
func about(t *testing.T, path string) string {
	t.Helper()
	var s unix.Stat_t
	require.NoError(t, unix.Lstat(path, &s))
	flags := 0
	if f, err := os.Open(path); err == nil {
		flags, _ = unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		_ = f.Close()
	}
	names := make([]byte, 1<<10)
	n, err := unix.Llistxattr(path, names)
	if err != nil {
		n = 0
	}
	return fmt.Sprintf("%s mode %o owner %d:%d links %d changed %d.%09d flags %x attributes %q", path, s.Mode, s.Uid, s.Gid, s.Nlink, s.Mtim.Sec, s.Mtim.Nsec, flags, names[:n])
}

// metadataPrey returns files with metadata that no child may change, by their role.
func (p prey) metadataPrey(t *testing.T) map[string]string {
	t.Helper()
	home := filepath.Join(p.outside, "home", ".ssh")
	require.NoError(t, os.MkdirAll(home, 0o700))
	key := filepath.Join(home, "id_ed25519")
	require.NoError(t, os.WriteFile(key, []byte("canary"), 0o600))
	targets := map[string]string{
		"the data directory": p.data, "a key of the node": p.secret, "~/.ssh": home, "a key of the user": key,
		"a file outside of the root": filepath.Join(p.outside, "file"), "a file of the root": filepath.Join(p.root, "src", "main.go"),
		"the root": p.root, "the folder of all workspaces": filepath.Dir(p.workspace),
	}
	for _, path := range targets {
		_ = unix.Setxattr(path, "user.kept", []byte("kept"), 0) // not every file system can
	}
	return targets
}

func TestNoMetadataChanges(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	targets := p.metadataPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}, Environ: []string{"HOME=" + filepath.Join(p.outside, "home")}})
	before := map[string]string{}
	for name, path := range targets {
		before[name] = about(t, path)
	}
	for name, path := range targets {
		through, said := p.try(t, r, p.sandbox(), allMetadata, path)
		assert.False(t, through, "%s: %s", name, said)
	}
	for name, path := range targets {
		assert.Equal(t, before[name], about(t, path), name)
	}
}

// The same with an approval to write in the root: hidden files and files outside of it do not change.
func TestNoMetadataChangesWhenApproved(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	targets := p.metadataPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}, Environ: []string{"HOME=" + filepath.Join(p.outside, "home")}})
	approved := p.sandbox()
	approved.Write = append(approved.Write, p.root)
	for _, name := range []string{"the data directory", "a key of the node", "~/.ssh", "a key of the user", "a file outside of the root"} {
		path := targets[name]
		before := about(t, path)
		through, said := p.try(t, r, approved, allMetadata, path)
		assert.False(t, through, "%s: %s", name, said)
		assert.Equal(t, before, about(t, path), name)
	}
}

// Files are not changed through an inherited descriptor either.
func TestInheritedFilesKeepTheirModes(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	before := about(t, os.DevNull)
	through, said := p.try(t, newRunner(t, proc.Config{}), p.sandbox(), "chmod of stdin", "")
	assert.False(t, through, said)
	assert.Equal(t, before, about(t, os.DevNull))
}

func TestNoEscapeFromTheView(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}})
	for attack := range escapes() {
		for _, target := range []string{p.workspace, p.root, p.data, "/", "/proc", strconv.Itoa(os.Getpid())} {
			through, said := p.try(t, r, p.sandbox(), attack, target)
			assert.False(t, through, "%s %s: %s", attack, target, said)
		}
	}
}

// The attacks on metadata have teeth: without the sandbox they change something.
func TestMetadataChangesWithoutASandbox(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{Sandbox: proc.Off})
	for attack := range metadataAttacks() {
		switch attack {
		case "chmod by process", "chmod of stdin", "chown", "lchown", "fchown", "fchownat":
			continue // they need another process to be of the same user, a file of the system, or another owner
		case "chown away":
			if os.Getuid() != 0 {
				continue
			}
		case "file flags x":
			continue // which few file systems know
		}
		p := newPrey(t)
		key := p.metadataPrey(t)["a key of the user"]
		before := about(t, key)
		_, said := p.try(t, r, p.sandbox(), attack, key)
		if _, err := os.Lstat(key); err != nil {
			continue // it is elsewhere
		}
		assert.NotEqual(t, before, about(t, key), "%s: %s", attack, said)
	}
}

// A child can change metadata of its own files as usual.
func TestOwnMetadataChanges(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}})
	own := filepath.Join(p.workspace, "own")
	for _, attack := range []string{
		"chmod", "set setuid", "fchmod", "fchmodat", "fchmodat2", "chmod by number", "chmod by path descriptor", "chmod by link", "chmod by folder",
		"chown", "lchown", "fchown", "fchownat", "utimes", "utimensat", "touch link", "futimens", "link and chmod",
	} {
		_ = os.Remove(filepath.Join(p.workspace, "linked"))
		require.NoError(t, os.WriteFile(own, nil, 0o600))
		require.NoError(t, os.Chmod(own, 0o600))
		before := about(t, own)
		through, said := p.try(t, r, p.sandbox(), attack, own)
		assert.True(t, through, "%s: %s", attack, said)
		if !strings.Contains(attack, "chown") { // whose owner it has already
			assert.NotEqual(t, before, about(t, own), attack)
		}
	}
}
