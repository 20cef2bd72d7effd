package bus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
)

// journalled is a stopped node whose journal of holds has three entries. It returns the files of the journal as well.
func journalled(t *testing.T, cfg bus.ServerConfig) (*bustest.Node, string) {
	t.Helper()
	n := bustest.NewNode(t, cfg)
	j, err := n.OpenJournal(t.Context(), bus.HoldsJournal)
	require.NoError(t, err)
	at := uint64(0)
	for range 3 {
		at, err = j.Append(t.Context(), at, []byte(`{"reason":"case 4711"}`))
		require.NoError(t, err)
	}
	n.Stop(t)
	return n, filepath.Join(streamsOf(n), "ORCH_JOURNAL_HOLDS")
}

func streamsOf(n *bustest.Node) string {
	return filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams")
}

// A journal that is gone, or shorter than it was, keeps the node from starting: what is held is not forgotten, and an act in the
// audit stream neither.
func TestJournalThatHasLostItsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string)
		what string
	}{
		"the stream is gone": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(dir))
		}, "ORCH_JOURNAL_HOLDS: the stream is gone"},
		"its entries are gone": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "msgs")))
		}, "it ends at position 0 but had reached 3"},
		"its last entry is cut off": {func(t *testing.T, dir string) {
			t.Helper()
			block := filepath.Join(dir, "msgs", "1.blk")
			info, err := os.Stat(block)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(block, info.Size()-5))
		}, "after position 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, dir := journalled(t, bus.ServerConfig{})
			c.harm(t, dir)
			err := n.Serve(t)
			require.Equal(t, fault.DataLoss, fault.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, c.what)
		})
	}
}

// A node whose file of positions is damaged or missing, as an older orch leaves it, starts and writes another one.
func TestPositionsOfJournalsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(file string) error{
		"missing": os.Remove,
		"damaged": func(file string) error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, []byte(strings.Replace(string(data), "3", "9", 1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := journalled(t, bus.ServerConfig{})
			file := filepath.Join(n.Config.DataDir, "journals.json")
			require.NoError(t, harm(file))
			n.Start(t)
			j, err := n.OpenJournal(t.Context(), bus.HoldsJournal)
			require.NoError(t, err)
			require.NoError(t, j.Read(t.Context(), 0, func(uint64, []byte) error { return nil }))
			n.Stop(t)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Contains(t, string(data), `"ORCH_JOURNAL_HOLDS":3`)
		})
	}
}
