package firebase_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// increment increments the value at a path, after a competing write in each of the first rivals attempts.
func increment(t *testing.T, b firebase.Backend, rivals int) func(firebase.Snapshot) (firebase.Write, error) {
	t.Helper()
	return func(s firebase.Snapshot) (firebase.Write, error) {
		if rivals > 0 {
			rivals--
			_, err := b.Write(t.Context(), "n", firebase.Write{Operation: firebase.Set, Data: map[string]any{
				".sv": map[string]any{"increment": 10.0},
			}})
			require.NoError(t, err)
		}
		n, _ := s.Data.(float64)
		return firebase.Write{Operation: firebase.Set, Data: n + 1}, nil
	}
}

func TestTransact(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rivals int
		want   float64
		reason string // "" when it succeeds
	}{
		"alone":            {0, 1, ""},
		"after a rival":    {1, 11, ""},
		"at the last turn": {firebase.MaxAttempts - 1, 10*(firebase.MaxAttempts-1) + 1, ""},
		"never":            {firebase.MaxAttempts, 10 * firebase.MaxAttempts, refusal.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := memory.NewRealtime(memory.Config{})
			_, err := firebase.Transact(t.Context(), b, "n", increment(t, b, test.rivals))
			if test.reason == "" {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
				assert.Equal(t, test.reason, fault.From(err).Reason)
			}
			s, err := b.Read(t.Context(), "n", firebase.Query{})
			require.NoError(t, err)
			assert.InDelta(t, test.want, s.Data, 0)
		})
	}
}

func TestTransactEndsWithTheErrorOfItsPart(t *testing.T) {
	t.Parallel()
	b := memory.NewRealtime(memory.Config{})
	_, err := firebase.Transact(t.Context(), b, "n", func(firebase.Snapshot) (firebase.Write, error) {
		return firebase.Write{}, io.EOF
	})
	require.ErrorIs(t, err, io.EOF)
	_, err = firebase.Transact(t.Context(), b, "bad//path", increment(t, b, 0))
	assert.Equal(t, refusal.InvalidPath, fault.From(err).Reason)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = firebase.Transact(ended, b, "n", increment(t, b, 0))
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
}
