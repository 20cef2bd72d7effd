package outside_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// withTasks runs a test with a server at a URL, in both generations of the protocol.
func withTasks(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, generation := range []string{older, newer} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			server := httptest.NewServer(newPeer("usual", w.peerDir(), generation))
			t.Cleanup(server.Close)
			w.define("lab", "", object{"baseURL": server.URL})
			test(t, w)
		})
	}
}

// handled waits until the log contains the handle of the server's task for a call.
func (w *world) handled(id events.TaskID) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		h, err := w.api.History(w.t.Context(), api.HistoryRequest{ID: id})
		if err != nil {
			return false
		}
		for _, c := range h.Commits {
			for _, e := range c.Events {
				if e.Kind == events.StepNoted {
					return true
				}
			}
		}
		return false
	}, patience, 10*time.Millisecond, "%s", w.logged())
}

// A task of a server continues without the node, and the next node waits for it (S2-075).
func TestKillDuringTask(t *testing.T) {
	t.Parallel()
	withTasks(t, func(t *testing.T, w *world) {
		t.Helper()
		n := w.spawn()
		id := w.submit(one("lab.research", "{text: x}"))
		w.handled(id)
		n.kill()
		n = w.spawn()
		w.release()
		r := w.result(id)
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
		assert.Contains(t, string(r.Output), "done")
		assert.Equal(t, 1, w.calls("research"))
		n.terminate(t)
	})
}

func TestCancelOfTask(t *testing.T) {
	t.Parallel()
	withTasks(t, func(t *testing.T, w *world) {
		t.Helper()
		n := w.spawn()
		id := w.submit(one("lab.research", "{text: x}"))
		w.handled(id)
		n.kill()
		n = w.spawn()
		w.attended()
		_, err := w.api.Cancel(t.Context(), api.CancelRequest{ID: id, Actor: operator})
		require.NoError(t, err)
		assert.Equal(t, statemachine.Cancelled, w.result(id).State)
		require.Eventually(t, func() bool { return strings.Contains(w.peerFile("tasks"), "tasks/cancel") }, patience, 10*time.Millisecond)
		assert.Equal(t, 1, w.calls("research"))
		n.terminate(t)
	})
}

// attended waits until the node polls the server's task again.
func (w *world) attended() {
	w.t.Helper()
	before := len(w.peerFile("tasks"))
	require.Eventually(w.t, func() bool { return len(w.peerFile("tasks")) > before }, patience, 10*time.Millisecond)
}

// A task with a question keeps it across a crash.
func TestKillDuringQuestionOfTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(newPeer("usual", w.peerDir(), newer))
	t.Cleanup(server.Close)
	w.define("lab", "", object{"baseURL": server.URL})
	n := w.spawn()
	id := w.submit(one("lab.survey", "{text: x}"))
	asked := w.question(id)
	n.kill()
	n = w.spawn()
	q := w.question(id)
	assert.Equal(t, asked.ID, q.ID)
	w.answer(q, `{"action":"accept","content":{"name":"Ada"}}`)
	w.release()
	r := w.result(id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.Contains(t, string(r.Output), "Ada")
	assert.Equal(t, 1, w.calls("survey"))
	n.terminate(t)
}

// When a server dies during a call, a read is repeated, and a possible write is not.
func TestServerDiesDuringCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("desk", "usual", nil)
	w.start()
	assert.JSONEq(t, `{"said":"seen"}`, w.run(one("desk.look", "{text: x}")))
	assert.Equal(t, 2, w.calls("look"))
	id := w.submit("steps: [{id: a, tool: desk.die, with: {text: x}, retry: {max_attempts: 3}}]\n")
	require.Eventually(t, func() bool {
		view, err := w.api.Get(t.Context(), api.GetRequest{ID: id})
		return err == nil && (view.State.Terminal() || view.Steps[0].State == statemachine.StepInDoubt)
	}, patience, 10*time.Millisecond)
	view, err := w.api.Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	t.Log(view.State, view.Steps[0].State, view.Steps[0].Reason, view.Steps[0].Error)
	assert.Equal(t, 1, w.calls("die"))
}
