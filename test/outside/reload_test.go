package outside_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// 100 calls are in flight while the definition of their server is changed 20 times: none fails or is made twice
// (S1-033).
func TestReloadsDuringCalls(t *testing.T) {
	t.Parallel()
	const calls, reloads = 100, 20
	w := newWorld(t)
	w.define("desk", "usual", object{"concurrency": calls, "timeout": "5m"})
	w.start()
	w.submit(one("desk.echo", "{text: x}"))
	begin := func(n int) events.TaskID { return w.submit(one("desk.hold", "{text: n"+strconv.Itoa(n)+"}")) }
	var ids []events.TaskID
	perRound := calls / reloads
	for round := range reloads {
		for i := range perRound {
			ids = append(ids, begin(round*perRound+i))
		}
		before := w.processes()
		w.define("desk", "usual", object{"concurrency": calls, "timeout": "5m", "description": "version " + strconv.Itoa(round)})
		require.Eventually(t, func() bool { return w.processes() > before }, patience, 10*time.Millisecond, "round %d", round)
	}
	w.release()
	for _, id := range ids {
		r := w.result(id)
		assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	}
	seen := map[string]int{}
	for line := range strings.Lines(w.peerFile("calls")) {
		if strings.HasPrefix(line, "hold ") {
			seen[strings.TrimSpace(line)]++
		}
	}
	assert.Len(t, seen, calls)
	for call, n := range seen {
		assert.Equal(t, 1, n, call)
	}
}

// processes counts the processes of servers that were started.
func (w *world) processes() int { return strings.Count(w.peerFile("pid"), "\n") }
