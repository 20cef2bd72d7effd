package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

// begin calls the tool job, which must become a task.
func (w *peerWorld) begin(args string) registry.CallRequest {
	w.t.Helper()
	reply, err := w.Call(w.t.Context(), request("job", args))
	require.NoError(w.t, err)
	require.NotNil(w.t, reply.Task, "%s", reply.Result)
	assert.Nil(w.t, reply.Result)
	return registry.CallRequest{Server: "peer", Task: reply.Task}
}

// idOf is the id of the task of a call.
func idOf(t *testing.T, c registry.CallRequest) string {
	t.Helper()
	var h struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(c.Task, &h))
	return h.ID
}

func TestTask(t *testing.T) { // S2-075
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		c := w.begin(`{"ms":200}`)
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, "done {}", text(t, reply.Result))
		assert.Less(t, len(w.requests("tasks/get")), 5, "it is not asked more often than each 100 ms")
		reply, err = w.Call(t.Context(), c) // it may be waited for again
		require.NoError(t, err)
		assert.Equal(t, "done {}", text(t, reply.Result))

		reply, err = w.Call(t.Context(), w.begin(`{"fail":"isError"}`))
		require.NoError(t, err)
		assert.Contains(t, string(reply.Result), "went wrong")
		_, err = w.Call(t.Context(), w.begin(`{"fail":"error"}`))
		require.True(t, fault.Has(err, fault.ToolFailed), "%v", err)
		require.ErrorContains(t, err, "broken")
		require.NotErrorIs(t, err, registry.ErrUnanswered)
		_, err = w.Call(t.Context(), w.begin(`{"fail":"cancelled"}`))
		require.True(t, fault.Has(err, fault.Cancelled), "%v", err)

		c = w.begin(`{"ms":60000}`)
		require.NoError(t, w.CancelTask(t.Context(), "peer", c.Task))
		_, err = w.Call(t.Context(), c)
		require.True(t, fault.Has(err, fault.Cancelled), "%v", err)
		c = w.begin(``)
		require.NoError(t, w.CancelTask(t.Context(), "peer", c.Task))
		assert.Equal(t, int64(6), w.get("peer").Metrics.Invocations)
	})
}

func TestTaskLost(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		c := w.begin(`{"ms":60000}`)
		require.NoError(t, os.Remove(filepath.Join(w.dir, idOf(t, c))))
		_, err := w.Call(t.Context(), c)
		require.ErrorIs(t, err, registry.ErrTaskLost)
		require.True(t, fault.Has(err, fault.InDoubt))
		require.ErrorIs(t, w.CancelTask(t.Context(), "peer", c.Task), registry.ErrTaskLost)
		c.Task = json.RawMessage(strings.NewReplacer(older, newer, newer, older).Replace(string(c.Task)))
		_, err = w.Call(t.Context(), c)
		require.ErrorIs(t, err, registry.ErrTaskLost, "the server speaks another version now")
		c.Task = json.RawMessage(`{}`)
		_, err = w.Call(t.Context(), c)
		require.True(t, fault.Has(err, fault.InvalidParams), "%v", err)
	})
}

func TestTaskProgress(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{older, newer} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			w := newPeerWorld(t, generation)
			var told []string
			c := w.begin(`{"ms":3000}`)
			c.Progress = func(_, _ float64, message string) { told = append(told, message) }
			_, err := w.Call(t.Context(), c)
			require.NoError(t, err)
			assert.ElementsMatch(t, []string{"it is working", "begun"}, told)
		})
	}
}

// Each question is asked once, and several at the same time if the server sends them together.
func TestTaskAsks(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, w *peerWorld, args string, want ...string) {
		t.Helper()
		got := &asked{}
		c := w.begin(args)
		c.Ask = got.answer
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Contains(t, text(t, reply.Result), `"n":1.50`)
		assert.ElementsMatch(t, want, got.all())
	}
	t.Run(older, func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		test(t, w, `{"ask":["name","sample"]}`, "elicitation/create name", "sampling/createMessage ")
		test(t, w, `{"ask":["name"],"mute":true}`, "elicitation/create name")
	})
	for name, open := range map[string]func(*testing.T, string) *peerWorld{
		"process": func(t *testing.T, g string) *peerWorld { t.Helper(); return newPeerWorld(t, g) },
		"URL":     newPeerWeb,
	} {
		t.Run(newer+" "+name, func(t *testing.T) {
			t.Parallel()
			w := open(t, newer)
			test(t, w, `{"ms":700,"ask":["name","sample"]}`, "elicitation/create name", "sampling/createMessage sample")
			for _, update := range w.requests("tasks/update") {
				assert.Contains(t, update, `"n":1.50`)
			}
			c := w.begin(`{"ask":["name"]}`)
			reply, err := w.Call(t.Context(), c)
			require.NoError(t, err)
			assert.Contains(t, text(t, reply.Result), `"action":"cancel"`)
			c = w.begin(`{"ask":["sample"]}`)
			_, err = w.Call(t.Context(), c)
			require.ErrorContains(t, err, "which was refused")
			assert.NotEmpty(t, w.requests("tasks/cancel"))
		})
	}
}

