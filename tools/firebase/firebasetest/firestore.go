package firebasetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func (k Kit) firestoreWrites(t *testing.T) {
	t.Parallel()
	const path = "rooms/a"
	for name, test := range map[string]struct {
		steps []step
		want  string // at the path
	}{
		"nothing":                 {nil, `null`},
		"set":                     {[]step{set(path, `{"n":1,"s":"x","t":true,"z":null,"l":[1,{"a":[]}],"o":{}}`)}, `{"n":1,"s":"x","t":true,"z":null,"l":[1,{"a":[]}],"o":{}}`},
		"set replaces":            {[]step{set(path, `{"a":1,"b":2}`), set(path, `{"c":3}`)}, `{"c":3}`},
		"empty document":          {[]step{set(path, `{}`)}, `{}`},
		"as deep as may be":       {[]step{set(path, strings.Repeat(`{"a":`, 21)+"1"+strings.Repeat("}", 21))}, strings.Repeat(`{"a":`, 21) + "1" + strings.Repeat("}", 21)},
		"names are literal":       {[]step{set(path, `{"a.b":1}`)}, `{"a.b":1}`},
		"delete":                  {[]step{set(path, `{"a":1}`), remove(path)}, `null`},
		"delete of nothing":       {[]step{remove(path)}, `null`},
		"delete keeps what is in": {[]step{set(path, `{"a":1}`), remove("rooms/a/in/x")}, `{"a":1}`},

		"merge":                      {[]step{set(path, `{"a":1,"b":2}`), {merge, path, `{"b":3,"c":4}`}}, `{"a":1,"b":3,"c":4}`},
		"merge is deep":              {[]step{set(path, `{"o":{"x":1,"in":{"y":2}}}`), {merge, path, `{"o":{"in":{"z":3}}}`}}, `{"o":{"x":1,"in":{"y":2,"z":3}}}`},
		"merge replaces arrays":      {[]step{set(path, `{"l":[1,2]}`), {merge, path, `{"l":[3]}`}}, `{"l":[3]}`},
		"merge replaces with empty":  {[]step{set(path, `{"o":{"x":1}}`), {merge, path, `{"o":{}}`}}, `{"o":{}}`},
		"merge over a scalar":        {[]step{set(path, `{"o":1}`), {merge, path, `{"o":{"x":1}}`}}, `{"o":{"x":1}}`},
		"merge of null":              {[]step{set(path, `{"a":1}`), {merge, path, `{"a":null}`}}, `{"a":null}`},
		"merge makes a document":     {[]step{{merge, path, `{"a":1}`}}, `{"a":1}`},
		"merge of nothing makes one": {[]step{{merge, path, `{}`}}, `{}`},

		"update":                 {[]step{set(path, `{"a":1,"b":2}`), update(path, `{"b":3}`)}, `{"a":1,"b":3}`},
		"update is shallow":      {[]step{set(path, `{"o":{"x":1,"y":2}}`), update(path, `{"o":{"x":3}}`)}, `{"o":{"x":3}}`},
		"update of dotted paths": {[]step{set(path, `{"o":{"x":1,"y":2}}`), update(path, `{"o.x":3,"p.q":4}`)}, `{"o":{"x":3,"y":2},"p":{"q":4}}`},
		"update over a scalar":   {[]step{set(path, `{"o":1}`), update(path, `{"o.x":3}`)}, `{"o":{"x":3}}`},
		"empty update":           {[]step{set(path, `{"a":1}`), update(path, `{}`)}, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, test.steps...)
			requireData(t, b, path, test.want)
		})
	}
	t.Run("documents below", k.firestoreBelow)
}

// A document may exist below a missing one, and survives the deletion of its parent.
func (k Kit) firestoreBelow(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b, set("rooms/a/in/x", `{"n":1}`))
	requireData(t, b, "rooms/a", `null`)
	requireData(t, b, "rooms", `null`)
	apply(t, b, set("rooms/a", `{"n":2}`), remove("rooms/a"))
	requireData(t, b, "rooms/a/in/x", `{"n":1}`)
	requireData(t, b, "rooms/a/in", `{"x":{"n":1}}`)
}

