package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// joinAs adds a member to a cluster that is not a node of this version.
func joinAs(t *testing.T, cfg node.Config, info election.Info) *election.Member {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: cfg.Storage.NATSURL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	info.Since = time.Now()
	m, err := election.Join(t.Context(), election.Config{Conn: c.NATS(), Self: info})
	require.NoError(t, err)
	return m
}

// beginOld makes the store of a cluster one of before there were versions.
func beginOld(t *testing.T, server *bus.Server) {
	t.Helper()
	bustest.NewStream(t, withCredential(t, server), "ORCH_EVENTS", "orch.ev.*.*")
}

// A store is not finalized while a node of an older version stands by.
func TestFinalizeInACluster(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	beginOld(t, server)
	first := serveMember(t, server)
	serveMember(t, server)
	r := dialNode(t, first.cfg)
	for _, tc := range []struct {
		name   string
		store  int
		closes bool
	}{{"of before they said so", 0, false}, {"of version 1", 1, false}, {"a newer one", bus.StoreVersion + 1, true}} {
		m := joinAs(t, first.cfg, election.Info{ID: "other", Host: "beta", PID: 70, Version: "0.1.0", Store: tc.store})
		v, err := r.StoreVersion(t.Context(), api.StoreVersionRequest{})
		require.NoError(t, err)
		require.Len(t, v.Members, 3)
		assert.True(t, v.Members[0].Active)
		assert.Equal(t, bus.StoreVersion, v.Members[0].Known)
		assert.Contains(t, v.Members, api.MemberVersion{Name: "beta:70", Version: "0.1.0", Known: tc.store})
		v, err = r.FinalizeStore(t.Context(), api.FinalizeStoreRequest{})
		if tc.closes {
			require.NoError(t, err, tc.name)
			assert.Equal(t, bus.StoreVersion, v.Version)
		} else {
			require.ErrorContains(t, err, "beta:70 (0.1.0)", tc.name)
			assert.True(t, fault.Has(err, fault.Conflict))
			assert.Equal(t, api.ReasonOlderNodes, fault.From(err).Reason)
			now, err := r.StoreVersion(t.Context(), api.StoreVersionRequest{})
			require.NoError(t, err)
			assert.Less(t, now.Version, bus.StoreVersion, "nothing has changed")
		}
		m.Leave(context.WithoutCancel(t.Context()))
	}
}

// Somebody may finalize a store although an older node stands by.
func TestFinalizeByForce(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first := serveMember(t, server)
	m := joinAs(t, first.cfg, election.Info{ID: "other", Host: "beta", PID: 70, Version: "0.1.0"})
	defer m.Leave(context.WithoutCancel(t.Context()))
	v, err := dialNode(t, first.cfg).FinalizeStore(t.Context(), api.FinalizeStoreRequest{Force: true})
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, v.Version)
}

// A node with its own server is no cluster: it has no members, and finalizes.
func TestFinalizeAlone(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	start(t, cfg)
	v, err := dialNode(t, cfg).FinalizeStore(t.Context(), api.FinalizeStoreRequest{})
	require.NoError(t, err)
	assert.Equal(t, bus.StoreVersion, v.Version)
	assert.Empty(t, v.Members)
}
