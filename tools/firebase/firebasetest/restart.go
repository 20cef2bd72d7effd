package firebasetest

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// S3-036: confirmed writes survive a restart: values, priorities, versions and deletions.
func (k Kit) realtimeRestart(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	apply(t, b,
		set("w", `{"a":1,"b":{".value":"x",".priority":5},"c":{".value":"y",".priority":1},"list":["p",null,"q"]}`),
		update("w", `{"a":null,"d/e":{".sv":{"increment":2}},"at":{".sv":"timestamp"}}`), set("gone", `1`), remove("gone"))
	var last string
	for i := range 300 {
		written, err := b.Write(t.Context(), "pushed", firebase.Write{Operation: firebase.Push, Data: float64(i)})
		require.NoError(t, err)
		last = written.Key
	}
	before, pushed := read(t, b, "w"), read(t, b, "pushed")
	for range 2 {
		b = k.Reopen(t, b)
		got := read(t, b, "w")
		assert.Equal(t, before.Data, got.Data)
		assert.Equal(t, before.Version, got.Version)
		assert.Equal(t, pushed.Data, read(t, b, "pushed").Data)
		requireData(t, b, "gone", `null`)
		s, err := b.Read(t.Context(), "w", firebase.Query{OrderBy: "$priority", StartAt: 1.0, EndAt: 9.0})
		require.NoError(t, err)
		assert.Equal(t, []string{"c", "b"}, keys(s.Children))
	}
	_, err := b.Write(t.Context(), "w", firebase.Write{Operation: firebase.Delete, If: before.Version})
	require.NoError(t, err)
	written, err := b.Write(t.Context(), "pushed", firebase.Write{Operation: firebase.Push, Data: 1.0})
	require.NoError(t, err)
	assert.Greater(t, written.Key, last)
	requireData(t, k.Reopen(t, b), "w", `null`)
}

// S3-036: confirmed writes survive a restart. A version from before the restart never matches other data after it.
func (k Kit) firestoreRestart(t *testing.T) {
	t.Parallel()
	b := k.Open(t)
	for i := range 300 {
		apply(t, b, set("rooms/r"+strconv.Itoa(i%50), `{"n":`+strconv.Itoa(i)+`,"in":{"list":[{"x":null}]}}`))
	}
	apply(t, b, set("rooms/gone", `{"n":1}`), remove("rooms/r7"), set("rooms/r8/in/x", `{}`))
	deletedVersion := read(t, b, "rooms/gone").Version
	apply(t, b, remove("rooms/gone"))
	rooms, one := read(t, b, "rooms"), read(t, b, "rooms/r9")
	for range 2 {
		b = k.Reopen(t, b)
		assert.Equal(t, rooms.Data, read(t, b, "rooms").Data)
		assert.Equal(t, one.Version, read(t, b, "rooms/r9").Version)
		requireData(t, b, "rooms/r8/in/x", `{}`)
		requireData(t, b, "rooms/r7", `null`)
	}
	apply(t, b, set("rooms/gone", `{"n":2}`))
	_, err := b.Write(t.Context(), "rooms/gone", firebase.Write{Operation: firebase.Set, Data: counter(3), If: deletedVersion})
	requireReason(t, err, refusal.Conflict)
	_, err = b.Write(t.Context(), "rooms/r9", firebase.Write{Operation: firebase.Set, Data: counter(3), If: one.Version})
	require.NoError(t, err)
	requireData(t, k.Reopen(t, b), "rooms/r9", `{"n":3}`)
}
