package node_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

func TestServerForOtherMachines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address, host string
		embedded      bool
		want          string
	}{
		"default":           {address: "nats://127.0.0.1:4222", embedded: true},
		"loopback":          {address: "nats://127.0.0.1:4222", host: "127.0.0.2", embedded: true},
		"loopback of IPv6":  {address: "nats://[::1]:4222", host: "::1", embedded: true},
		"a name":            {address: "nats://127.0.0.1:4222", host: "localhost", embedded: true},
		"everywhere":        {address: "nats://127.0.0.1:4222", host: "0.0.0.0", embedded: true, want: "nats://0.0.0.0:4222"},
		"everywhere in v6":  {address: "nats://127.0.0.1:4222", host: "::", embedded: true, want: "nats://[::]:4222"},
		"one address":       {address: "nats://127.0.0.1:4222", host: "10.0.0.7", embedded: true, want: "nats://10.0.0.7:4222"},
		"an outside server": {address: "tls://nats.example:4222", host: "127.0.0.1", want: "tls://nats.example:4222"},
	} {
		assert.Equal(t, c.want, node.ServerFor(c.address, c.host, c.embedded), name)
	}
}

// The status says which data directory is not the one that commands find by themselves.
func TestStatusSaysHowToReachTheNode(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for dir, want := range map[string]string{
		filepath.Join(home, ".orch", "data"): "",
		filepath.Join(home, "data"):          filepath.Join(home, "data"),
	} {
		assert.Equal(t, want, node.DataDirFor(dir))
	}
	cfg := config(t)
	n := start(t, cfg)
	status, err := n.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, cfg.DataDir, status.DataDir)
	assert.Empty(t, status.Server)
}
