package fs_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
)

// prison is a bench whose root is next to a forbidden directory, with links of all kinds into that.
type prison struct {
	*bench
	base string
}

// newPrison creates it in memory, because there are many attempts.
func newPrison(t *testing.T) prison {
	t.Helper()
	base, err := os.MkdirTemp("/dev/shm", "orch-test-") //nolint:usetesting // t.TempDir lies on a disk
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Mkdir(base+"/root", 0o755))
	p := prison{newBenchIn(t, base+"/root"), base}
	p.file("../outside/secret", "secret")
	p.file("../outside/dir/deep", "secret")
	p.file("../"+filepath.Base(p.root)+"-evil/f", "secret")
	p.file("f", "inside")
	p.file("dir/sub/f", "inside")
	for link, target := range map[string]string{
		"file-link": "../outside/secret", "dir-link": "../outside", "abs-file": p.base + "/outside/secret", "abs-dir": p.base + "/outside",
		"chain1": "chain2", "chain2": "chain3", "chain3": "abs-dir", "slash": "/", "up": "..", "up2": "../..", "dangling": "../outside/new",
		"deep-dangling": "../outside/no/new", "dir/sub/up4": "../../..", "dir/back": "../dir-link/dir", "evil": "../" + filepath.Base(p.root) + "-evil",
		"proc": "/proc/self/root", "cwd": "/proc/self/cwd", "tmp": os.TempDir(), "there": "dir/../../outside", "again": p.root + "/../outside",
	} {
		require.NoError(t, os.Symlink(target, p.path(link)))
	}
	return p
}

// escapes returns paths that lead outside through an element before the last one, and paths that lead outside through
// a link in the last element.
func (p prison) escapes() (paths, links []string) {
	outs := []string{
		"/..", "/../outside", "/dir-link", "/abs-dir", "/chain1", "/slash", "/up", "/up2", "/dir/sub/up4", "/dir/back", "/evil", "/proc", "/cwd",
		"/tmp", "/there", "/again", "/dir/../..", "/new/../..", "/./..", "//..", "/dir/sub/../../..", "/f/../..", "/file-link/..", "/.//..///outside",
		"-evil", "/dir/../../" + filepath.Base(p.root) + "-evil", "/deep-dangling/..", "/chain2/dir/..",
	}
	for _, out := range outs {
		for _, tail := range []string{
			"/secret", "/new", "/dir/deep", "/no/such/file", "//secret", "/./secret", "/dir/../secret", "/secret ", "/\u202esecret", "/.hidden", "/SECRET", "/a\nb",
		} {
			paths = append(paths, p.root+out+tail)
		}
	}
	paths = append(paths, p.base, "/", "//", "/.", "/etc/passwd", "//etc//passwd", "/etc/../etc/shadow", "/proc/self/environ", "/proc/self/root"+p.root+"/../x",
		"/dev/shm/orch", "/tmp/../etc/x", strings.ToUpper(p.root)+"/f", p.root+"x", p.root+"/../"+filepath.Base(p.root)+"x/f")
	for _, link := range []string{
		"file-link", "dir-link", "abs-file", "abs-dir", "chain1", "chain2", "chain3", "slash", "up", "up2", "dangling", "deep-dangling",
		"dir/sub/up4", "dir/back", "evil", "proc", "tmp", "there", "again",
	} {
		links = append(links, p.path(link), p.root+"/dir/../"+link, p.root+"//./"+link)
	}
	return paths, links
}

// attempts returns one call of each writing tool for the path.
func (p prison) attempts(path string) []attempt {
	return []attempt{
		{"patch_apply", args{"path": path, "patch": creation(filepath.Base(path), "x")}},
		{"append", args{"path": path, "content": "x"}},
		{"write_file", args{"path": path, "content": "x"}},
		{"FILE_WRITE", args{"file_path": path, "content": "x"}},
		{"create_directory", args{"path": path}},
		{"move_file", args{"source": path, "destination": p.path("taken")}},
		{"move_file", args{"source": p.path("f"), "destination": path}},
	}
}

type attempt struct {
	tool string
	in   args
}

