package events_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
)

func TestRefs(t *testing.T) {
	t.Parallel()
	a, b := events.Offloaded(json.RawMessage(`"a"`)), events.Offloaded(json.RawMessage(`"b"`))
	small := events.Inline(json.RawMessage(`{"x":1}`))
	c := &events.Commit{Task: events.NewTaskID(time.Now()), Rev: 1, At: events.Time(time.Now()), Actor: "node", Events: []events.Event{
		{Kind: "checkpoint.created", Data: &events.Checkpointed{ID: "CP_1", Name: "n", State: a, At: events.Time(time.Now())}},
		{Kind: "checkpoint.created", Data: &events.Checkpointed{ID: "CP_2", Name: "n", State: small, At: events.Time(time.Now())}},
		{Kind: "checkpoint.created", Data: &events.Checkpointed{ID: "CP_3", Name: "n", State: b, At: events.Time(time.Now())}},
	}}
	want := []string{a.Ref(), b.Ref()}
	assert.Equal(t, want, slices.Collect(c.Refs()))
	data, err := events.Encode(c)
	require.NoError(t, err)
	decoded, err := events.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, want, slices.Collect(decoded.Refs()), "also from the wire")
	for ref := range c.Refs() {
		assert.Equal(t, a.Ref(), ref)
		break
	}
}

// A list of values inside of a payload counts, too.
func TestRefsInLists(t *testing.T) {
	t.Parallel()
	a := events.Offloaded(json.RawMessage(`"a"`))
	list := &events.Expanded{Step: "s", Items: []events.Value{events.Inline(json.RawMessage(`1`)), a}}
	c := &events.Commit{Events: []events.Event{{Kind: "step.expanded", Data: list}}}
	assert.Equal(t, []string{a.Ref()}, slices.Collect(c.Refs()))
}
