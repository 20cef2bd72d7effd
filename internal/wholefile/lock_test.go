package wholefile_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/wholefile"
)

func TestLock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".lock")
	unlock, err := wholefile.Lock(t.Context(), file)
	require.NoError(t, err)
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	_, err = wholefile.Lock(given, file)
	require.ErrorIs(t, err, context.Canceled)

	var group sync.WaitGroup
	var inside, together atomic.Int32
	for range 8 {
		group.Go(func() {
			unlock, err := wholefile.Lock(t.Context(), file)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if inside.Add(1) > 1 {
				together.Add(1)
			}
			inside.Add(-1)
		})
	}
	unlock()
	group.Wait()
	assert.Zero(t, together.Load())
	_, err = wholefile.Lock(t.Context(), filepath.Join(t.TempDir(), "none", ".lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}