// Two tasks ask at the same time; each question is assigned to its task.
func TestTasksAskAtOnce(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older)
	var group, both sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"one", "two"} {
		group.Go(func() {
			c := w.begin(`{"ask":["` + name + `"]}`)
			c.Ask = func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
				both.Done()
				both.Wait()
				if !strings.Contains(string(params), `"message":"`+name+`"`) {
					return nil, errors.New("not mine")
				}
				return json.RawMessage(`{"action":"accept"}`), nil
			}
			reply, err := w.Call(t.Context(), c)
			if assert.NoError(t, err) {
				assert.Contains(t, string(reply.Result), "accept")
			}
		})
	}
	group.Wait()
}

// A server may ask before anybody waits for the task; a question that nobody ever waits for is refused.
func TestTaskAsksEarly(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{"timeout": "5s"})
	got := &asked{}
	c := w.begin(`{"early":true,"ms":400}`)
	c.Ask = got.answer
	reply, err := w.Call(t.Context(), c)
	require.NoError(t, err)
	assert.Contains(t, text(t, reply.Result), `"n":1.50`)
	assert.Equal(t, []string{"elicitation/create early"}, got.all())
	w.begin(`{"early":true}`)
	require.Eventually(t, func() bool {
		return strings.Contains(w.log.String(), `reason="it belongs to no call"`)
	}, maxDebounce, 10*time.Millisecond)
}

// The wait continues after a restart of the server if it still knows the task.
func TestTaskOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{older, newer} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			w := newPeerWorld(t, generation)
			c := w.begin(`{"ms":100,"ask":["name"]}`)
			pid, err := strconv.Atoi(strings.Split(idOf(t, c), "-")[1])
			require.NoError(t, err)
			var calls int
			c.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				if calls++; calls == 1 {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						return nil, err
					}
					if generation == older {
						<-ctx.Done() // its request ended with the connection
						return nil, ctx.Err()
					}
				}
				return json.RawMessage(`{"action":"accept"}`), nil
			}
			reply, err := w.Call(t.Context(), c)
			require.NoError(t, err)
			assert.Contains(t, string(reply.Result), "accept")
			assert.Equal(t, map[string]int{older: 2, newer: 1}[generation], calls)
		})
	}
}

func TestTaskOfAServerThatStaysAway(t *testing.T) {
	t.Parallel()
	t.Run("dead", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older, map[string]any{"timeout": "5s", "retryPolicy": map[string]any{"maxAttempts": 1}})
		c := w.begin(`{"ms":60000}`)
		_, err := w.Call(t.Context(), request("die", ""))
		require.Error(t, err)
		_, err = w.Call(t.Context(), c)
		require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
		require.ErrorIs(t, err, registry.ErrUnanswered)
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		c := w.begin(`{"ms":60000}`)
		failed := make(chan error, 1)
		go func() {
			_, err := w.Call(t.Context(), c)
			failed <- err
		}()
		require.Eventually(t, func() bool { return len(w.requests("tasks/get")) > 0 }, maxDebounce, 10*time.Millisecond)
		require.NoError(t, w.Close(t.Context(), maxDebounce))
		require.True(t, fault.Has(<-failed, fault.Unavailable))
	})
	t.Run("disabled", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		c := w.begin(`{"ms":60000}`)
		failed := make(chan error, 1)
		go func() {
			_, err := w.Call(t.Context(), c)
			failed <- err
		}()
		require.Eventually(t, func() bool { return len(w.requests("tasks/get")) > 0 }, maxDebounce, 10*time.Millisecond)
		require.NoError(t, w.Disable(t.Context(), "peer"))
		require.ErrorIs(t, <-failed, registry.ErrToolDisabled)
	})
	t.Run("given up", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, newer)
		c := w.begin(`{"ms":60000}`)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, err := w.Call(ctx, c)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, w.requests("tasks/cancel"), "the caller decides about the task")
	})
}
