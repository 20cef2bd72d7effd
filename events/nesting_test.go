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

// Valid and encoding/json, with which outputs are decoded, agree on every text.
func FuzzValid(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, ` true `, `nul`, `01`, `-0`, `-`, `1.`, `1e5`, `1E+05`, `.5`, `""`, `"\ud800"`, `"\udc00\ud800"`, `"\u12"`, `"\x"`, "\"\xff\"", "\"\x00\"", "\"\x7f\"",
		"\"\u2028\"", `[]`, `[1,]`, `[,]`, `{}`, `{"a":1,"a":2}`, `{"a":1,}`, `{a:1}`, `{"a"}`, `{"a":}`, `{} {}`, "\ufeff{}", "\v1", `{"\ud800":1,"\ud801":2}`, `'a'`, "[\x85]", "[\u00a0]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		require.Equal(t, json.Valid([]byte(text)), events.Valid([]byte(text)), "%q", text)
	})
}

func TestValidToTheSameDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{9_999, 10_000, 10_001, 20_000} {
		for _, text := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth), strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			assert.Equal(t, json.Valid([]byte(text)), events.Valid([]byte(text)), depth)
		}
	}
}
