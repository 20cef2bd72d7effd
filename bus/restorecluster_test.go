package bus_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
)

// A restore that has lost its lease while it stood still deletes nothing: not what the next one has made, and not its note.
func TestARestoreThatLostItsLeaseDeletesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"restoring ORCH_EVENTS", "checking the result"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			n, last := filled(t)
			n.Start(t)
			file := filepath.Join(t.TempDir(), "a.backup")
			_, err := n.Backup(t.Context(), file, bus.BackupConfig{})
			require.NoError(t, err)
			url := externalServer(t, 1<<40).ClientURL()
			members := membersOf(t, url)
			connect := func() *bus.Conn {
				c, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
				require.NoError(t, err)
				t.Cleanup(c.Close)
				return c
			}
			older, newer := newLease(5), newLease(9)
			held, lost := context.WithCancel(t.Context())
			overtaken := func(at string) {
				if at != step {
					return
				}
				older.end()
				_, err := connect().RestoreCluster(t.Context(), bus.ClusterRestoreConfig{File: file, Store: bus.StoreConfig{Lease: newer}})
				require.NoError(t, err)
				lost()
			}
			_, err = connect().RestoreCluster(held, bus.ClusterRestoreConfig{File: file, Progress: overtaken, Store: bus.StoreConfig{Lease: older}})
			require.Error(t, err)

			store, err := connect().OpenStore(t.Context(), bus.StoreConfig{Lease: newer})
			require.NoError(t, err)
			defer func() { assert.NoError(t, store.Close(context.WithoutCancel(t.Context()))) }()
			report, err := store.Verify(t.Context(), nil)
			require.NoError(t, err)
			assert.Empty(t, report.Problems)
			commits := 0
			for _, err := range store.Read(t.Context(), last.Task, 1) {
				require.NoError(t, err)
				commits++
			}
			assert.Equal(t, int(last.Rev), commits)
			_, err = members.Get(t.Context(), "restoring")
			require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
		})
	}
}

// After a failed restore nodes go on to refuse the store, and the next restore deletes what is there.
func TestAFailedRestoreIsRepeated(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	file := filepath.Join(t.TempDir(), "a.backup")
	_, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	url := externalServer(t, 1<<40).ClientURL()
	membersOf(t, url)
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
	require.NoError(t, err)
	defer c.Close()
	restore := func(ctx context.Context, progress func(string)) error {
		_, err := c.RestoreCluster(ctx, bus.ClusterRestoreConfig{File: file, Progress: progress, Store: bus.StoreConfig{Lease: newLease(5)}})
		return err
	}
	interrupted, stop := context.WithCancel(t.Context())
	require.Error(t, restore(interrupted, func(step string) {
		if step == "checking the result" {
			stop()
		}
	}))
	_, err = c.OpenStore(t.Context(), bus.StoreConfig{Lease: newLease(6)})
	require.Error(t, err)
	assert.Equal(t, bus.ReasonHalfRestored, fault.From(err).Reason)
	require.NoError(t, restore(t.Context(), nil))
	store, err := c.OpenStore(t.Context(), bus.StoreConfig{Lease: newLease(7)})
	require.NoError(t, err)
	require.NoError(t, store.Close(t.Context()))
	err = restore(t.Context(), nil)
	assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
}

// membersOf makes the bucket of the members of a cluster.
func membersOf(t *testing.T, url string) jetstream.KeyValue {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: election.Bucket})
	require.NoError(t, err)
	return kv
}
