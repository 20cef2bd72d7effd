package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// Evicted folders are checked again, so only the newest one must be in the cache.
func TestKnownFoldersAreBounded(t *testing.T) {
	t.Parallel()
	tree := &Tree{known: map[events.TaskID]struct{}{}}
	for i := range 3 * maxKnown {
		id := events.NewTaskID(time.UnixMilli(int64(i)))
		tree.remember(id)
		assert.True(t, tree.isKnown(id))
		assert.LessOrEqual(t, len(tree.known), maxKnown)
	}
}
