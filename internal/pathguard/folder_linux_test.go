package pathguard_test

import (
	"io"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A folder that is swapped for a link all the time never leads out.
func TestFolderIsSwapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("dir/swap/secret", "inside")
	require.NoError(t, os.Symlink("../../outside", w.root+"/dir/other"))
	f := w.folder("dir")
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, w.root+"/dir/swap", unix.AT_FDCWD, w.root+"/dir/other", unix.RENAME_EXCHANGE)
			}
		}
	})
	opened := 0
	for range 3000 {
		in, err := f.Folder("swap")
		if err != nil {
			continue
		}
		file, _, err := in.Open("secret")
		if err == nil {
			data, err := io.ReadAll(file)
			require.NoError(t, err)
			require.Equal(t, "inside", string(data))
			require.NoError(t, file.Close())
			opened++
		}
		require.NoError(t, in.Close())
	}
	close(done)
	swapping.Wait()
	assert.Positive(t, opened)
}
