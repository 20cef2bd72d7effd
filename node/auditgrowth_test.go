package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/node"
)

// startForBench starts a node with an empty store.
func startForBench(b *testing.B, durability string) *node.Node {
	b.Helper()
	dir := b.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(b, os.Mkdir(root, 0o700))
	n, err := node.Start(b.Context(), node.Config{DataDir: filepath.Join(dir, "data"), Root: root, Storage: node.Storage{Durability: durability}, Version: "test"})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, n.Stop(context.Background())) })
	return n
}

// BenchmarkAct measures an act that is durable before it is done.
func BenchmarkAct(b *testing.B) {
	n := startForBench(b, "fsync")
	for b.Loop() {
		_, err := n.API().PutSchedule(b.Context(), api.PutScheduleRequest{Name: "!"}) // refused, so that only the entries cost
		require.Error(b, err)
	}
}

// BenchmarkAuditList measures the newest page, a page that a rare filter selects, and the check of the chain, with 100,000 entries.
func BenchmarkAuditList(b *testing.B) {
	const count = 100_000
	n := startForBench(b, "relaxed")
	j, err := n.Store().OpenJournal(b.Context(), bus.AuditJournal)
	require.NoError(b, err)
	prev, begin := "", time.Now().Add(-count*time.Second)
	for i := range uint64(count) {
		e := audit.Entry{Number: i + 1, Prev: prev, At: begin.Add(time.Duration(i) * time.Second).UTC(), Outcome: audit.Done, Act: audit.Act{
			Actor: "user:ada", Credential: "operator", Face: audit.FaceBus, Name: "task.cancel", Target: fmt.Sprintf("TASK_%026d", i), Params: map[string]string{"reason": "enough"},
		}}
		data, err := e.Encode()
		require.NoError(b, err)
		_, err = j.Append(b.Context(), i, data)
		require.NoError(b, err)
		prev = audit.Hash(data)
	}
	for name, r := range map[string]api.AuditRequest{
		"newest": {}, "rare": {Filter: audit.Filter{Target: fmt.Sprintf("TASK_%026d", 5)}}, "since": {Filter: audit.Filter{Since: time.Now().Add(-time.Hour)}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := n.API().Audit(b.Context(), r)
				require.NoError(b, err)
			}
		})
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			v, after := audit.NewVerifier(audit.Anchor{}), uint64(0)
			for first := true; first || after != 0; first = false {
				page, err := n.API().AuditEntries(b.Context(), api.AuditEntriesRequest{After: after})
				require.NoError(b, err)
				for _, data := range page.Entries {
					_, err := v.Add(data)
					require.NoError(b, err)
				}
				after = page.Next
			}
			assert.Equal(b, count, v.Result(audit.Anchor{}).Entries)
		}
	})
}
