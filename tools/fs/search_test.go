package fs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// names returns the values of key in a list of objects, with paths relative to the root.
func (b *bench) names(list any, key string) []string {
	b.t.Helper()
	out := []string{}
	for _, item := range list.([]any) {
		text, ok := item.(string)
		if !ok {
			text = fmt.Sprint(item.(map[string]any)[key])
		}
		out = append(out, strings.TrimPrefix(text, b.root+"/"))
	}
	return out
}

// S0-065, S0-066: entries are sorted, links are listed but not followed.
func TestDirectoryList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("dir/b.txt", "123")
	b.file("dir/a/deep.txt", "1")
	require.NoError(t, os.Symlink(t.TempDir(), b.path("dir/exit")))
	require.NoError(t, os.Symlink("..", b.path("dir/loop")))
	out := b.must("DIRECTORY_LIST", args{"directory_path": b.path("dir")})
	assert.Equal(t, []string{"a", "b.txt", "exit", "loop"}, b.names(out["entries"], "name"))
	assert.Equal(t, []string{"directory", "file", "symlink", "symlink"}, b.names(out["entries"], "type"))
	assert.Equal(t, []string{"0", "3", "0", "0"}, b.names(out["entries"], "size"))
	assert.Equal(t, false, out["truncated"])
	out = b.must("DIRECTORY_LIST", args{"directory_path": b.path("dir"), "recursive": true})
	assert.Equal(t, []string{"dir/a", "dir/a/deep.txt", "dir/b.txt", "dir/exit", "dir/loop"}, b.names(out["entries"], "path"))
}

func TestDirectoryListRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.call("DIRECTORY_LIST", args{"directory_path": b.path("absent")})
	refused(t, err, fault.NotFound, "")
	_, err = b.call("DIRECTORY_LIST", args{"directory_path": b.file("f", "")})
	refused(t, err, fault.InvalidFormat, "INVALID_PATH")
	_, err = b.call("DIRECTORY_LIST", args{"directory_path": "/"})
	refused(t, err, fault.OutsideRoot, "OutsideRoot")
}

// at most 10 000 entries.
func TestDirectoryListCap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 10_001 {
		b.file(fmt.Sprintf("many/%05d", i), "")
	}
	out := b.must("DIRECTORY_LIST", args{"directory_path": b.path("many")})
	assert.Len(t, out["entries"], 10_000)
	assert.Equal(t, true, out["truncated"])
	out = b.must("GLOB_SEARCH", args{"path": b.path("many"), "pattern": "*"})
	assert.Len(t, out["files"], 10_000)
	assert.Equal(t, true, out["truncated"])
}

// S0-090, A-32: newest first, ties by path.
func TestGlobSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	for name, age := range map[string]int{
		"src/old.js": 3, "src/deep/er/new.js": 1, "src/tie2.js": 2, "src/tie1.js": 2, "src/other.txt": 0,
		".git/hook.js": 0, "src/.git/x.js": 0, "top.js": 4,
	} {
		at := now.Add(-time.Duration(age) * time.Hour)
		require.NoError(t, os.Chtimes(b.file(name, ""), at, at))
	}
	require.NoError(t, os.Symlink("/etc/hostname", b.path("src/exit.js")))
	require.NoError(t, os.Symlink(b.path("src/old.js"), b.path("link.js")))
	require.NoError(t, os.Symlink("src", b.path("loop")))
	for _, tc := range []struct {
		path, pattern string
		want          []string
	}{
		{"", "**/*.js", []string{"src/deep/er/new.js", "src/tie1.js", "src/tie2.js", "link.js", "src/old.js", "top.js"}},
		{"", "*.js", []string{"link.js", "top.js"}},
		{"", "src/*.js", []string{"src/tie1.js", "src/tie2.js", "src/old.js"}},
		{"", "src/*/*/*.js", []string{"src/deep/er/new.js"}},
		{"", "src/{old,tie1}.js", []string{"src/tie1.js", "src/old.js"}},
		{"", "src/old.js", []string{"src/old.js"}},
		{"src", "**", []string{"src/other.txt", "src/deep/er/new.js", "src/tie1.js", "src/tie2.js", "src/old.js"}},
		{"", ".git/*", []string{".git/hook.js"}},
		{".git", "*", []string{".git/hook.js"}},
		{"", "**/.git/*.js", []string{".git/hook.js", "src/.git/x.js"}},
		{"", "none/**", []string{}},
		{"", "top.js/*", []string{}},
	} {
		out := b.must("GLOB_SEARCH", args{"path": b.path(tc.path), "pattern": tc.pattern})
		assert.Equal(t, tc.want, b.names(out["files"], ""), "%s in %q", tc.pattern, tc.path)
	}
}

