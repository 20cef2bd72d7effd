package firebasetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func (k Kit) realtimeWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []step
		want  string // at "w"
	}{
		"nothing":              {nil, `null`},
		"set a scalar":         {[]step{set("w", `"text"`)}, `"text"`},
		"set false":            {[]step{set("w", `false`)}, `false`},
		"set replaces":         {[]step{set("w", `{"a":1,"b":2}`), set("w", `{"c":3}`)}, `{"c":3}`},
		"set below":            {[]step{set("w/a/b", `1`)}, `{"a":{"b":1}}`},
		"null deletes":         {[]step{set("w", `{"a":1,"b":2}`), set("w/a", `null`)}, `{"b":2}`},
		"nulls are not stored": {[]step{set("w", `{"a":null,"b":{"c":null},"d":1}`)}, `{"d":1}`},
		"empty objects and arrays are not stored":    {[]step{set("w", `{"a":{},"b":[]}`)}, `null`},
		"removing the last child removes its parent": {[]step{set("w", `{"a":{"b":{"c":1}},"d":1}`), remove("w/a/b/c")}, `{"d":1}`},
		"a child replaces a scalar":                  {[]step{set("w", `"scalar"`), set("w/child", `1`)}, `{"child":1}`},
		"nothing below a scalar":                     {[]step{set("w", `"scalar"`), remove("w/child")}, `"scalar"`},
		"a scalar replaces children":                 {[]step{set("w", `{"a":1}`), set("w", `7`)}, `7`},
		"delete what is not there":                   {[]step{remove("w/a")}, `null`},
		"delete":                                     {[]step{set("w", `{"a":1}`), remove("w")}, `null`},
		"numbers are floats":                         {[]step{set("w", `12345678901234567890`)}, `12345678901234567000`},
		"array":                                      {[]step{set("w", `["a",null,"c"]`)}, `["a",null,"c"]`},
		"an element of an array":                     {[]step{set("w", `["a","b"]`), set("w/1", `"x"`)}, `["a","x"]`},
		"object becomes an array":                    {[]step{set("w", `{"1":"a","2":"b","5":"c"}`)}, `[null,"a","b",null,null,"c"]`},
		"sparse object stays":                        {[]step{set("w", `{"0":"a","9":"b"}`)}, `{"0":"a","9":"b"}`},
		"numbers with zeros are names":               {[]step{set("w", `{"00":"a","1":"b"}`)}, `{"00":"a","1":"b"}`},
		"array gets a name":                          {[]step{set("w", `["a","b"]`), set("w/x", `1`)}, `{"0":"a","1":"b","x":1}`},

		"update merges":                  {[]step{set("w", `{"a":1,"b":2}`), update("w", `{"b":3,"c":4}`)}, `{"a":1,"b":3,"c":4}`},
		"update is shallow":              {[]step{set("w", `{"a":{"x":1,"y":2}}`), update("w", `{"a":{"x":3}}`)}, `{"a":{"x":3}}`},
		"update deletes":                 {[]step{set("w", `{"a":1,"b":2}`), update("w", `{"a":null}`)}, `{"b":2}`},
		"update of several paths":        {[]step{set("w", `{"a":{"x":1,"y":2}}`), update("w", `{"a/x":3,"c/d":{"e":2},"/z":1}`)}, `{"a":{"x":3,"y":2},"c":{"d":{"e":2}},"z":1}`},
		"update makes what is not there": {[]step{update("w", `{"a":1}`)}, `{"a":1}`},
		"update under a scalar":          {[]step{set("w", `1`), update("w", `{"a":1}`)}, `{"a":1}`},
		"empty update":                   {[]step{set("w", `1`), update("w", `{}`)}, `1`},

		"increment":              {[]step{set("w", `5`), set("w", `{".sv":{"increment":3}}`)}, `8`},
		"increment of nothing":   {[]step{update("w", `{"a":{".sv":{"increment":-1.5}}}`)}, `{"a":-1.5}`},
		"increment of a text":    {[]step{set("w", `"5"`), set("w", `{".sv":{"increment":3}}`)}, `3`},
		"increment in an update": {[]step{set("w", `{"a":{"n":1}}`), update("w", `{"a/n":{".sv":{"increment":1}}}`)}, `{"a":{"n":2}}`},
		"value with priority":    {[]step{set("w", `{".value":5,".priority":2}`)}, `5`},
		"priority of children":   {[]step{set("w", `{"a":1,".priority":"p"}`)}, `{"a":1}`},
		"priority of nothing":    {[]step{set("w", `{".value":null,".priority":"p"}`)}, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, test.steps...)
			requireData(t, b, "w", test.want)
		})
	}
	t.Run("timestamp", k.realtimeTimestamp)
}

