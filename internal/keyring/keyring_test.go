package keyring_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/keyring"
)

// memory is a store in memory.
type memory map[string][]byte

func (m memory) HookSecrets(context.Context) (map[string][]byte, error) { return maps.Clone(m), nil }

func (m memory) SetHookSecret(_ context.Context, id string, data []byte) error {
	m[id] = data
	if data == nil {
		delete(m, id)
	}
	return nil
}

func TestRotation(t *testing.T) {
	t.Parallel()
	store, now := memory{"broken": []byte("{")}, time.Unix(1000, 0)
	ring := keyring.New(store)
	require.NoError(t, ring.Load(t.Context()))
	assert.Nil(t, ring.Get("broken"), "what cannot be read is missing")
	rotate := func(secret string, keep *time.Duration) bool {
		t.Helper()
		changed, err := ring.Rotate(t.Context(), "a", secret, keep, now)
		require.NoError(t, err)
		return changed
	}
	assert.Equal(t, [2]string{}, ring.Get("a").Valid(now))
	assert.True(t, rotate("one", nil))
	assert.Equal(t, [2]string{"one"}, ring.Get("a").Valid(now), "there was none before")
	assert.True(t, rotate("two", nil))
	assert.False(t, rotate("two", nil), "a repetition changes nothing")
	assert.False(t, rotate("two", new(25*time.Hour)), "nor is the time of the secret before longer")
	again := keyring.New(store)
	require.NoError(t, again.Load(t.Context()))
	for _, r := range []*keyring.Ring{ring, again} {
		assert.Equal(t, [2]string{"two", "one"}, r.Get("a").Valid(now.Add(24*time.Hour-1)))
		assert.Equal(t, [2]string{"two"}, r.Get("a").Valid(now.Add(24*time.Hour)))
		assert.Nil(t, r.Get("a").PreviousUntil(now.Add(24*time.Hour)))
	}
	assert.True(t, rotate("two", new(time.Hour)), "but shorter, if somebody wants it")
	assert.Equal(t, [2]string{"two", "one"}, ring.Get("a").Valid(now.Add(time.Hour-1)))
	assert.Equal(t, [2]string{"two"}, ring.Get("a").Valid(now.Add(time.Hour)))
	assert.True(t, rotate("two", new(time.Duration(0))), "or over")
	assert.Equal(t, [2]string{"two"}, ring.Get("a").Valid(now))
	assert.False(t, rotate("two", new(time.Duration(0))))
	assert.True(t, rotate("three", new(time.Duration(0))))
	assert.Equal(t, [2]string{"three"}, ring.Get("a").Valid(now))
	for _, keep := range []time.Duration{-1, 30*24*time.Hour + 1} {
		_, err := ring.Rotate(t.Context(), "a", "four", &keep, now)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	}
	require.NoError(t, ring.Set(t.Context(), "a", nil))
	assert.Nil(t, ring.Get("a"))
	assert.NotContains(t, store, "a")
}
