package worker

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/work"
)

// shownPieces writes chunks and returns the text of the piece after each of them.
func shownPieces(chunks ...string) (shown []string, t *tail) {
	t = &tail{}
	clean := func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("hush\nhush"), []byte("***")) }
	now := time.Unix(1, 0)
	for i, chunk := range chunks {
		t.write([]byte(chunk))
		now = now.Add(outputEvery)
		p := t.piece(now, i == len(chunks)-1, clean)
		if p == nil {
			shown = append(shown, "")
			continue
		}
		t.markSent(p)
		shown = append(shown, p.Text)
	}
	return shown, t
}

func TestPiecesOfOutput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ chunks, want []string }{
		"whole lines":                 {[]string{"a\nb", "c\n", "d"}, []string{"a\n", "bc\n", "d"}},
		"lines that are written over": {[]string{"10%\r20", "%\r"}, []string{"10%\r", "20%\r"}},
		"a secret over two pieces":    {[]string{"x\nhush\n", "hush\ny\n", "z\n"}, []string{"x\nhush\n", "", "z\n"}},
		"a key whose end comes later": {[]string{"x\n-----BEGIN KEY-----\nabc\n", "def\n-----END KEY-----\n", ""}, []string{"x\n", "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----\n", ""}},
		"a mark that begins no key":   {[]string{"-----BEGIN x\n", strings.Repeat("y\n", 8192), ""}, []string{"", strings.Repeat("y\n", 8192), ""}},
		"a key without an end":        {[]string{"x\n-----BEGIN KEY-----\nabc\n", "def\n"}, []string{"x\n", ""}},
		"no text":                     {[]string{"a\xff\n"}, []string{"a\uFFFD\n"}},
		"nothing":                     {[]string{""}, []string{""}},
	} {
		shown, _ := shownPieces(tc.chunks...)
		assert.Equal(t, tc.want, shown, name)
	}
}

// A new watcher gets the newest lines. The offsets of the pieces show what precedes them.
func TestLateWatchersGetTheNewestLines(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	shown, _ := shownPieces("", strings.Repeat(line, 10_000)+"last\n", "")
	require.LessOrEqual(t, len(shown[1]), work.MaxOutput)
	assert.Greater(t, len(shown[1]), work.MaxOutput-2*len(line))
	assert.True(t, strings.HasSuffix(shown[1], line+"last\n"))
	assert.Equal(t, strings.Repeat(line, strings.Count(shown[1], "x\n")), strings.TrimSuffix(shown[1], "last\n"), "whole lines")

	all := &tail{}
	for range 3 * tailSize / len(line) {
		all.write([]byte(line))
		assert.LessOrEqual(t, len(all.raw), 2*tailSize)
	}
	p := all.piece(time.Unix(1, 0), true, bytes.Clone)
	assert.Equal(t, all.end, p.To)
	assert.Equal(t, int64(len(p.Text)), p.To-p.From)
	assert.Nil(t, all.piece(time.Unix(1, 0), false, bytes.Clone), "too early")
}

// The rest of a private key whose beginning is missing is not shown.
func TestTheRestOfAKeyIsNotShown(t *testing.T) {
	t.Parallel()
	shown, _ := shownPieces("-----BEGIN KEY-----\n" + strings.Repeat("secret\n", tailSize/7) + "-----END KEY-----\nafter\n")
	assert.Equal(t, []string{"after\n"}, shown)
}
