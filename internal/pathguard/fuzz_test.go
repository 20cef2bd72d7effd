package pathguard_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// FuzzResolve: a path that is accepted agrees with the kernel's view of it, and nothing outside is
// ever accepted.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"", "/", "/file", "/../outside/secret", "/exit/secret", "/in/file", "/in/../file", "//./dir", "/a\x00", "/loop", "/new/../../x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		w := newWorld(t)
		w.link("../outside", "exit")
		w.link("dir", "in")
		w.link("loop", "loop")
		rel, err := w.guard.Resolve(w.root + path)
		actual, kernelErr := filepath.EvalSymlinks(w.root + path)
		if err != nil {
			code := fault.CodeOf(err)
			assert.Contains(t, []fault.Code{fault.InvalidFormat, fault.OutsideRoot}, code)
			inside := kernelErr == nil && (actual == w.root || strings.HasPrefix(actual, w.root+"/"))
			assert.False(t, inside && code == fault.OutsideRoot, "%q is inside", path)
			return
		}
		require.True(t, filepath.IsLocal(rel), rel)
		if kernelErr == nil {
			assert.Equal(t, actual, w.guard.Abs(rel))
		}
	})
}
