package tree_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

func grow(tb testing.TB, text string) *tree.Node {
	tb.Helper()
	var data any
	require.NoError(tb, json.Unmarshal([]byte(text), &data))
	var nothing *tree.Node
	root, err := nothing.Set(nil, data, time.UnixMilli(0))
	require.NoError(tb, err)
	return root
}

func TestCompareKeys(t *testing.T) {
	t.Parallel()
	ordered := []string{
		"-2147483648", "-1", "0", "00", "1", "01", "2", "007", "10", "2147483647",
		"+1", "-", "-2147483649", "2147483648", "4294967296", "B", "_x", "a", "ab", "é", "\uffff", "😀",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got := tree.CompareKeys(a, b)
			assert.Equal(t, i < j, got < 0, "%q and %q", a, b)
			assert.Equal(t, i == j, got == 0, "%q and %q", a, b)
		}
	}
}

// The limits: the last valid value and the first invalid one.
func TestLimits(t *testing.T) {
	t.Parallel()
	nest := func(depth int) any {
		var data any = true
		for range depth {
			data = map[string]any{"a": data}
		}
		return data
	}
	many := make(map[string]any)
	for i := range 4 {
		many[string(rune('a'+i))] = strings.Repeat("s", tree.MaxWrite/4-1)
	}
	for name, test := range map[string]struct {
		data   any
		reason string // "" when the data is fine
	}{
		"depth":            {nest(tree.MaxDepth - 1), ""},
		"too deep":         {nest(tree.MaxDepth), refusal.InvalidPath},
		"path":             {map[string]any{strings.Repeat("k", tree.MaxPath-3): true}, ""},
		"too long a path":  {map[string]any{strings.Repeat("k", tree.MaxPath-2): true}, refusal.InvalidPath},
		"string":           {strings.Repeat("s", tree.MaxString), ""},
		"too long":         {strings.Repeat("s", tree.MaxString+1), refusal.SizeLimitExceeded},
		"write":            {many, ""},
		"too large":        {map[string]any{"m": many, "n": ""}, refusal.SizeLimitExceeded},
		"no JSON":          {struct{}{}, refusal.InvalidDataType},
		"integer of Go":    {map[string]any{"n": 1}, refusal.InvalidDataType},
		"increment to inf": {map[string]any{".sv": map[string]any{"increment": 1e308}}, refusal.InvalidDataType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := grow(t, `{"p":1.7e308}`)
			root, err := old.Set(tree.Path{"p"}, test.data, time.UnixMilli(0))
			if test.reason == "" {
				require.NoError(t, err)
				assert.Positive(t, root.Size())
				return
			}
			require.Error(t, err)
			assert.Equal(t, test.reason, fault.From(err).Reason)
			assert.True(t, old.Equal(grow(t, `{"p":1.7e308}`)))
		})
	}
}

// Data from a server may exceed the limits of a write, but must be valid.
func TestTold(t *testing.T) {
	t.Parallel()
	large := map[string]any{}
	for i := range 5 {
		large[string(rune('a'+i))] = strings.Repeat("s", tree.MaxWrite/4)
	}
	root, err := grow(t, `{"p":{"q":1}}`).Replace(tree.Path{"p", "r"}, large)
	require.NoError(t, err)
	assert.Greater(t, root.Size(), tree.MaxWrite)
	assert.InDelta(t, 1, root.At(tree.Path{"p", "q"}).Value(), 0)
	root, err = grow(t, `{"p":{"q":1,"r":2,"s":3}}`).ReplaceChildren(tree.Path{"p"}, map[string]any{"q": nil, "r": "x", "t/u": true})
	require.NoError(t, err)
	assert.True(t, root.Equal(grow(t, `{"p":{"r":"x","s":3,"t":{"u":true}}}`)))
	for _, data := range []any{map[string]any{"a.b": 1.0}, struct{}{}, map[string]any{".value": []any{}}} {
		_, err := root.Replace(nil, data)
		require.Error(t, err)
	}
	for _, data := range []map[string]any{{"a": 1.0, "a/b": 1.0}, {"a": struct{}{}}} {
		_, err := root.ReplaceChildren(nil, data)
		require.Error(t, err)
	}
}

func TestServerTime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	root, err := grow(t, `null`).Update(nil, map[string]any{"a/b": map[string]any{".sv": "timestamp"}}, at)
	require.NoError(t, err)
	assert.InDelta(t, 1_700_000_000_123, root.At(tree.Path{"a", "b"}).Value(), 0)
}

