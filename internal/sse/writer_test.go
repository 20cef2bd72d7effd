package sse_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/sse"
)

// What a Writer writes, a Reader reads, without the comments. Events are sent when they are flushed.
func TestWriter(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	w := sse.Start(answer)
	assert.Equal(t, sse.MediaType, answer.Header().Get("Content-Type"))
	require.NoError(t, w.Write([]byte("event: tick\ndata: "), []byte("one"), []byte("\n\n")))
	assert.False(t, answer.Flushed)
	require.NoError(t, w.Comment())
	assert.True(t, answer.Flushed)
	require.NoError(t, w.Write([]byte("data: two\n\n")))
	require.NoError(t, w.Flush())

	r := sse.NewReader(strings.NewReader(answer.Body.String()), 100)
	for _, want := range []string{"tick one", " two"} {
		e, err := r.Next()
		require.NoError(t, err)
		assert.Equal(t, want, e.Name+" "+string(e.Data))
	}
	assert.Contains(t, answer.Body.String(), ": open\n\n")
}
