package undo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/undo"
)

// run runs a script in the root.
func (p *place) run(script string) {
	p.t.Helper()
	c := exec.CommandContext(p.t.Context(), "sh", "-ec", script)
	c.Dir = p.dir
	said, err := c.CombinedOutput()
	require.NoError(p.t, err, "%s", said)
}

// Replaced file types are restored: links, pipes, files instead of folders and folders instead of files.
func TestUndoOfWhatTookThePlaceOfOthers(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a link that leads away":      `rm -r d; ln -s /tmp d; echo changed >g`,
		"a link to where it has gone": `mv d e; echo changed >e/f; ln -s e d`,
		"a pipe":                      `rm g; mkfifo g; echo new >n`,
		"a file for a folder":         `rm -r d; echo file >d`,
		"a folder for a file":         `rm g; mkdir g; echo new >g/n; mkdir -p h/i`,
		"a repository":                `rm -r sub/deep; echo changed >sub/s; echo new >sub/n`,
	} {
		p := newPlace(t)
		p.write("d/f", "one")
		p.write("g", "two")
		p.write("sub/s", "three")
		p.write("sub/deep/s", "four")
		p.run(`git init -q sub; git -C sub add .; git -C sub -c user.name=a -c user.email=a@b.c commit -qm x`)
		p.call("S1", "T1/call", nil, func() { p.run(script) })
		if name == "a pipe" {
			assert.Equal(t, []string{"g"}, p.undo("S1", "").Conflicts, "nobody knows what it holds")
			p.run(`rm g`)
		}
		r := p.undo("S1", "")
		assert.Empty(t, r.Conflicts, name)
		assert.Equal(t, []string{"one", "two", "three", "four", "none", "none", "none"},
			[]string{p.read("d/f"), p.read("g"), p.read("sub/s"), p.read("sub/deep/s"), p.read("n"), p.read("e/f"), p.read("sub/n")}, name)
		again := p.undo("S1", "")
		assert.Equal(t, undo.Report{Restored: []string{}, Removed: []string{}, Conflicts: []string{}}, again, name)
	}
}

// Paths that cannot be restored are reported, and the rest is restored.
func TestUndoGoesOnWithTheRest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("d/f", "one")
	p.write("g", "two")
	p.call("S1", "T1/call", nil, func() { p.write("d/f", "changed"); p.write("g", "changed") })
	p.run(`rm -r d; ln -s /tmp d`) // by the user
	r := p.undo("S1", "")
	assert.Equal(t, []string{"d/f"}, r.Conflicts)
	assert.Equal(t, []string{"g"}, r.Restored)
	assert.Equal(t, "two", p.read("g"))
}

// Names are bytes.
func TestUndoOfNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if err := os.WriteFile(filepath.Join(p.dir, "\xff"), []byte("one"), 0o600); err != nil {
		t.Skip("this file system has no such names")
	}
	p.call("S1", "T1/call", nil, func() { p.write("\xff", "changed"); p.write("\xfe", "new"); p.write(".GIT", "odd") })
	r := p.undo("S1", "")
	assert.Empty(t, r.Conflicts)
	assert.Equal(t, "one", p.read("\xff"))
	assert.Equal(t, "none", p.read("\xfe"))
	entries, err := os.ReadDir(p.dir)
	require.NoError(t, err)
	assert.Len(t, entries, 3, "%v", entries)
}
