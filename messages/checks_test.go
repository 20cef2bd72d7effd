package messages_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

// Names of agents and groups have no spaces; names of users come from the system and may have some.
func TestAddressesAreNames(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"all": true, "agent:ada": true, "group:ops": true, "user:ada": true, "user:Ada Lovelace": true,
		"agent:a b": false, "agent:a\u00a0b": false, "group:a b": false, "agent:": false, "agent:a,b": false, "ada": false, "": false,
	} {
		err := messages.CheckAddress(text)
		assert.Equal(t, ok, err == nil, "%q: %v", text, err)
		assert.Equal(t, !ok, fault.Has(err, fault.InvalidFormat), "%q: %v", text, err)
	}
	for text, want := range map[string]string{"ops": "group:ops", "group:ops": "group:ops", "a b": "", "": "", "agent:ada": ""} {
		got, err := messages.CheckGroup(text)
		assert.Equal(t, want, got)
		assert.Equal(t, want == "", err != nil, "%q: %v", text, err)
	}
}

// Criteria that no message can match are refused; criteria that match nothing now may match later.
func TestSelectionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		q     messages.Query
		field string
	}{
		"nothing":         {},
		"a sender":        {q: messages.Query{Sender: "agent:ada"}},
		"the node itself": {q: messages.Query{Sender: messages.System}},
		"any text":        {q: messages.Query{Correlation: "talk"}},
		"a type":          {q: messages.Query{Type: "my-own"}},
		"no sender":       {q: messages.Query{Sender: "ada"}, field: "sender"},
		"a group":         {q: messages.Query{Sender: "group:ops"}, field: "sender"},
		"no type":         {q: messages.Query{Type: "A b"}, field: "type"},
		"long":            {q: messages.Query{Correlation: strings.Repeat("x", 201)}, field: "correlation_id"},
		"negative":        {q: messages.Query{MinPriority: -1}, field: "min_priority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.q.CheckSelection()
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, test.field, fault.From(err).Field)
		})
	}
}

// An invalid id is refused instead of being reported as unknown.
func TestIDsOfMessagesAreChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, messages.CheckIDs([]string{"MSG_01JD0000000000000000000000"}))
	for _, id := range []string{"", "MSG_1", "TASK_01JD0000000000000000000000", "MSG_01jd0000000000000000000000"} {
		err := messages.CheckIDs([]string{"MSG_01JD0000000000000000000000", id})
		assert.True(t, fault.Has(err, fault.InvalidFormat), "%q: %v", id, err)
		assert.Equal(t, "message_ids", fault.From(err).Field)
	}
}
