package orchestrator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// Output is sent to watchers that request it, starting after the piece that they have. A worker sends output only while
// somebody watches.
func TestOutputGoesToThoseWhoWatch(t *testing.T) {
	t.Parallel()
	clock := clockAt(time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC))
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Clock = clock.now })
	id := n.submit("orch: v1\nsteps: [{id: a, tool: READ, with: {text: x}}]\n")
	call := n.take("w1")
	beat := func(out *work.Output) []work.Ref {
		r, err := n.Heartbeat(t.Context(), work.Heartbeat{Worker: "w1", Queues: []string{"default"}, Calls: []work.CallHeartbeat{{Ref: call.Ref, Tool: call.Tool, Output: out}}})
		require.NoError(t, err)
		return r.Show
	}
	watch := func(heard uint64) []api.Output {
		r, err := n.Watch(t.Context(), api.WatchRequest{ID: id, After: 1000, Output: true, AfterOutput: heard})
		require.NoError(t, err)
		return r.Output
	}
	assert.Empty(t, beat(&work.Output{To: 2, Text: "a\n"}), "nobody watches")
	assert.Empty(t, watch(0))
	assert.Equal(t, []work.Ref{call.Ref}, beat(&work.Output{To: 2, Text: "a\n"}))
	beat(&work.Output{From: 2, To: 4, Text: "b\n"})
	all := watch(0)
	require.Len(t, all, 2)
	assert.Equal(t, api.Output{Output: work.Output{To: 2, Text: "a\n"}, Seq: all[0].Seq, Step: "a", Attempt: 1}, all[0])
	assert.Equal(t, all[1:], watch(all[0].Seq))
	assert.Empty(t, watch(all[1].Seq))

	beat(&work.Output{From: 4, To: 5, Text: strings.Repeat("x", 1<<20)})
	assert.Empty(t, watch(all[1].Seq), "a piece that is too large")
	text := strings.Repeat("x", work.MaxOutput)
	for i := range int64(100) {
		beat(&work.Output{From: 5 + i*work.MaxOutput, To: 5 + (i+1)*work.MaxOutput, Text: text})
	}
	assert.Len(t, watch(0), 4, "the newest 64 KiB")
	clock.pass(time.Minute)
	assert.Empty(t, beat(nil), "nobody watches any more")
}
