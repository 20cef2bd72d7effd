package document_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// S3-022.
func TestParity(t *testing.T) {
	t.Parallel()
	for text, isDocument := range map[string]bool{"a": false, "a/b": true, "a/b/c": false, "a/b/c/d": true} {
		path, err := document.ParsePath(text)
		require.NoError(t, err)
		assert.Equal(t, isDocument, path.IsDocument(), text)
		assert.Equal(t, text, path.Parent().Child(path.ID()).String())
	}
}

func TestPathLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path string
		fine bool
	}{
		"id":               {strings.Repeat("i", document.MaxID), true},
		"too long an id":   {strings.Repeat("i", document.MaxID+1), false},
		"segments":         {strings.Repeat("a/", document.MaxSegments-1) + "a", true},
		"too many":         {strings.Repeat("a/", document.MaxSegments) + "a", false},
		"path":             {strings.Repeat(strings.Repeat("i", 1023)+"/", 5) + strings.Repeat("i", 1024), true},
		"too long a path":  {strings.Repeat(strings.Repeat("i", 1023)+"/", 5) + strings.Repeat("i", 1025), false},
		"reserved":         {"a/__x__", false},
		"shortest":         {"a/____", false},
		"almost reserved":  {"a/___", true},
		"begins like one":  {"a/__x", true},
		"dots inside":      {"a/x..y", true},
		"one dot":          {"a/.", false},
		"nothing":          {"", false},
		"no UTF-8":         {"a/\xff", false},
		"other characters": {"a/é # $", true},
	} {
		_, err := document.ParsePath(test.path)
		if test.fine {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		assert.Equal(t, refusal.InvalidPath, fault.From(err).Reason, name)
	}
}

// The limits of a document: the last valid value and the first invalid one.
func TestLimits(t *testing.T) {
	t.Parallel()
	nest := func(depth int) map[string]any {
		var data any = true
		for range depth {
			data = map[string]any{"a": data}
		}
		return data.(map[string]any)
	}
	for name, test := range map[string]struct {
		data   any
		reason string // "" when the data is fine
	}{
		"depth":           {nest(document.MaxDepth + 1), ""},
		"too deep":        {nest(document.MaxDepth + 2), refusal.SizeLimitExceeded},
		"string":          {map[string]any{"s": strings.Repeat("s", document.MaxString)}, ""},
		"too long":        {map[string]any{"s": strings.Repeat("s", document.MaxString+1)}, refusal.SizeLimitExceeded},
		"name":            {map[string]any{strings.Repeat("n", document.MaxID): 1.0}, ""},
		"too long a name": {map[string]any{strings.Repeat("n", document.MaxID+1): 1.0}, refusal.ValidationError},
		"name, no UTF-8":  {map[string]any{"\xff": 1.0}, refusal.ValidationError},
		"deep array":      {map[string]any{"l": []any{nest(document.MaxDepth - 1)}}, ""},
		"too deep array":  {map[string]any{"l": []any{nest(document.MaxDepth)}}, refusal.SizeLimitExceeded},
		"integer of Go":   {map[string]any{"n": 1}, refusal.InvalidDataType},
		"no JSON":         {struct{}{}, refusal.InvalidDataType},
	} {
		_, err := document.New(test.data)
		if test.reason == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Error(t, err, name)
		assert.Equal(t, test.reason, fault.From(err).Reason, name)
	}
}

// The example in Firestore's documentation of sizes: 147 bytes.
func TestSize(t *testing.T) {
	t.Parallel()
	path, err := document.ParsePath("users/jeff/tasks/my_task_id")
	require.NoError(t, err)
	fields, err := document.New(map[string]any{
		"type": "Personal", "done": false, "priority": 1.0, "description": "Learn Cloud Firestore",
	})
	require.NoError(t, err)
	assert.Equal(t, 147, fields.Size(path))
	full, err := document.New(map[string]any{
		"a": strings.Repeat("s", 1000), "b": strings.Repeat("s", document.MaxSize-1000-48-len("users/jeff/tasks/my_task_id/")-6),
	})
	require.NoError(t, err)
	require.Equal(t, document.MaxSize, full.Size(path))
	require.NoError(t, full.CheckSize(path))
	require.Error(t, full.CheckSize(path.Parent().Child("my_task_id_")))
}

func TestCompare(t *testing.T) {
	t.Parallel()
	ordered := []any{
		nil, false, true, -1e300, -1.0, 0.0, 0.5, 2.0, 10.0, "", "10", "B", "a", "é", "\uffff", "😀",
		[]any{},
		[]any{1.0},
		[]any{1.0, nil},
		[]any{2.0},
		[]any{"a"},
		map[string]any{},
		map[string]any{"a": 1.0},
		map[string]any{"a": 1.0, "b": nil},
		map[string]any{"a": 2.0},
		map[string]any{"b": nil},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got := document.Compare(a, b)
			assert.Equal(t, i < j, got < 0, "%v and %v", a, b)
			assert.Equal(t, i == j, got == 0, "%v and %v", a, b)
		}
	}
}

// The result of a write shares no mutable data with its argument, and the old content is not changed.
func TestWritesLeaveTheOldAlone(t *testing.T) {
	t.Parallel()
	old, err := document.New(map[string]any{"o": map[string]any{"x": 1.0}})
	require.NoError(t, err)
	data := map[string]any{"o": map[string]any{"y": map[string]any{"z": 2.0}}}
	merged, err := old.Merge(data)
	require.NoError(t, err)
	updated, err := old.Update(map[string]any{"o.w": 3.0})
	require.NoError(t, err)
	data["o"].(map[string]any)["y"].(map[string]any)["z"] = "spoiled"
	merged.Value()["o"].(map[string]any)["x"] = "spoiled"
	assert.Equal(t, map[string]any{"o": map[string]any{"x": 1.0}}, old.Value())
	assert.Equal(t, map[string]any{"o": map[string]any{"x": 1.0, "y": map[string]any{"z": 2.0}}}, merged.Value())
	assert.Equal(t, map[string]any{"o": map[string]any{"x": 1.0, "w": 3.0}}, updated.Value())
	assert.False(t, merged.Equal(updated))
}

// A parsed path is formatted unchanged.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"", "a", "a/b", "/", "a//b", "..", "a/__b__", "é/😀", "\xff", "a/b/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := document.ParsePath(text)
		if err != nil {
			require.Equal(t, refusal.InvalidPath, fault.From(err).Reason)
			return
		}
		require.Equal(t, text, path.String())
		require.Equal(t, strings.Count(text, "/")%2 == 1, path.IsDocument())
		require.NotContains(t, path, "")
	})
}

// Every field in an update is either rejected or found in the document.
func FuzzUpdate(f *testing.F) {
	for _, seed := range []string{"a", "a.b", "a..b", "", ".", "__a__", "a/b", "\xff", strings.Repeat("a.", 20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fields, err := document.Fields(nil).Update(map[string]any{name: true})
		if err != nil {
			require.NotEmpty(t, fault.From(err).Reason)
			return
		}
		var value any = fields.Value()
		for part := range strings.SplitSeq(name, ".") {
			value = value.(map[string]any)[part]
		}
		require.Equal(t, true, value)
	})
}
