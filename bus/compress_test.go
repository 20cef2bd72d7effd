package bus_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// The commits of a task of one step, as a node writes them.
const (
	firstCommit = `{"v":1,"task":"TASK_01M8N53YQF5B938CW5RCJ1D9S6","rev":1,"at":"2026-11-30T02:39:05.455627Z","actor":"user:ada","events":[{"kind":"task.submitted","data":{"name":"nightly","plan":{"limits":{"max_steps":10000},"name":"nightly","orch":"v1","priority":"normal","steps":[{"id":"count","on_error":"fail","tool":"GREP_SEARCH"}]},"plan_sha256":"abd909e19cd5a2a06cdddceabf1d962003025ffa2f39cbc54719c120bb91278c","priority":"normal","max_steps":10000}},{"kind":"step.ready","data":{"step":"count","attempt":1,"tool":"GREP_SEARCH","args":{},"effect":"read"}}]}`
	lastCommit  = `{"v":1,"task":"TASK_01M8N53YQF5B938CW5RCJ1D9S6","rev":2,"at":"2026-11-30T02:39:06.481252Z","actor":"worker:host-27064-ADJCDGK7","prev":"LpWe3QzshSWn-SJ1YIryvEnSINF_EtGH469vP850_do","events":[{"kind":"task.started","data":{}},{"kind":"step.called","data":{"step":"count","attempt":1,"worker":"host-27064-ADJCDGK7","at":"2026-11-30T02:39:06.463271Z"}},{"kind":"step.succeeded","data":{"step":"count","attempt":1,"output":{},"duration":207589}},{"kind":"task.finished","data":{"output":{}}}]}`
)

// Stores have commits that are compressed with the dictionary: it must stay as it is. What a commit became once is read for ever.
func TestTheDictionaryStays(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("commit1.dict")
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	assert.Equal(t, "51ac0d1b8e57bffd9dbd6ac43c239b6bb8d744548145f4478919f2b3caf388c2", hex.EncodeToString(sum[:]))
	stored, err := hex.DecodeString("01e90315000f58384e3533595146354239333843573552434a31443953366e910134323a33393a30362e34383132353215000b48686f73742d32373036342d41444a4344474b3739a4a84c70576533517a736853576e2d534a315949727976456e53494e465f4574474834363976503835305f646feecf01150010160c19366a0135d356b9003de649923501103633323731b6e6014e800039a92eea0114323037353839c6e901")
	require.NoError(t, err)
	commit, err := bus.UnpackCommit(stored, bus.MaxPayload)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(commit, []byte(lastCommit)), "%s", commit)
}

// goldenCommits are commits with every kind of event.
func goldenCommits(tb testing.TB) [][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("..", "events", "testdata", "golden", "*.json"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	var all [][]byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(tb, err)
		all = append(all, bytes.TrimSpace(data))
	}
	return all
}

func TestPackCommit(t *testing.T) {
	t.Parallel()
	source := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(source.Uint32())
		}
		return b
	}
	long := []byte(`{"output":"` + strings.Repeat("line of a long output\n", 50_000) + `"}`)
	for name, tc := range map[string]struct {
		commit []byte
		most   int // the size of what is stored, in percent
	}{
		"first":                    {[]byte(firstCommit), 40},
		"last":                     {[]byte(lastCommit), 45},
		"long":                     {long, 2},
		"fits in its room":         {long[:4<<10], 10},
		"does not fit":             {long[:8<<10], 5},
		"repeats":                  {bytes.Repeat([]byte("a"), 8<<10), 1},
		"nothing repeats":          {append([]byte("{"), noise(1000)...), 100},
		"nothing repeats, long":    {append([]byte("{"), noise(100_000)...), 100},
		"short":                    {[]byte(`{"v":1}`), 100},
		"begins like a packed one": {append([]byte{1}, noise(8<<10-1)...), 101},
		"only the mark":            {[]byte{1}, 400},
		"empty":                    {nil, 100},
		"the end of the dictionary at its beginning": {[]byte(lastCommit[len(lastCommit)-30:] + firstCommit), 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := bus.PackCommit(nil, tc.commit)
			assert.LessOrEqual(t, len(stored)*100, len(tc.commit)*tc.most)
			back, err := bus.UnpackCommit(stored, bus.MaxPayload)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(tc.commit, back))
		})
	}
	plain, stored := 0, 0
	for _, c := range goldenCommits(t) {
		packed := bus.PackCommit(nil, c)
		back, err := bus.UnpackCommit(packed, bus.MaxPayload)
		require.NoError(t, err)
		require.Equal(t, string(c), string(back))
		plain, stored = plain+len(c), stored+len(packed)
	}
	assert.Less(t, stored*100, plain*55)
}

func TestUnpackCommitRefuses(t *testing.T) {
	t.Parallel()
	good := bus.PackCommit(nil, []byte(lastCommit))
	for name, stored := range map[string][]byte{
		"no block": good[:1], "cut": good[:len(good)-1], "longer": append(bytes.Clone(good), 0),
		"a size without end":   append([]byte{1}, bytes.Repeat([]byte{0xff}, 20)...),
		"a huge size":          {1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0},
		"larger than a commit": {1, 0x81, 0x80, 0x80, 0x04, 0},
	} {
		_, err := bus.UnpackCommit(stored, bus.MaxPayload)
		require.True(t, fault.Has(err, fault.DataLoss), "%s: %v", name, err)
	}
	_, err := bus.UnpackCommit(good, len(lastCommit)-1)
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
}

func FuzzUnpackCommit(f *testing.F) {
	for _, c := range append(goldenCommits(f), []byte(firstCommit), []byte(lastCommit), bytes.Repeat([]byte(lastCommit), 30)) {
		f.Add(bus.PackCommit(nil, c))
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		const most = 1 << 20
		commit, err := bus.UnpackCommit(stored, most)
		if err != nil {
			require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
			return
		}
		require.LessOrEqual(t, len(commit), max(most, len(stored)))
		back, err := bus.UnpackCommit(bus.PackCommit(nil, commit), len(commit))
		require.NoError(t, err)
		require.True(t, bytes.Equal(commit, back))
	})
}

func FuzzPackCommit(f *testing.F) {
	for _, c := range append(goldenCommits(f), []byte(firstCommit), []byte(lastCommit)) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, commit []byte) {
		back, err := bus.UnpackCommit(bus.PackCommit(nil, commit), len(commit))
		require.NoError(t, err)
		require.True(t, bytes.Equal(commit, back))
	})
}

func BenchmarkPackCommit(b *testing.B) {
	room, commit := make([]byte, 0, 16<<10), []byte(lastCommit)
	b.ReportAllocs()
	for b.Loop() {
		bus.PackCommit(room, commit)
	}
}

func BenchmarkUnpackCommit(b *testing.B) {
	stored := bus.PackCommit(nil, []byte(lastCommit))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = bus.UnpackCommit(stored, bus.MaxPayload)
	}
}
