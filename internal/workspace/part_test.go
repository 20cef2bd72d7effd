package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/internal/workspace"
)

// marks finds each SECRET.
func marks(data []byte) []secrets.Finding {
	var found []secrets.Finding
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("SECRET"))
		if i < 0 {
			return found
		}
		found = append(found, secrets.Finding{Rule: "mark", Offset: at + i, Length: len("SECRET")})
		at += i + 1
	}
}

// readAll reads a file in parts of limit bytes.
func readAll(t *testing.T, text string, limit int) (whole string, redacted int) {
	t.Helper()
	var b strings.Builder
	for offset := int64(0); ; {
		part, err := workspace.ReadPart(strings.NewReader(text), offset, limit, marks)
		require.NoError(t, err)
		b.Write(part.Data)
		redacted += part.Redacted
		if part.Next == 0 {
			return b.String(), redacted
		}
		require.Greater(t, part.Next, offset, "it goes on")
		offset = part.Next
	}
}

// However a file is divided, its parts make up the whole with each secret replaced once.
func TestPartsMakeUpTheWhole(t *testing.T) {
	t.Parallel()
	text := "SECRET one SECRETSECRET ü two 日本 SECRE SECRET"
	want := strings.ReplaceAll(text, "SECRET", "[REDACTED:mark]")
	for limit := 1; limit <= len(text)+1; limit++ {
		got, redacted := readAll(t, text, limit)
		require.Equal(t, want, got, "in parts of %d", limit)
		require.Equal(t, 4, redacted)
	}
	got, _ := readAll(t, "", 10)
	assert.Empty(t, got)
}

// A part that begins inside a secret does not show the rest of it.
func TestPartInsideASecret(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 3*workspace.Margin) + "SECRET." + strings.Repeat("y", 3*workspace.Margin)
	at := int64(3*workspace.Margin + 3)
	part, err := workspace.ReadPart(strings.NewReader(text), at, 5, marks)
	require.NoError(t, err)
	assert.Equal(t, "[REDACTED:mark].y", string(part.Data))
	part, err = workspace.ReadPart(strings.NewReader(text), at-5, 4, marks)
	require.NoError(t, err)
	assert.Equal(t, "xx[REDACTED:mark]", string(part.Data))
	assert.Equal(t, at+3, part.Next, "the next part begins behind the secret")
}

func TestPartKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	part, err := workspace.ReadPart(strings.NewReader("aü日"), 0, 2, marks)
	require.NoError(t, err)
	assert.Equal(t, "a", string(part.Data))
	assert.Equal(t, int64(1), part.Next)
	part, err = workspace.ReadPart(strings.NewReader("\xff\xff\xff\xff\xff"), 0, 2, marks) // no text
	require.NoError(t, err)
	assert.Equal(t, "\xff\xff", string(part.Data))
}

// A huge sparse file costs as much as a part of it.
func TestPartOfASparseFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "sparse")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	const size = 1 << 40
	require.NoError(t, f.Truncate(size))
	part, err := workspace.ReadPart(f, size-10, 100, marks)
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 10), part.Data)
	assert.Zero(t, part.Next)
	part, err = workspace.ReadPart(f, 1<<39, 100, marks)
	require.NoError(t, err)
	assert.Equal(t, int64(1<<39+100), part.Next)
	part, err = workspace.ReadPart(f, size, 100, marks)
	require.NoError(t, err)
	assert.Empty(t, part.Data)
}

// failing is a file that cannot be read.
type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }

func TestPartOfAFileThatFails(t *testing.T) {
	t.Parallel()
	_, err := workspace.ReadPart(failing{}, 0, 10, marks)
	require.ErrorIs(t, err, iotest.ErrTimeout)
}

// FuzzReadPart: whatever the parts are, no secret shows and nothing else is lost.
func FuzzReadPart(f *testing.F) {
	f.Add("a SECRET b", uint8(3))
	f.Add("SECRETü日本SECRET", uint8(1))
	f.Add("SECRESECRETCRET", uint8(7))
	f.Fuzz(func(t *testing.T, text string, limit uint8) {
		got, _ := readAll(t, text, int(limit)+1)
		assert.Equal(t, strings.ReplaceAll(text, "SECRET", "[REDACTED:mark]"), got)
	})
}