// without a path, the workspace of the task.
func TestSearchesDefaultToTheWorkspace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("outside.txt", "word")
	b.file("Working/"+string(b.env.Task)+"/outputs/in.txt", "word")
	want := []string{"Working/" + string(b.env.Task) + "/outputs/in.txt"}
	assert.Equal(t, want, b.names(b.must("GLOB_SEARCH", args{"pattern": "**/*.txt"})["files"], ""))
	out := b.must("GREP_SEARCH", args{"pattern": "word", "output_mode": "files_with_matches"})
	assert.Equal(t, want, b.names(out["files"], ""))
}

// S0-095, S0-097: what cannot be searched is told by its code.
func TestSearchRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.file("f", "x")
	require.NoError(t, os.Symlink("/etc", b.path("exit")))
	for name, tc := range map[string]struct {
		tool   string
		in     args
		code   fault.Code
		reason string
	}{
		"glob bad pattern":    {"GLOB_SEARCH", args{"pattern": "[a"}, fault.InvalidFormat, ""},
		"glob empty pattern":  {"GLOB_SEARCH", args{"pattern": ""}, fault.ValidationError, ""},
		"glob absolute":       {"GLOB_SEARCH", args{"pattern": "/etc/*"}, fault.InvalidFormat, ""},
		"glob root":           {"GLOB_SEARCH", args{"pattern": "/*"}, fault.InvalidFormat, ""},
		"glob through link":   {"GLOB_SEARCH", args{"pattern": "exit/*", "path": b.root}, fault.OutsideRoot, "OutsideRoot"},
		"glob parent":         {"GLOB_SEARCH", args{"pattern": "../*"}, fault.InvalidFormat, ""},
		"glob absent path":    {"GLOB_SEARCH", args{"pattern": "*", "path": b.path("absent")}, fault.InvalidFormat, "INVALID_PATH"},
		"glob file":           {"GLOB_SEARCH", args{"pattern": "*", "path": file}, fault.InvalidFormat, "INVALID_PATH"},
		"glob outside":        {"GLOB_SEARCH", args{"pattern": "*", "path": "/etc"}, fault.OutsideRoot, "OutsideRoot"},
		"grep bad pattern":    {"GREP_SEARCH", args{"pattern": "a)|(b", "case_insensitive": true}, fault.InvalidFormat, ""},
		"grep bad glob":       {"GREP_SEARCH", args{"pattern": "a", "glob": "[a"}, fault.InvalidFormat, ""},
		"grep mode":           {"GREP_SEARCH", args{"pattern": "a", "output_mode": "lines"}, fault.ValidationError, ""},
		"grep absent path":    {"GREP_SEARCH", args{"pattern": "a", "path": b.path("absent")}, fault.NotFound, ""},
		"grep relative path":  {"GREP_SEARCH", args{"pattern": "a", "path": "src"}, fault.InvalidFormat, "INVALID_PATH"},
		"grep path elsewhere": {"GREP_SEARCH", args{"pattern": "a", "path": "/etc"}, fault.OutsideRoot, "OutsideRoot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.call(tc.tool, tc.in)
			refused(t, err, tc.code, tc.reason)
		})
	}
}

// S0-096, S0-097, A-33.
func TestGrepSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("a.go", "package a\r\n\r\nfunc Foo() {}\r\nfunc Bar() {}\r\n")
	b.file("b.txt", "func Baz\nFUNC qux\xff\nlast func")
	b.file("kelvin", "\u212a\nx\nK")
	b.file("bin", "func\x00func")
	b.file("sub/c.go", "// func\n")
	b.file(".git/d.go", "func\n")
	for _, tc := range []struct {
		in   args
		want []string // file:line:text
	}{
		{args{"pattern": "func"}, []string{"a.go:3:func Foo() {}", "a.go:4:func Bar() {}", "b.txt:1:func Baz", "b.txt:3:last func", "sub/c.go:1:// func"}},
		{args{"pattern": `^func (Foo|Bar)\(\) \{\}$`}, []string{"a.go:3:func Foo() {}", "a.go:4:func Bar() {}"}},
		{args{"pattern": "func", "glob": "*.go"}, []string{"a.go:3:func Foo() {}", "a.go:4:func Bar() {}", "sub/c.go:1:// func"}},
		{args{"pattern": "func", "glob": "sub/*.go"}, []string{"sub/c.go:1:// func"}},
		{args{"pattern": "func", "glob": ".git/*"}, []string{".git/d.go:1:func"}},
		{args{"pattern": "func q|^l", "case_insensitive": true}, []string{"b.txt:2:FUNC qux\ufffd", "b.txt:3:last func"}},
		{args{"pattern": "FuNC", "case_insensitive": true, "glob": "b.*"}, []string{"b.txt:1:func Baz", "b.txt:2:FUNC qux\ufffd", "b.txt:3:last func"}},
		{args{"pattern": "k", "case_insensitive": true, "glob": "kelvin"}, []string{"kelvin:1:\u212a", "kelvin:3:K"}},
		{args{"pattern": "func", "path": b.path("b.txt")}, []string{"b.txt:1:func Baz", "b.txt:3:last func"}},
		{args{"pattern": `^$`}, []string{"a.go:2:"}},
		{args{"pattern": "nowhere"}, []string{}},
	} {
		if tc.in["path"] == nil {
			tc.in["path"] = b.root
		}
		out := b.must("GREP_SEARCH", tc.in)
		got := []string{}
		for _, m := range out["matches"].([]any) {
			m := m.(map[string]any)
			got = append(got, fmt.Sprintf("%s:%v:%s", strings.TrimPrefix(m["file"].(string), b.root+"/"), m["line"], m["text"]))
		}
		assert.Equal(t, tc.want, got, "%v", tc.in)
		assert.Equal(t, "content", out["mode"])
		assert.InDelta(t, len(tc.want), out["total"], 0)
	}
	out := b.must("GREP_SEARCH", args{"pattern": "func", "path": b.root, "output_mode": "files_with_matches"})
	assert.Equal(t, []string{"a.go", "b.txt", "sub/c.go"}, b.names(out["files"], ""))
	assert.NotContains(t, out, "matches")
	out = b.must("GREP_SEARCH", args{"pattern": "func", "path": b.root, "output_mode": "count"})
	assert.Equal(t, []string{"2", "2", "1"}, b.names(out["counts"], "count"))
	assert.InDelta(t, 5, out["total"], 0)
}

