package storefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus/storefile"
)

// FuzzBlock reads blocks of any content: a record that is accepted has the checksum of its block.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("cmp\x01\x10 no compressed data"))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		msgs := filepath.Join(storefile.Dir(dir), "S", "msgs")
		require.NoError(t, os.MkdirAll(msgs, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(msgs, "1.blk"), data, 0o600))
		s := check(t, dir, anything)
		if s.Last == 0 && len(data) > 0 {
			require.Greater(t, len(s.Damage), 1, "beside the missing description")
		}
	})
}