func (k Kit) realtimeTimestamp(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	from := time.Now().Add(-time.Minute).UnixMilli()
	apply(t, b, set("w/at", `{".sv":"timestamp"}`))
	at, ok := read(t, b, "w/at").Data.(float64)
	require.True(t, ok)
	assert.Greater(t, int64(at), from)
	assert.Less(t, int64(at), time.Now().Add(time.Minute).UnixMilli())
}

func (k Kit) realtimeRefusals(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32)
	for name, test := range map[string]struct {
		step   step
		reason string
	}{
		"empty key":                     {set("w", `{"":1}`), refusal.InvalidPath},
		"key with a dot":                {set("w", `{"ok":"fine","x":{"a.b":1}}`), refusal.InvalidPath},
		"key with a slash":              {set("w", `{"a/b":1}`), refusal.InvalidPath},
		"key with a dollar":             {set("w", `{"$a":1}`), refusal.InvalidPath},
		"key with a control":            {set("w", `{"a\u0001":1}`), refusal.InvalidPath},
		"invalid key with a null value": {set("w", `{"a#":null}`), refusal.InvalidPath},
		"too deep":                      {set("w", deep), refusal.InvalidPath},
		"too long a path":               {set("w", `{"`+strings.Repeat("k", 767)+`":1}`), refusal.InvalidPath},
		"too long a string":             {set("w", `"`+strings.Repeat("s", 10<<20+1)+`"`), refusal.SizeLimitExceeded},
		"update with a scalar":          {update("w", `5`), refusal.InvalidDataType},
		"update with an array":          {update("w", `[1]`), refusal.InvalidDataType},
		"update with null":              {update("w", `null`), refusal.InvalidDataType},
		"path in another":               {update("w", `{"a/b":1,"a":2}`), refusal.ValidationError},
		"path twice":                    {update("w", `{"/a":1,"a":2}`), refusal.ValidationError},
		"bad path of an update":         {update("w", `{"a//b":1}`), refusal.InvalidPath},
		"unknown server value":          {set("w", `{".sv":"now"}`), refusal.InvalidDataType},
		"increment by a text":           {set("w", `{".sv":{"increment":"1"}}`), refusal.InvalidDataType},
		"value with children":           {set("w", `{".value":1,"a":2}`), refusal.InvalidDataType},
		"value that is no value":        {set("w", `{".value":{"a":2}}`), refusal.InvalidDataType},
		"priority of a flag":            {set("w", `{".value":1,".priority":true}`), refusal.InvalidDataType},
		"unknown operation":             {step{"append", "w", `1`}, refusal.ValidationError},
		"merge":                         {step{merge, "w", `{"a":1}`}, refusal.ValidationError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, set("w", `{"old":1}`))
			_, err := b.Write(t.Context(), test.step.path, test.step.write(t))
			requireReason(t, err, test.reason)
			requireData(t, b, "w", `{"old":1}`)
		})
	}
}

// S3-031: push generates keys of 20 characters that sort in the order of the calls.
func (k Kit) realtimePush(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	var keysInOrder []string
	for range 50 {
		written, err := b.Write(t.Context(), "list", firebase.Write{Operation: firebase.Push, Data: counter(1)})
		require.NoError(t, err)
		assert.Len(t, written.Key, 20)
		assert.False(t, written.At.IsZero())
		keysInOrder = append(keysInOrder, written.Key)
	}
	assert.True(t, slices.IsSorted(keysInOrder), "%v", keysInOrder)
	s, err := b.Read(t.Context(), "list", firebase.Query{OrderBy: "$key"})
	require.NoError(t, err)
	assert.Equal(t, keysInOrder, keys(s.Children))
}

// ranked has children whose sort keys, at v, have all types.
const ranked = `{"n1":{"v":null,"k":1},"b1":{"v":true},"b0":{"v":false},"i2":{"v":2},"i1":{"v":-1.5},
	"s2":{"v":"b"},"s1":{"v":"a"},"s10":{"v":"B"},"o1":{"v":{"q":1}},"o0":{"v":{"z":0}}}`