func (k Kit) firestoreRefusals(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 22) + "1" + strings.Repeat("}", 22)
	for name, test := range map[string]struct {
		step   step
		reason string
	}{
		"set of a collection":      {set("rooms", `{"n":1}`), refusal.InvalidPath},
		"update of a collection":   {update("rooms/a/in", `{"n":1}`), refusal.InvalidPath},
		"delete of a collection":   {remove("rooms"), refusal.InvalidPath},
		"push to a document":       {step{firebase.Push, "rooms/a", `{"n":1}`}, refusal.InvalidPath},
		"reserved id":              {set("rooms/__a__", `{"n":1}`), refusal.InvalidPath},
		"reserved collection":      {set("__a__/a", `{"n":1}`), refusal.InvalidPath},
		"update of nothing":        {update("rooms/b", `{"n":1}`), refusal.NotFound},
		"scalar":                   {set("rooms/a", `1`), refusal.InvalidDataType},
		"null":                     {set("rooms/a", `null`), refusal.InvalidDataType},
		"array":                    {set("rooms/a", `[1]`), refusal.InvalidDataType},
		"merge of an array":        {step{merge, "rooms/a", `[1]`}, refusal.InvalidDataType},
		"update with an array":     {update("rooms/a", `[1]`), refusal.InvalidDataType},
		"push of a scalar":         {step{firebase.Push, "rooms", `1`}, refusal.InvalidDataType},
		"array in an array":        {set("rooms/a", `{"l":[[1]]}`), refusal.InvalidDataType},
		"reserved name":            {set("rooms/a", `{"o":{"__n__":1}}`), refusal.ValidationError},
		"empty name":               {set("rooms/a", `{"":1}`), refusal.ValidationError},
		"empty part of a path":     {update("rooms/a", `{"o..x":1}`), refusal.ValidationError},
		"path in another":          {update("rooms/a", `{"o":1,"o.x":2}`), refusal.ValidationError},
		"too deep":                 {set("rooms/a", deep), refusal.SizeLimitExceeded},
		"too large":                {set("rooms/a", `{"s":"`+strings.Repeat("s", 600<<10)+`","t":"`+strings.Repeat("s", 500<<10)+`"}`), refusal.SizeLimitExceeded},
		"too long a string":        {set("rooms/a", `{"s":"`+strings.Repeat("s", 1<<20-88)+`"}`), refusal.SizeLimitExceeded},
		"too large after a merge":  {step{merge, "rooms/large", `{"t":"` + strings.Repeat("s", 500<<10) + `"}`}, refusal.SizeLimitExceeded},
		"too large after updating": {update("rooms/large", `{"t":"`+strings.Repeat("s", 500<<10)+`"}`), refusal.SizeLimitExceeded},
		"unknown operation":        {step{"append", "rooms/a", `{}`}, refusal.ValidationError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			large := `{"s":"` + strings.Repeat("s", 600<<10) + `"}`
			apply(t, b, set("rooms/a", `{"old":1}`), set("rooms/large", large))
			_, err := b.Write(t.Context(), test.step.path, test.step.write(t))
			requireReason(t, err, test.reason)
			requireData(t, b, "rooms", `{"a":{"old":1},"large":`+large+`}`)
		})
	}
}

// Only set supports merge.
func (k Kit) firestoreMergeIsForSet(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	for path, op := range map[string]firebase.Operation{"rooms/a": firebase.Update, "rooms/b": firebase.Delete, "rooms": firebase.Push} {
		_, err := b.Write(t.Context(), path, firebase.Write{Operation: op, Data: counter(1), Merge: true})
		requireReason(t, err, refusal.ValidationError)
	}
	requireData(t, b, "rooms", `null`)
}

// Push creates a new document with an id of 20 characters.
func (k Kit) firestorePush(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	seen := map[string]bool{}
	for range 20 {
		written, err := b.Write(t.Context(), "rooms/a/messages", firebase.Write{Operation: firebase.Push, Data: counter(1)})
		require.NoError(t, err)
		assert.Len(t, written.Key, 20)
		assert.False(t, written.At.IsZero())
		seen[written.Key] = true
		requireData(t, b, "rooms/a/messages/"+written.Key, `{"n":1}`)
	}
	assert.Len(t, seen, 20)
	assert.Len(t, read(t, b, "rooms/a/messages").Children, 20)
}