// A write does not change the old version, and shares unchanged nodes with it.
func TestVersionsAreImmutable(t *testing.T) {
	t.Parallel()
	const text = `{"a":{"x":1},"b":{"y":2}}`
	old := grow(t, text)
	digest := old.Version()
	root, err := old.Set(tree.Path{"a", "x"}, "new", time.UnixMilli(0))
	require.NoError(t, err)
	root = root.Delete(tree.Path{"a", "none"})
	assert.True(t, old.Equal(grow(t, text)))
	assert.Equal(t, digest, old.Version())
	assert.Same(t, old.At(tree.Path{"b"}), root.At(tree.Path{"b"}))
	assert.Equal(t, len("a")+len("x")+len("new")+len("b")+len("y")+8, root.Size())
	assert.Nil(t, root.Delete(tree.Path{"a", "x"}).Delete(tree.Path{"b", "y"}))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	contents := []string{
		`null`, `0`, `1`, `false`, `true`, `""`, `"0"`, `"null"`, `{"a":1}`, `{"a":"1"}`, `{"a":{"b":1}}`, `{"a":1,"b":1}`, `{"ab":1}`,
		`{".value":1,".priority":1}`, `{".value":1,".priority":"1"}`, `[1]`, `[1,2]`, `{"a":{"b":1},"c":1}`, `{"a":{"b":1,"c":1}}`,
	}
	for i, a := range contents {
		for j, b := range contents {
			same := grow(t, a).Version() == grow(t, b).Version()
			assert.Equal(t, i == j, same, "%s and %s", a, b)
			assert.Equal(t, same, grow(t, a).Equal(grow(t, b)), "%s and %s", a, b)
		}
	}
	assert.Equal(t, grow(t, `[1,2]`).Version(), grow(t, `{"1":2,"0":1}`).Version())
	assert.Equal(t, grow(t, `-0`).Version(), grow(t, `0`).Version())
}

func TestPushKeys(t *testing.T) {
	t.Parallel()
	var made tree.Keys
	clock := time.UnixMilli(1_795_312_858_967)
	full := [12]byte{}
	for i := range full {
		full[i] = 255
	}
	all := []string{
		made.Next(clock, [12]byte{9, 8, 7}),
		made.Next(clock, [12]byte{}), // the same millisecond
		made.Next(clock.Add(-time.Hour), [12]byte{}),
		made.Next(clock.Add(time.Millisecond), full),
		made.Next(clock.Add(time.Millisecond), full), // the random part overflows
		made.Next(clock.Add(2*time.Millisecond), [12]byte{}),
		made.Next(clock.Add(time.Hour), [12]byte{}),
	}
	assert.True(t, slices.IsSorted(all), "%v", all)
	assert.Len(t, slices.Compact(slices.Clone(all)), len(all))
	for _, key := range all {
		assert.Len(t, key, tree.KeyLength)
		assert.Regexp(t, `^[-0-9A-Z_a-z]+$`, key)
	}
	assert.Equal(t, "-P7-z2SM", all[0][:8], "the time as Google's engine wrote it")
}

func TestPathRelations(t *testing.T) {
	t.Parallel()
	root, a, ab := tree.Path{}, tree.Path{"a"}, tree.Path{"a", "b"}
	assert.True(t, root.Contains(ab))
	assert.True(t, a.Contains(ab))
	assert.True(t, ab.Contains(ab))
	assert.False(t, ab.Contains(a))
	assert.False(t, tree.Path{"b"}.Contains(ab))
	grown := a.Child("b")
	assert.Equal(t, ab, grown)
	assert.Equal(t, "a/b", grown.String())
}

// A parsed path is formatted unchanged, and each of its keys can be written.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"", "a", "a/b", "/", "a//b", "..", "a.b", "é/😀", "a\x00", "\xff", strings.Repeat("a/", 33), "-0/007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := tree.ParsePath(text)
		if err != nil {
			require.Equal(t, refusal.InvalidPath, fault.From(err).Reason)
			return
		}
		require.Equal(t, text, path.String())
		require.LessOrEqual(t, len(path), tree.MaxDepth)
		var nothing *tree.Node
		root, err := nothing.Set(path, "x", time.UnixMilli(0))
		require.NoError(t, err)
		require.Equal(t, "x", root.At(path).Value())
		require.Nil(t, root.Delete(path))
	})
}
