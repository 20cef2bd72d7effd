package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// What the set forgets is looked at again, so the newest is all that it must hold.
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
