package events_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
)

func TestNesting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `"\"[["`: 0, `[]`: 1, `{"a": [1, {"b]": "}"}], "c": {}}`: 3, `["\\", [[]]]`: 3, ``: 0,
	} {
		assert.Equal(t, want, events.Nesting([]byte(text)), text)
	}
}

// Every encoded commit can be decoded, however deeply a value is nested.
func TestEncodedCommitsCanBeDecoded(t *testing.T) {
	t.Parallel()
	written := 0
	for _, depth := range []int{10, 4_000, 4_990, 5_100, 9_980, 9_990, 9_995, 9_999} {
		output := json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		data, err := events.Encode(&events.Commit{
			Task: events.NewTaskID(time.Now()), Rev: 2, At: time.Now(), Actor: "agent:ada",
			Events: []events.Event{{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a", Output: events.Inline(output)}}},
		})
		if err != nil {
			continue
		}
		written++
		_, err = events.Decode(data)
		require.NoError(t, err, depth)
	}
	assert.Equal(t, 3, written)
}