func (k Kit) realtimeQueries(t *testing.T) {
	t.Parallel()
	const named = `{"10":"a","2":"b","-1":"c","007":"d","4294967296":"e","2147483647":"f","a":"g","B":"h","_x":"i"}`
	const prioritised = `{"a":{".value":1,".priority":"x"},"b":{".value":2,".priority":5},"c":3,"d":{".value":4,".priority":5}}`
	for name, test := range map[string]struct {
		data  string
		query firebase.Query
		want  string // keys in their order
	}{
		"order of types":          {ranked, firebase.Query{OrderBy: "v"}, "n1 b0 b1 i1 i2 s10 s1 s2 o0 o1"},
		"from false":              {ranked, firebase.Query{OrderBy: "v", StartAt: false}, "b0 b1 i1 i2 s10 s1 s2 o0 o1"},
		"from one type on":        {ranked, firebase.Query{OrderBy: "v", StartAt: 1.0, EndAt: "a"}, "i2 s10 s1"},
		"up to":                   {ranked, firebase.Query{OrderBy: "v", EndAt: -1.5}, "n1 b0 b1 i1"},
		"exactly":                 {ranked, firebase.Query{OrderBy: "v", StartAt: 2.0, EndAt: 2.0}, "i2"},
		"limit":                   {ranked, firebase.Query{OrderBy: "v", Limit: 2}, "n1 b0"},
		"range, then limit":       {ranked, firebase.Query{OrderBy: "v", StartAt: 0.0, Limit: 2}, "i2 s10"},
		"nothing in the range":    {ranked, firebase.Query{OrderBy: "v", StartAt: 3.0, EndAt: 2.0}, ""},
		"child that nobody has":   {`{"b":1,"a":{"x":2}}`, firebase.Query{OrderBy: "v"}, "a b"},
		"child of a child":        {`{"a":{"s":{"w":2}},"b":{"s":{"w":1}}}`, firebase.Query{OrderBy: "s/w"}, "b a"},
		"keys":                    {named, firebase.Query{OrderBy: "$key"}, "-1 2 007 10 2147483647 4294967296 B _x a"},
		"keys from a number":      {named, firebase.Query{OrderBy: "$key", StartAt: "3", EndAt: "B"}, "007 10 2147483647 4294967296 B"},
		"values":                  {`{"1":1,"2":2,"3":3,"zz":5}`, firebase.Query{OrderBy: "$value", StartAt: 2.0}, "2 3 zz"},
		"values of a kind":        {`{"a":"x","b":{"c":1},"c":true,"d":0}`, firebase.Query{OrderBy: "$value"}, "c d a b"},
		"priorities":              {prioritised, firebase.Query{OrderBy: "$priority"}, "c b d a"},
		"priorities in a range":   {prioritised, firebase.Query{OrderBy: "$priority", StartAt: 5.0, EndAt: 9.0}, "b d"},
		"a scalar has no child":   {`"text"`, firebase.Query{OrderBy: "$key"}, ""},
		"array elements by value": {`["c","b","a"]`, firebase.Query{OrderBy: "$value", Limit: 2}, "2 1"},
		"nothing has no child":    {`null`, firebase.Query{OrderBy: "$key"}, ""},
		"more than there is":      {`{"a":1}`, firebase.Query{OrderBy: "$key", Limit: 1000}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, set("w", test.data))
			s, err := b.Read(t.Context(), "w", test.query)
			require.NoError(t, err)
			assert.Equal(t, strings.Fields(test.want), append([]string{}, keys(s.Children)...))
			assert.Equal(t, test.data != "null", s.Exists)
			assert.Empty(t, s.Version)
			for _, c := range s.Children {
				assert.Equal(t, read(t, b, "w/"+c.Key).Data, c.Data)
			}
		})
	}
}

// At a scalar, a query that only sorts returns the scalar; any other query returns nil.
func (k Kit) realtimeQueryOfScalar(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b, set("w", `"text"`))
	for query, want := range map[firebase.Query]any{
		{OrderBy: "v"}: "text", {OrderBy: "v", Limit: 1}: nil, {OrderBy: "v", EndAt: "x"}: nil,
	} {
		s, err := b.Read(t.Context(), "w", query)
		require.NoError(t, err)
		assert.Equal(t, want, s.Data)
		assert.True(t, s.Exists)
	}
}