func (k Kit) firestoreQueries(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	for id, data := range map[string]string{
		"n1": `{"v":null}`, "b1": `{"v":true}`, "b0": `{"v":false}`, "i2": `{"v":2}`, "i1": `{"v":-1.5}`, "i3": `{"v":2}`,
		"s2": `{"v":"b"}`, "s1": `{"v":"B"}`, "l1": `{"v":[1,2]}`, "l0": `{"v":[1]}`, "o1": `{"v":{"q":1}}`, "o0": `{"v":{"a":9}}`,
		"none": `{"w":1}`,
	} {
		apply(t, b, set("w/"+id, data))
	}
	for name, test := range map[string]struct {
		query firebase.Query
		want  string // ids in their order
	}{
		"ids":                   {firebase.Query{}, "b0 b1 i1 i2 i3 l0 l1 n1 none o0 o1 s1 s2"},
		"limit alone":           {firebase.Query{Limit: 2}, "b0 b1"},
		"ids in a range":        {firebase.Query{OrderBy: "__name__", StartAt: "i2", EndAt: "n"}, "i2 i3 l0 l1"},
		"order of types":        {firebase.Query{OrderBy: "v"}, "n1 b0 b1 i1 i2 i3 s1 s2 l0 l1 o0 o1"},
		"cursors over types":    {firebase.Query{OrderBy: "v", StartAt: true, EndAt: "B"}, "b1 i1 i2 i3 s1"},
		"cursors are inclusive": {firebase.Query{OrderBy: "v", StartAt: 2.0, EndAt: 2.0}, "i2 i3"},
		"range, then limit":     {firebase.Query{OrderBy: "v", StartAt: 2.0, Limit: 1}, "i2"},
		"field of an object":    {firebase.Query{OrderBy: "v.q"}, "o1"},
		"field that none has":   {firebase.Query{OrderBy: "x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := b.Read(t.Context(), "w", test.query)
			require.NoError(t, err)
			assert.Equal(t, strings.Fields(test.want), append([]string{}, keys(s.Children)...))
			assert.True(t, s.Exists)
			assert.Len(t, s.Data, len(s.Children))
			assert.Empty(t, s.Version)
			for _, c := range s.Children {
				assert.Equal(t, read(t, b, "w/"+c.Key).Data, c.Data)
			}
		})
	}
	t.Run("of a document", func(t *testing.T) {
		t.Parallel()
		s, err := b.Read(t.Context(), "w/i2", firebase.Query{Limit: 10})
		require.NoError(t, err)
		assert.Equal(t, parse(t, `{"v":2}`), s.Data)
	})
}

func (k Kit) firestoreQueryRefusals(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b, set("w/a", `{"v":1}`))
	for _, q := range []firebase.Query{
		{StartAt: "a"},
		{EndAt: 1.0},
		{OrderBy: "v", Limit: -1},
		{OrderBy: "__name__", StartAt: 1.0},
		{OrderBy: "a..b"},
		{OrderBy: "a/b"},
		{OrderBy: "v", EndAt: map[string]any{}},
		{Shallow: true},
	} {
		_, err := b.Read(t.Context(), "w", q)
		requireReason(t, err, refusal.ValidationError)
	}
}

// Each type of event, with the events of a sequence of writes. A write that changes nothing, or another path, causes
// no events.
func (k Kit) firestoreEvents(t *testing.T) {
	t.Parallel()
	steps := []step{
		set("w/a", `{"n":1}`),
		set("w/a/in/x", `{"n":1}`),
		set("v/a", `{"n":1}`),
		update("w/a", `{"n":2}`),
		set("w/b", `{}`),
		remove("w/a"),
		remove("w/a"),
		{merge, "w/a", `{"n":3}`},
		set("w/a", `{"n":4}`),
		remove("w/b"),
		remove("w/a"),
	}
	for name, test := range map[string]struct {
		path   string
		events firebase.EventType
		want   []event
	}{
		"value": {"w/a", firebase.Value, []event{
			{"", `{"n":2}`, `{"n":1}`}, {"", `null`, `{"n":2}`}, {"", `{"n":3}`, `null`}, {"", `{"n":4}`, `{"n":3}`}, {"", `null`, `{"n":4}`},
		}},
		"added":            {"w", firebase.DocumentAdded, []event{{"b", `{}`, `null`}, {"a", `{"n":3}`, `null`}}},
		"modified":         {"w", firebase.DocumentModified, []event{{"a", `{"n":2}`, `{"n":1}`}, {"a", `{"n":4}`, `{"n":3}`}}},
		"deleted":          {"w", firebase.DocumentDeleted, []event{{"a", `{"n":2}`, `{"n":2}`}, {"b", `{}`, `{}`}, {"a", `{"n":4}`, `{"n":4}`}}},
		"one is modified":  {"w/a", firebase.DocumentModified, []event{{"a", `{"n":2}`, `{"n":1}`}, {"a", `{"n":4}`, `{"n":3}`}}},
		"another is added": {"w/b", firebase.DocumentAdded, []event{{"b", `{}`, `null`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := k.Open(t)
			apply(t, b, set("w/a", `{"n":1}`))
			w := listen(t, b, test.path, test.events)
			assert.Equal(t, read(t, b, test.path).Data, w.initial.Data)
			apply(t, b, steps...)
			w.expect(test.events, test.want...)
		})
	}
}
