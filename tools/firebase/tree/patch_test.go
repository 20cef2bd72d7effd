package tree_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase/tree"
)

// randomTree returns JSON for a write, with priorities and null values.
func randomTree(r *rand.Rand, depth int) any {
	switch n := r.IntN(10); {
	case n < 2 && depth > 0:
		return nil
	case n < 4 || depth == 4:
		return float64(r.IntN(3))
	case n < 5:
		return map[string]any{".value": "text", ".priority": float64(r.IntN(2))}
	default:
		object := map[string]any{}
		for range r.IntN(4) {
			object[string(rune('0'+r.IntN(6)))] = randomTree(r, depth+1)
		}
		if r.IntN(3) == 0 {
			object[".priority"] = "p"
		}
		return object
	}
}

// Applying a patch turns one tree into another, and exported data is the same after Import.
func TestPatchAndExport(t *testing.T) {
	t.Parallel()
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	var root *tree.Node
	for range 3000 {
		path := tree.Path{}
		for range r.IntN(3) {
			path = append(path, string(rune('0'+r.IntN(6))))
		}
		next, err := root.Set(path, randomTree(r, 0), time.Now())
		require.NoError(t, err)
		puts := tree.Patch(root, next)
		assert.Equal(t, root.Equal(next), len(puts) == 0)
		patched := root
		for _, p := range puts {
			patched = patched.Assign(through(t, p))
		}
		require.True(t, next.Equal(patched), "%v", puts)
		require.Equal(t, next.Version(), patched.Version())
		root = next
	}
}

// through encodes and decodes the node of an assignment as JSON.
func through(t *testing.T, p tree.Assignment) tree.Assignment {
	t.Helper()
	text, err := json.Marshal(p.Node.Export())
	require.NoError(t, err)
	var data any
	require.NoError(t, json.Unmarshal(text, &data))
	node, err := tree.Import(data)
	require.NoError(t, err)
	return tree.Assignment{Path: slices.Clone(p.Path), Node: node}
}

// A patch contains only differences.
func TestPatchIsSmall(t *testing.T) {
	t.Parallel()
	before, err := (*tree.Node)(nil).Set(nil, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}, "b": 3.0, "c": 4.0}, time.Now())
	require.NoError(t, err)
	after, err := before.Update(nil, map[string]any{"a/x": 5.0, "b": nil, "c": 4.0}, time.Now())
	require.NoError(t, err)
	var got []string
	for _, p := range tree.Patch(before, after) {
		text, err := json.Marshal(p.Node.Export())
		require.NoError(t, err)
		got = append(got, p.Path.String()+"="+string(text))
	}
	assert.Equal(t, []string{"a/x=5", "b=null"}, got)
}