// S4-004, S0-007: every tool rejects every path of the corpus, and nothing outside changes.
func TestEscapes(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	before := tree(t, p.base+"/outside")
	paths, links := p.escapes()
	require.GreaterOrEqual(t, len(paths)+len(links), 300)
	calls, wrong := 0, 0
	try := func(a attempt) {
		calls++
		if _, _, err := p.run(t.Context(), a.tool, a.in); !fault.Has(err, fault.OutsideRoot) {
			wrong++
			t.Errorf("%s %q: %v", a.tool, a.in, err)
		}
	}
	for _, path := range append(paths, links...) {
		for _, a := range p.attempts(path) {
			try(a)
		}
	}
	for _, path := range paths {
		try(attempt{"FILE_DELETE", args{"file_path": path}})
		try(attempt{"DIRECTORY_DELETE", args{"directory_path": path, "recursive": true}})
	}
	for _, path := range []string{"", "f", "./f", "../f", "~/f", "file://" + p.root + "/f", p.root + "/a\x00b", p.root + "/f\x00", strings.Repeat("/x", 3000)} {
		for _, a := range p.attempts(path) {
			calls++
			if _, _, err := p.run(t.Context(), a.tool, a.in); !fault.Has(err, fault.InvalidFormat) {
				wrong++
				t.Errorf("%s %q: %v", a.tool, a.in, err)
			}
		}
	}
	assert.Equal(t, before, tree(t, p.base+"/outside"))
	assert.Equal(t, "inside", p.content(p.path("f")))
	assert.NoFileExists(t, p.path("taken"))
	t.Logf("escapes: %d paths, %d calls, %d wrongly allowed", len(paths)+len(links), calls, wrong)
}

// S4-005: unusual spellings of a path inside are accepted.
func TestNoEscapes(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	require.NoError(t, os.Symlink("dir", p.path("rel")))
	require.NoError(t, os.Symlink(p.path("dir/sub"), p.path("abs")))
	require.NoError(t, os.Symlink("abs", p.path("two")))
	cases := 0
	for _, way := range []string{
		"", "/", "/.", "/dir", "/dir/", "/dir/sub", "/rel", "/abs", "/two", "/dir/..", "/rel/sub/..", "/up/" + filepath.Base(p.root), "/slash" + p.root,
		"/new/..", "/dir/sub/../../dir", "//dir//sub", "/./dir/./sub/.", "/two/..", "/proc" + p.root,
	} {
		for _, name := range []string{"x", "..x", "...", "x..", ".x", "x y", "x\ny", "ünï", "-rf", "*", "$HOME", "~", "a\\b", "%2e%2e", "new/x", "..d/..y"} {
			cases++
			path := p.root + way + "/" + name
			_, err := p.call("write_file", args{"path": path, "content": "x"})
			require.NoError(t, err, "%q", path)
			_, err = p.call("append", args{"path": path, "content": "y"})
			require.NoError(t, err, "%q", path)
		}
	}
	t.Logf("ways inside: %d paths, none refused", cases)
}

// S4-006: while a directory is repeatedly replaced by a link to the outside, nothing outside is read, written, moved
// or removed.
func TestRacesCannotEscape(t *testing.T) {
	t.Parallel()
	p := newPrison(t)
	before := tree(t, p.base+"/outside")
	ctx, cancel := context.WithCancel(t.Context())
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for ctx.Err() == nil {
			assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, p.path("dir"), unix.AT_FDCWD, p.path("dir-link"), unix.RENAME_EXCHANGE))
		}
	})
	defer swapper.Wait()
	defer cancel()
	codes, tries := map[fault.Code]int{}, 0
	try := func(tool string, in args) {
		tries++
		_, _, err := p.run(t.Context(), tool, in)
		codes[fault.CodeOf(err)]++
	}
	for tries < 10_000 {
		try("create_directory", args{"path": p.path("dir/made")})
		try("DIRECTORY_DELETE", args{"directory_path": p.path("dir/made"), "recursive": true})
		try("DIRECTORY_DELETE", args{"directory_path": p.path("dir/dir"), "recursive": true}) // outside has one
		try("FILE_DELETE", args{"file_path": p.path("dir/secret")})
		try("append", args{"path": p.path("dir/secret"), "content": "x"})
		try("move_file", args{"source": p.path("dir/secret"), "destination": p.path("stolen")})
		try("patch_apply", args{"path": p.path("dir/secret"), "patch": "--- secret\n+++ secret\n@@ -1 +1 @@\n-secret\n\\ No newline\n+x\n"})
		try("write_file", args{"path": p.path("dir/written"), "content": "x"})
		try("move_file", args{"source": p.path("f"), "destination": p.path("dir/moved")})
		p.file("f", "inside")
	}
	cancel()
	swapper.Wait()
	assert.Equal(t, before, tree(t, p.base+"/outside"))
	assert.NoFileExists(t, p.path("stolen"))
	assert.Positive(t, codes[""])
	assert.Positive(t, codes[fault.OutsideRoot])
	assert.Zero(t, codes[fault.Internal])
	t.Logf("%d tries: %v", tries, codes)
}
