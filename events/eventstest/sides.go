package eventstest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// TestBlobs runs the conformance tests for events.Blobs. open returns an empty store each time.
func TestBlobs(t *testing.T, open func(t *testing.T) events.Blobs) {
	t.Helper()
	t.Run("put and get", func(t *testing.T) {
		t.Parallel()
		testPutAndGet(t, open(t))
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		blobs := open(t)
		for _, ref := range []string{"", "sha256-", "sha256-" + strings.Repeat("0", 64), "../etc/passwd", ">"} {
			_, err := blobs.Get(t.Context(), ref)
			assert.Equal(t, fault.NotFound, fault.CodeOf(err), "%q", ref)
		}
	})
}

func testPutAndGet(t *testing.T, blobs events.Blobs) {
	t.Helper()
	for _, data := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("0123456789"), 1<<20)} {
		ref, err := blobs.Put(t.Context(), data)
		require.NoError(t, err)
		assert.Regexp(t, "^sha256-[0-9a-f]{64}$", ref)
		again, err := blobs.Put(t.Context(), data)
		require.NoError(t, err)
		assert.Equal(t, ref, again, "the name comes from the content")
		got, err := blobs.Get(t.Context(), ref)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, got), "%d bytes come back", len(data))
	}
}

// TestCheckpoints runs the conformance tests for events.Checkpoints. open returns an empty store each time.
func TestCheckpoints(t *testing.T, open func(t *testing.T) events.Checkpoints) {
	t.Helper()
	t.Run("save and load", func(t *testing.T) {
		t.Parallel()
		testSaveAndLoad(t, open(t))
	})
	t.Run("bad names", func(t *testing.T) {
		t.Parallel()
		points, task := open(t), NewChain().Task
		for _, id := range []string{"", "a.b", "a b", "*", ">", strings.Repeat("x", 129)} {
			_, err := points.Save(t.Context(), task, id, []byte("{}"))
			assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), "%q", id)
		}
		_, err := points.Save(t.Context(), "TASK_*", "id", []byte("{}"))
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	})
}

func testSaveAndLoad(t *testing.T, points events.Checkpoints) {
	t.Helper()
	a, b := NewChain().Task, NewChain().Task
	where, err := points.Save(t.Context(), a, "CP_1", []byte(`{"x":1}`))
	require.NoError(t, err)
	assert.Equal(t, "KV/ORCH_CHECKPOINTS/"+string(a)+".CP_1", where)
	_, err = points.Save(t.Context(), b, "CP_1", []byte(`{"x":2}`))
	require.NoError(t, err)
	got, err := points.Load(t.Context(), a, "CP_1")
	require.NoError(t, err)
	assert.JSONEq(t, `{"x":1}`, string(got))
	_, err = points.Save(t.Context(), a, "CP_1", []byte(`{"x":3}`))
	require.NoError(t, err)
	got, err = points.Load(t.Context(), a, "CP_1")
	require.NoError(t, err)
	assert.Equal(t, `{"x":3}`, string(got), "the newest one counts, byte for byte")
	_, err = points.Load(t.Context(), a, "CP_2")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}
