package corrupt_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/test/corrupt"
)

const (
	// envBytes is the number of bytes that are flipped, envQuiet that of those flips which a start has to meet because the
	// check of the files finds nothing that would refuse it.
	envBytes = "ORCH_CORRUPT_BYTES"
	envQuiet = "ORCH_CORRUPT_QUIET"
	fewBytes = 400
	fewQuiet = 6
)

// TestEveryByte flips bytes of a small store, one at a time. The file check runs before any server opens the store.
// Each flip is refused by the check, or repaired and reported, or has no effect: a start, a verification and a read of
// everything confirm that.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	count, probes := number(t, envBytes, fewBytes), number(t, envQuiet, fewQuiet)
	seed := number(t, envSeed, time.Now().UnixNano()&0xffffff)
	t.Logf("%d bytes, %d starts, seed %d", count, probes, seed)
	from := built(t, roleSmall)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	all, err := corrupt.Bytes(r, from.dir)
	require.NoError(t, err)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(int64(len(all)), count)]
	refusals, quiet := map[string]int{}, []corrupt.Damage(nil)
	for _, d := range all {
		require.NoError(t, d.Apply(from.dir))
		report, err := bus.Inspect(t.Context(), from.dir)
		require.NoError(t, err, d)
		require.NoError(t, d.Apply(from.dir), "a flip is its own inverse")
		if report.Found > 0 {
			refusals[d.Kind]++
		} else {
			quiet = append(quiet, d)
		}
	}
	table := map[string]map[string]int{}
	for kind, n := range refusals {
		table[kind] = map[string]int{refused: n}
	}
	for i, d := range quiet[:min(int64(len(quiet)), probes)] {
		if table[d.Kind] == nil {
			table[d.Kind] = map[string]int{}
		}
		table[d.Kind][quietCase(t, from, d, i)]++
	}
	t.Logf("%d refused, %d not%s", len(all)-len(quiet), len(quiet), render(table))
}

// quietCase starts on a copy of the store with a damage that is not refused.
func quietCase(t *testing.T, from template, d corrupt.Damage, i int) (end string) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(from.dir), "quiet"+strconv.Itoa(i))
	require.NoError(t, copyDir(dir, from.dir))
	require.NoError(t, d.Apply(dir))
	got, problem := run(t.Context(), dir)
	end, wrong := judge(from.whole, got, problem)
	if wrong != "" {
		t.Errorf("%s: %s", d, wrong)
		return "WRONG"
	}
	require.NoError(t, os.RemoveAll(dir))
	return end
}
