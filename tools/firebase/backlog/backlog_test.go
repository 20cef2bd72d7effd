package backlog_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func numbered(i int) func() firebase.Event {
	return func() firebase.Event { return firebase.Event{Data: i} }
}

// drain returns the data of all events, and the error that ended them.
func drain(ctx context.Context, t *testing.T, q *backlog.Queue) (data []any, err error) {
	t.Helper()
	stopped := 0
	for event, failure := range q.Events(ctx, func() { stopped++ }) {
		if failure != nil {
			err = failure
			continue
		}
		data = append(data, event.Data)
	}
	assert.Equal(t, 1, stopped)
	return data, err
}

func TestQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sizes []int
		end   error
		want  []any
		lost  bool
	}{
		"all":                   {[]int{1, 1, 1}, nil, []any{0, 1, 2}, false},
		"then an error":         {[]int{1}, io.ErrUnexpectedEOF, []any{0}, false},
		"more than the limit":   {[]int{1, 1, 1, 1, 1}, nil, []any{0, 1, 2}, true},
		"one of any size":       {[]int{backlog.MaxHeld * 2}, nil, []any{0}, false},
		"too many bytes":        {[]int{backlog.MaxHeld, 1}, nil, []any{0}, true},
		"nothing after the end": {[]int{backlog.MaxHeld, 1, 1}, io.EOF, []any{0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := backlog.New(3, 0)
			for i, size := range test.sizes {
				assert.Equal(t, i < len(test.want), q.Add(numbered(i), size))
			}
			q.End(test.end)
			q.End(io.ErrClosedPipe)
			data, err := drain(t.Context(), t, q)
			assert.Equal(t, test.want, data)
			if test.lost {
				require.Error(t, err)
				assert.Equal(t, refusal.QuotaExceeded, fault.From(err).Reason)
				return
			}
			assert.Equal(t, test.end, err)
		})
	}
}

// A reader waits for later events, and ends with its context.
func TestQueueWakesItsReader(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	q := backlog.New(0, 0)
	got := make(chan any)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event, err := range q.Events(ctx, func() {}) {
			assert.NoError(t, err)
			got <- event.Data
		}
	}()
	for i := range 3 {
		assert.True(t, q.Add(numbered(i), 1))
		assert.Equal(t, any(i), <-got)
	}
	cancel()
	<-ended
}

// An event is built when it is its turn, which lasts until the next event is requested. An error of the turn ends the
// events.
func TestTurns(t *testing.T) {
	t.Parallel()
	q := backlog.New(0, 0)
	var made, turns []int
	for size := range 3 {
		require.True(t, q.Add(func() firebase.Event { made = append(made, size); return firebase.Event{} }, size))
	}
	open := 0
	ctx := firebase.WithTurns(t.Context(), func(_ context.Context, size int) (func(), error) {
		assert.Len(t, made, size, "not before its turn")
		assert.Zero(t, open, "the one before has ended")
		if turns = append(turns, size); size == 2 {
			return nil, io.ErrNoProgress
		}
		open++
		return func() { open-- }, nil
	})
	_, err := drain(ctx, t, q)
	require.ErrorIs(t, err, io.ErrNoProgress)
	assert.Equal(t, []int{0, 1}, made)
	assert.Equal(t, []int{0, 1, 2}, turns)
	assert.Zero(t, open)
}
