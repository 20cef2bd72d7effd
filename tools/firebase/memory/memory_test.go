package memory_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	queue "github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const backlog = 64

func TestRealtime(t *testing.T) {
	t.Parallel()
	firebasetest.Realtime(t, firebasetest.Kit{
		Open:    func(testing.TB) firebase.Backend { return memory.NewRealtime(memory.Config{Backlog: backlog}) },
		Backlog: backlog,
	})
}

func TestFirestore(t *testing.T) {
	t.Parallel()
	firebasetest.Firestore(t, firebasetest.Kit{
		Open:    func(testing.TB) firebase.Backend { return memory.NewFirestore(memory.Config{Backlog: backlog}) },
		Backlog: backlog,
	})
}

// A reader is also limited in bytes: a few large events count as much as many small ones, but a single event of any
// size is always delivered.
func TestReaderIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := memory.NewRealtime(memory.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, err := b.Watch(ctx, "big", firebase.Value)
	require.NoError(t, err)
	const each = 9 << 20
	for _, letter := range []string{"a", "b", "c", "d", "e", "f"} {
		_, err := b.Write(ctx, "big", firebase.Write{Operation: firebase.Set, Data: strings.Repeat(letter, each)})
		require.NoError(t, err)
	}
	held := 0
	var lost error
	for e, err := range watching.Events {
		if lost = err; err == nil {
			held += each
			assert.IsType(t, "", e.Data)
		}
	}
	assert.Equal(t, refusal.QuotaExceeded, fault.From(lost).Reason)
	assert.Positive(t, held)
	assert.LessOrEqual(t, held, queue.MaxHeld)
}

// A key of push sorts after the previous one, whatever the clock does.
func TestPushWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_800_000_000_000)
	b := memory.NewRealtime(memory.Config{Now: func() time.Time {
		clock = clock.Add(-time.Second)
		return clock
	}})
	last := ""
	for range 10 {
		written, err := b.Write(t.Context(), "list", firebase.Write{Operation: firebase.Push, Data: "x"})
		require.NoError(t, err)
		assert.Greater(t, written.Key, last)
		last = written.Key
	}
}
