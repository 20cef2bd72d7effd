package server_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// Identities that come and go leave nothing behind; one that has a request under way stays.
func TestMeterForgetsWhoIsGone(t *testing.T) {
	t.Parallel()
	enter, known := server.Metered()
	_, ok := enter("stays")
	require.True(t, ok)
	for i := range 20_000 {
		leave, ok := enter(strconv.Itoa(i))
		require.True(t, ok)
		leave()
		if i%100 == 0 { // and then a while without a word
			require.Less(t, known(), 10_000)
		}
	}
	for range server.MaxInFlight - 1 {
		_, ok := enter("stays")
		require.True(t, ok, "its requests are counted on")
	}
	_, ok = enter("stays")
	assert.False(t, ok)
}
