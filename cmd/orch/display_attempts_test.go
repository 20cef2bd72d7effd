package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// A parked attempt is not counted in the history; a repeated one is.
func TestAttemptsAreThoseThatWereMade(t *testing.T) {
	t.Parallel()
	var a attempts
	said := func(data events.Payload) string { return describe(a.counted(events.Event{Data: data})).text }
	assert.Equal(t, "T", said(&events.Ready{Step: "s", Tool: "T", Attempt: 1}))
	said(&events.Parked{Step: "s", Attempt: 1, Approval: "APR"})
	assert.Equal(t, "T", said(&events.Ready{Step: "s", Tool: "T", Attempt: 2}))
	assert.Equal(t, "by w", said(&events.Called{Step: "s", Worker: "w", Attempt: 2}))
	assert.Equal(t, "T, attempt 2", said(&events.Ready{Step: "s", Tool: "T", Attempt: 3}))
	assert.Equal(t, "T, attempt 2", said(&events.Ready{Step: "other", Tool: "T", Attempt: 2}))
}
