package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
)

func TestTheBareServerSyncsLikeANode(t *testing.T) {
	t.Parallel()
	for durability, always := range map[string]bool{"fsync": true, "relaxed": false} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			s, err := startBareServer(t.TempDir(), durability)
			require.NoError(t, err)
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			assert.Equal(t, bus.RelaxedEvery, s.JetStreamConfig().SyncInterval)
			assert.Equal(t, always, s.JetStreamConfig().SyncAlways)
		})
	}
}
