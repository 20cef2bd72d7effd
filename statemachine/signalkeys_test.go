package statemachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// A task remembers the keys of the last signals, so that a delivery that is repeated does not arrive twice.
func TestSignalKeysAreBounded(t *testing.T) {
	t.Parallel()
	var task statemachine.Task
	at := time.Unix(1, 0)
	require.NoError(t, task.Apply(at, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "a"}}))
	for i := range statemachine.MaxSignalKeys + 5 {
		require.NoError(t, task.Apply(at, events.Event{Kind: events.SignalReceived, Data: &events.Signal{Name: "go", Key: fmt.Sprintf("hook/a/%d", i)}}))
	}
	require.NoError(t, task.Apply(at, events.Event{Kind: events.SignalReceived, Data: &events.Signal{Name: "go"}}))
	assert.Len(t, task.SignalKeys, statemachine.MaxSignalKeys)
	assert.Equal(t, "hook/a/5", task.SignalKeys[0])
	assert.Equal(t, "hook/a/1004", task.SignalKeys[len(task.SignalKeys)-1])
}