// Line numbers are right across the buffers of a large file, and a line longer than the buffer is searched, too.
func TestGrepSearchLargeFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var text strings.Builder
	for range 100_000 {
		text.WriteString("0123456789\n")
	}
	text.WriteString(strings.Repeat("x", 5<<19) + "\nneedle\n")
	path := b.file("large", text.String())
	for _, pattern := range []string{"needle", "[n]eedle", "(?i)NEEDLE"} {
		out := b.must("GREP_SEARCH", args{"pattern": pattern, "path": path})
		require.Len(t, out["matches"], 1)
		assert.InDelta(t, 100_002, out["matches"].([]any)[0].(map[string]any)["line"], 0)
	}
	out := b.must("GREP_SEARCH", args{"pattern": "9$", "path": path})
	assert.Len(t, out["matches"], (256<<10)/(10+len(path)))
	assert.InDelta(t, 100_000, out["total"], 0)
	assert.Equal(t, true, out["truncated"])
}

func TestGrepSearchTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := newBench(t).call("GREP_SEARCH", args{"pattern": "(" + strings.Repeat("x", 500)})
	require.EqualError(t, err, "INVALID_FORMAT: pattern: is not a valid regular expression: missing closing )")
}

func TestSearchesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.file("f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for tool, in := range map[string]args{
		"GREP_SEARCH":    {"pattern": "x", "path": b.root},
		"GLOB_SEARCH":    {"pattern": "**", "path": b.root},
		"DIRECTORY_LIST": {"directory_path": b.root, "recursive": true},
		"FILE_READ":      {"file_path": b.path("f")},
	} {
		_, err := b.callContext(ctx, tool, in)
		refused(t, err, fault.Cancelled, "")
	}
}

func TestGrepSearchReportsProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 1000 {
		b.file(fmt.Sprintf("d/%d", i), "x")
	}
	var reports []string
	b.env.Progress = func(done, _ float64, message string) { reports = append(reports, fmt.Sprintf("%g %s", done, message)) }
	b.must("GREP_SEARCH", args{"pattern": "x", "path": b.path("d"), "output_mode": "count"})
	assert.Equal(t, []string{"1000 files searched"}, reports)
}

// Searches leave out the backups of orch, unless they begin there.
func TestSearchesLeaveOutBackups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	working := strings.TrimPrefix(filepath.Dir(b.env.Workspace), b.root+"/")
	for _, name := range []string{working + "/.undo/a.txt", ".undo/b.txt", "c.txt"} {
		b.file(name, "needle")
	}
	out := b.must("GREP_SEARCH", args{"pattern": "needle", "path": b.root, "output_mode": "files_with_matches"})
	assert.ElementsMatch(t, []string{".undo/b.txt", "c.txt"}, b.names(out["files"], ""))
	out = b.must("GLOB_SEARCH", args{"pattern": "**/[abc].txt", "path": b.root})
	assert.ElementsMatch(t, []string{".undo/b.txt", "c.txt"}, b.names(out["files"], ""))
	out = b.must("GLOB_SEARCH", args{"pattern": "*.txt", "path": b.path(working + "/.undo")})
	assert.Len(t, out["files"], 1)
}