func (k Kit) realtimeQueryRefusals(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b, set("w", ranked))
	for _, q := range []firebase.Query{
		{Limit: 1},
		{StartAt: "a"},
		{EndAt: 1.0},
		{OrderBy: "v", Limit: -1},
		{OrderBy: "$key", StartAt: 1.0},
		{OrderBy: "$key", EndAt: true},
		{OrderBy: "$size"},
		{OrderBy: "a//b"},
		{OrderBy: "v", StartAt: []any{}},
		{OrderBy: "v", Shallow: true},
	} {
		_, err := b.Read(t.Context(), "w", q)
		requireReason(t, err, refusal.ValidationError)
	}
}

// Shallow reads return the names of the children (S3-024).
func (k Kit) realtimeShallow(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b, set("w", `{"a":{"deep":1},"b":2}`), set("list", `["x","y"]`), set("s", `"text"`))
	for path, want := range map[string]string{
		"w": `{"a":true,"b":true}`, "list": `{"0":true,"1":true}`, "s": `"text"`, "none": `null`,
	} {
		s, err := b.Read(t.Context(), path, firebase.Query{Shallow: true})
		require.NoError(t, err)
		assert.Equal(t, parse(t, want), s.Data)
		assert.Equal(t, want != "null", s.Exists)
	}
}

// Each type of event, with the events of a sequence of writes (S3-042, S3-043). A write that changes nothing causes
// no events.
func (k Kit) realtimeEvents(t *testing.T) {
	t.Parallel()
	const initial = `{"a":{"x":{"y":1}},"b":2}`
	steps := []step{
		set("g/a/x/y", `1`),
		set("elsewhere", `1`),
		set("g/a/x/y", `2`),
		set("g/b", `{"now":"object"}`),
		update("g", `{"c":1,"d":2,"b":null}`),
		set("g", `"scalar"`),
		remove("g"),
		remove("g"),
		set("g/z", `1`),
	}
	for events, want := range map[firebase.EventType][]event{
		firebase.Value: {
			{"", `{"a":{"x":{"y":2}},"b":2}`, initial},
			{"", `{"a":{"x":{"y":2}},"b":{"now":"object"}}`, `{"a":{"x":{"y":2}},"b":2}`},
			{"", `{"a":{"x":{"y":2}},"c":1,"d":2}`, `{"a":{"x":{"y":2}},"b":{"now":"object"}}`},
			{"", `"scalar"`, `{"a":{"x":{"y":2}},"c":1,"d":2}`},
			{"", `null`, `"scalar"`},
			{"", `{"z":1}`, `null`},
		},
		firebase.ChildAdded:   {{"c", `1`, `null`}, {"d", `2`, `null`}, {"z", `1`, `null`}},
		firebase.ChildChanged: {{"a", `{"x":{"y":2}}`, `{"x":{"y":1}}`}, {"b", `{"now":"object"}`, `2`}},
		firebase.ChildRemoved: {
			{"b", `{"now":"object"}`, `{"now":"object"}`},
			{"a", `{"x":{"y":2}}`, `{"x":{"y":2}}`},
			{"c", `1`, `1`},
			{"d", `2`, `2`},
		},
	} {
		t.Run(string(events), func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, set("g", initial))
			w := listen(t, b, "g", events)
			assert.Equal(t, parse(t, initial), w.initial.Data)
			apply(t, b, steps...)
			w.expect(events, want...)
			sentinels := map[firebase.EventType]event{
				firebase.Value: {"", `{"z":{"end":1}}`, `{"z":1}`}, firebase.ChildAdded: {"end", `1`, `null`},
				firebase.ChildChanged: {"z", `{"end":1}`, `1`}, firebase.ChildRemoved: {"z", `1`, `1`},
			}
			ends := map[firebase.EventType]step{
				firebase.Value: set("g/z/end", `1`), firebase.ChildAdded: set("g/end", `1`),
				firebase.ChildChanged: set("g/z/end", `1`), firebase.ChildRemoved: remove("g/z"),
			}
			apply(t, b, ends[events])
			w.expect(events, sentinels[events])
		})
	}
	t.Run("of nothing", func(t *testing.T) {
		t.Parallel()
		b := k.Open(t)
		for _, events := range []firebase.EventType{firebase.Value, firebase.ChildAdded} {
			w := listen(t, b, "nope/deep", events)
			assert.False(t, w.initial.Exists)
			assert.Nil(t, w.initial.Data)
		}
	})
}
