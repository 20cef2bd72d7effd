package messages_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/messages"
)

// A message is read as earlier versions wrote it, too.
func TestFormerMessagesAreRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"id":"MSG_1","at":"2026-01-02T12:00:00Z","sender":"user:ada","to":["all"]}`,
		`{"message_id":"MSG_1","at":"2026-01-02T12:00:00Z","sender":"user:ada","to":["all"]}`,
	} {
		var m messages.Message
		require.NoError(t, json.Unmarshal([]byte(text), &m))
		assert.Equal(t, "MSG_1", m.ID)
		assert.Equal(t, "user:ada", m.Sender)
		written, err := json.Marshal(m)
		require.NoError(t, err)
		assert.Contains(t, string(written), `"message_id":"MSG_1"`)
	}
}
