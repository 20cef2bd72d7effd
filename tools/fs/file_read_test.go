package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// S0-022: line numbers are those of the file, also with an offset.
func TestFileReadNumbersLines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	path := b.file("ten.txt", text.String())
	out := b.must("FILE_READ", args{"file_path": path, "offset": 4, "limit": 3})
	assert.Equal(t, map[string]any{
		"file_path": path, "content": "4\tline 4\n5\tline 5\n6\tline 6\n",
		"start_line": 4.0, "line_count": 3.0, "total_lines": 10.0, "truncated": true,
	}, out)
	assert.False(t, b.must("FILE_READ", args{"file_path": path})["truncated"].(bool))
	past := b.must("FILE_READ", args{"file_path": path, "offset": 11})
	assert.Empty(t, past["content"])
	assert.Equal(t, false, past["truncated"])
}

// S0-025: no content makes a read fail, and the file is not changed.
func TestFileReadShowsAnyContent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 3000)
	for name, tc := range map[string]struct {
		content, want string
		lines         float64
		truncated     bool
	}{
		"empty":            {"", "", 0, false},
		"no final newline": {"a\nb", "1\ta\n2\tb", 2, false},
		"only newlines":    {"\n\n", "1\t\n2\t\n", 2, false},
		"crlf":             {"a\r\nb\r\n", "1\ta\r\n2\tb\r\n", 2, false},
		"invalid utf-8":    {"a\xff\xfeb\nc\n", "1\ta\ufffdb\n2\tc\n", 2, false},
		"nul bytes":        {"a\x00b", "1\ta\x00b", 1, false},
		"long line":        {long + "\nb\n", "1\t" + strings.Repeat("é", 2000) + "\n2\tb\n", 2, true},
		"exact line":       {strings.Repeat("𝄞", 2000) + "\nb", "1\t" + strings.Repeat("𝄞", 2000) + "\n2\tb", 2, false},
		"huge line":        {strings.Repeat("x", 1<<20), "1\t" + strings.Repeat("x", 2000), 1, true},
		"huge junk":        {strings.Repeat("\xff", 1<<20), "1\t\ufffd", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			path := b.file("f", tc.content)
			out := b.must("FILE_READ", args{"file_path": path})
			assert.Equal(t, tc.want, out["content"])
			assert.InDelta(t, tc.lines, out["total_lines"], 0)
			assert.Equal(t, tc.truncated, out["truncated"])
			assert.Equal(t, tc.content, b.content(path))
		})
	}
}

// A-22, S0-023: 2000 lines and 256 KiB.
func TestFileReadCaps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out := b.must("FILE_READ", args{"file_path": b.file("lines", strings.Repeat("x\n", 2001))})
	assert.InDelta(t, 2000, out["line_count"], 0)
	assert.InDelta(t, 2001, out["total_lines"], 0)
	assert.Equal(t, true, out["truncated"])
	out = b.must("FILE_READ", args{"file_path": b.file("wide", strings.Repeat(strings.Repeat("x", 1999)+"\n", 500))})
	assert.LessOrEqual(t, len(out["content"].(string)), 256<<10)
	assert.InDelta(t, 130, out["line_count"], 0)
	assert.Equal(t, true, out["truncated"])
}

// S0-042: the read of the whole file is recorded under its real path, even when only a part is read through a link.
func TestFileReadRemembersTheFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("real.txt", "abc\ndef\n")
	require.NoError(t, os.Symlink(path, b.path("link.txt")))
	out := b.must("FILE_READ", args{"file_path": b.path("link.txt"), "limit": 1})
	assert.Equal(t, path, out["file_path"])
	assert.Equal(t, map[string]string{path: "924d391c158a46409fdff363063d718ea0bc00b14556f129984942af91233bbe"}, b.env.Reads)
}

// S0-023, S0-024: what cannot be read is told by code and field.
func TestFileReadRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := b.file("f", "x")
	require.NoError(t, os.Mkdir(b.path("dir"), 0o755))
	require.NoError(t, syscall.Mkfifo(b.path("pipe"), 0o644))
	for name, tc := range map[string]struct {
		in     args
		code   fault.Code
		field  string
		reason string
	}{
		"absent":       {args{"file_path": b.path("absent")}, fault.NotFound, "", ""},
		"directory":    {args{"file_path": b.path("dir")}, fault.InvalidFormat, "", "INVALID_PATH"},
		"pipe":         {args{"file_path": b.path("pipe")}, fault.InvalidFormat, "", "INVALID_PATH"},
		"relative":     {args{"file_path": "f"}, fault.InvalidFormat, "file_path", "INVALID_PATH"},
		"outside":      {args{"file_path": filepath.Dir(b.root)}, fault.OutsideRoot, "file_path", "OutsideRoot"},
		"zero offset":  {args{"file_path": path, "offset": 0}, fault.ValidationError, "offset", ""},
		"negative":     {args{"file_path": path, "limit": -1}, fault.ValidationError, "limit", ""},
		"no path":      {args{}, fault.RequiredField, "file_path", ""},
		"below a file": {args{"file_path": path + "/x"}, fault.InvalidFormat, "", "INVALID_PATH"},
	} {
		_, err := b.call("FILE_READ", tc.in)
		var e *fault.Error
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, tc.code, e.Code, name)
		assert.Equal(t, tc.field, e.Field, name)
		assert.Equal(t, tc.reason, e.Reason, name)
	}
	assert.Empty(t, b.env.Reads)
}
