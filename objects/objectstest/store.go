// Package objectstest tests stores of objects.
package objectstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
)

// Put stores data under a key.
func Put(ctx context.Context, s objects.Store, key string, data []byte) error {
	sum := sha256.Sum256(data)
	return s.Put(ctx, key, bytes.NewReader(data), int64(len(data)), sum[:])
}

// Get returns a part of an object.
func Get(ctx context.Context, s objects.Store, key string, offset, length int64) ([]byte, error) {
	r, err := s.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err == nil {
		err = r.Close()
	}
	return data, err
}

// List returns the keys below a prefix.
func List(ctx context.Context, s objects.Store, prefix string) (keys []string, err error) {
	for o, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, o.Key)
	}
	return keys, nil
}

// Test tests that an empty store does what objects.Store promises.
func Test(t *testing.T, s objects.Store) {
	t.Helper()
	ctx := t.Context()
	keys, err := List(ctx, s, "")
	require.NoError(t, err)
	require.Empty(t, keys)
	_, err = Get(ctx, s, "2026/11/a.json", 0, -1)
	require.Equal(t, fault.NotFound, fault.CodeOf(err))
	for _, key := range []string{"b", "2026/12/01/a", "2026/11/29/a.json", "2026/11/29/a.orch"} {
		require.NoError(t, Put(ctx, s, key, []byte("content of "+key)), key)
	}
	require.NoError(t, Put(ctx, s, "b", []byte("0123456789")), "an object is replaced")
	require.NoError(t, Put(ctx, s, "empty", nil))
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {0, 3, "012"}, {4, 2, "45"}, {7, -1, "789"}, {7, 0, ""}} {
		got, err := Get(ctx, s, "b", c.offset, c.length)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(got))
	}
	for prefix, want := range map[string][]string{
		"":         {"2026/11/29/a.json", "2026/11/29/a.orch", "2026/12/01/a", "b", "empty"},
		"2026/":    {"2026/11/29/a.json", "2026/11/29/a.orch", "2026/12/01/a"},
		"2026/12/": {"2026/12/01/a"},
		"2027/":    nil,
	} {
		keys, err := List(ctx, s, prefix)
		require.NoError(t, err)
		assert.Equal(t, want, keys, prefix)
	}
	for _, key := range []string{"", "/a", "../a", "a/../b", "a//b", "a/", ".a", "a b", "a\x00", "ä", `a\b`} {
		require.Equal(t, fault.InvalidFormat, fault.CodeOf(Put(ctx, s, key, nil)), key)
		_, err := s.Get(ctx, key, 0, -1)
		require.Equal(t, fault.InvalidFormat, fault.CodeOf(err), key)
	}
}
