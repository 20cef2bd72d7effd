package main

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// fileSession has a workspace in memory. Files are read in parts of 4 bytes.
type fileSession struct {
	*fakeSession

	files map[string][]api.FileView
	texts map[string]string
	// binary says that the files are no text, and changes that they change after each part.
	binary, changes bool
}

func (f *fileSession) Files(_ context.Context, r api.FilesRequest) (api.FilesReply, error) {
	all, ok := f.files[r.Path]
	if !ok {
		return api.FilesReply{}, fault.New(fault.NotFound, "%s does not exist", r.Path)
	}
	reply := api.FilesReply{Task: taskID, Dir: "/root/Working/TASK", Files: all}
	if r.Cursor == "" && len(all) > 1 { // two pages
		reply.Files, reply.Next = all[:1], "1"
	} else if r.Cursor != "" {
		reply.Files = all[1:]
	}
	return reply, nil
}

func (f *fileSession) File(_ context.Context, r api.FileRequest) (api.FileReply, error) {
	text, ok := f.texts[r.Path]
	if !ok {
		return api.FileReply{}, fault.New(fault.InvalidFormat, "%s is a directory", r.Path).WithReason(api.ReasonFolder)
	}
	end := min(int(r.Offset)+4, len(text))
	reply := api.FileReply{Task: taskID, Path: r.Path, Size: uint64(len(text)), Modified: noon, Offset: r.Offset, Text: text[r.Offset:end], Binary: f.binary}
	if f.changes {
		reply.Size += r.Offset
	}
	if end < len(text) {
		reply.Next, reply.Redacted = uint64(end), 1
	}
	return reply, nil
}

func file(path string, size uint64) api.FileView {
	return api.FileView{Path: path, Kind: api.FileRegular, Size: size, Modified: noon}
}

func newFileSession() *fileSession {
	return &fileSession{fakeSession: &fakeSession{}, files: map[string][]api.FileView{
		"": {{Path: "outputs", Kind: api.FileFolder, Modified: noon}, {Path: "temp", Kind: api.FileFolder, Modified: noon}},
		"outputs": {
			{Path: "outputs/.env", Kind: api.FileRegular, Modified: noon, Closed: api.ClosedSecret},
			{Path: "outputs/gone", Kind: api.FileFolder, Modified: noon},
			file("outputs/a\x1b[2J\u202e.txt", 1234567),
			{Path: "outputs/to", Kind: api.FileLink, Modified: noon, Target: "/etc/\x1b]0;x"},
		},
		"temp": {file("temp/backup", 3)},
	}, texts: map[string]string{"f": "one\ntwo\x1b[31m\u202ethree", "empty": ""}}
}

func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	p := newProbe(t, newFileSession())
	require.Zero(t, p.run(t.Context(), []string{"files", "@last"}), p.err)
	assert.Equal(t, "BYTES      AGE  PATH\n0          now  outputs/.env  (not shown: secrets)\n1,234,567  now  outputs/a\\x1b[2J\\u202e.txt\nlink       now  outputs/to -> /etc/\\x1b]0;x\n", p.out.String())
	p = newProbe(t, newFileSession())
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "--all", "-o", "name"}))
	assert.Contains(t, p.out.String(), "temp/backup\n")
	p = newProbe(t, newFileSession())
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "temp/"}))
	assert.Contains(t, p.out.String(), "temp/backup")
	p = newProbe(t, &fileSession{fakeSession: &fakeSession{}, files: map[string][]api.FileView{"": {}}})
	require.Zero(t, p.run(t.Context(), []string{"files", "@last"}))
	assert.Contains(t, p.err.String(), "no files")
	p = newProbe(t, &fileSession{fakeSession: &fakeSession{}})
	assert.NotZero(t, p.run(t.Context(), []string{"files", "@last"}))
}

func TestListsOfFilesAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]api.FileView, maxListedFiles+1)
	for i := range many {
		many[i] = file(strconv.Itoa(i), 1)
	}
	p := newProbe(t, &fileSession{fakeSession: &fakeSession{}, files: map[string][]api.FileView{"": many}})
	require.Zero(t, p.run(t.Context(), []string{"files", "@last"}))
	assert.Equal(t, maxListedFiles+1, strings.Count(p.out.String(), "\n"), "with the heads")
	assert.Contains(t, p.err.String(), "there are more files than 10,000")
	deep := map[string][]api.FileView{}
	for i, at := 0, ""; i <= maxListedFiles; i++ {
		below := strings.TrimPrefix(at+"/d", "/")
		deep[at] = []api.FileView{{Path: below, Kind: api.FileFolder, Modified: noon}}
		if at = below; len(at) > 100 {
			deep[at] = deep[""] // a loop, as if the workspace grew while it is read
			break
		}
	}
	p = newProbe(t, &fileSession{fakeSession: &fakeSession{}, files: deep})
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "--json"}))
	assert.Contains(t, p.out.String(), `"more": true`)
}

// A pipe gets the bytes of a file, a terminal sees invisible characters.
func TestFilesArePrinted(t *testing.T) {
	t.Parallel()
	p := newProbe(t, newFileSession())
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "f"}))
	assert.Equal(t, "one\ntwo\x1b[31m\u202ethree", p.out.String())
	assert.Contains(t, p.err.String(), "replaced 4 secrets")
	p = newProbe(t, newFileSession())
	p.outTTY = true
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "f", "--offset", "4"}))
	assert.Equal(t, "two\\x1b[31m\\u202ethree\n", p.out.String())
	s := newFileSession()
	s.binary = true
	p = newProbe(t, s)
	p.outTTY = true
	assert.NotZero(t, p.run(t.Context(), []string{"files", "@last", "f"}))
	assert.Empty(t, p.out.String())
	assert.Contains(t, p.err.String(), "> FILE")
	s = newFileSession()
	s.changes = true
	p = newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "f"}))
	assert.Contains(t, p.err.String(), "f has changed while it was read")
	p = newProbe(t, newFileSession())
	require.Zero(t, p.run(t.Context(), []string{"files", "@last", "f", "-o", "name"}))
	assert.Equal(t, "f\n", p.out.String())
}
