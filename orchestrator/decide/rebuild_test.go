package decide_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// callsLarge lets the only call of a turn end with a large value, of which the test has only a few bytes.
func (w *world) callsLarge(turn int, size int64) {
	w.t.Helper()
	key := statemachine.CallKey("a", turn, 1)
	output := decide.MustJSON(fmt.Sprintf("result %d", turn))
	v := events.InBlobs(events.Offloaded(output).Ref(), size)
	w.values[v.Ref()] = output
	w.begin(key)
	o := work.Outcome{Ref: work.Ref{Task: w.task.ID, Step: key, Attempt: 1}, Worker: "ada", Output: output}
	w.decide(func(t *decide.Turn) error {
		require.False(w.t, t.Attempts().Report(&o, decide.Received{Output: v}))
		return nil
	})
	delete(w.held, key)
}

// bitByBit returns the request of the newest turn, read in as many pieces as are necessary, and their number.
func (w *world) bitByBit(said decide.Said) (r models.Request, pieces int) {
	w.t.Helper()
	for more := true; more; pieces++ {
		said, more = w.reading().SaidUpTo("a", said)
	}
	r, err := w.reading().ModelRequest("a", said)
	require.NoError(w.t, err)
	return r, pieces
}

// A conversation whose values are too large to be read at once is read in pieces, with and without summaries, from any turn that is known.
func TestConversationBitByBit(t *testing.T) {
	t.Parallel()
	for fields, most := range map[string]int{
		"tools: [FILE_READ], max_turns: 100":                                       19,
		"tools: [FILE_READ], max_turns: 100, context: {compact_at: 1000, keep: 6}": 13,
	} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, fields)
			w.wake()
			known, longest := []decide.Said{{}}, 0
			for turn := 1; turn <= 20; turn++ {
				whole, err := w.reading().ModelRequest("a", decide.Said{})
				require.NoError(t, err)
				for _, said := range known {
					got, pieces := w.bitByBit(said)
					assert.Equal(t, whole, got, "turn %d, from turn %d", turn, said.Turn)
					longest = max(longest, pieces)
				}
				known = append(known, decide.Said{Turn: turn, Messages: whole.Messages})
				if w.task.Steps["a"].Agent.Last().Requested.Summarizes > 0 {
					w.hears(turn, says("a summary"))
					continue
				}
				w.hears(turn, costs(100+turn*70, says("", "FILE_READ {}")))
				w.callsLarge(turn, 20<<20)
			}
			assert.Equal(t, most, longest)
		})
	}
}

// A piece has at least one turn, and a conversation that fits is read at once.
func TestPiecesOfAConversation(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]int{1 << 20: 1, 16 << 20: 2, 60 << 20: 4} {
		w := agentWorld(t, "tools: [FILE_READ]")
		w.wake()
		for turn := 1; turn <= 4; turn++ {
			w.hears(turn, says("", "FILE_READ {}"))
			w.callsLarge(turn, size)
		}
		_, pieces := w.bitByBit(decide.Said{})
		assert.Equal(t, want, pieces, "%d bytes", size)
	}
}
