package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

// peerWorld is a world with one server, the peer.
type peerWorld struct {
	*world

	dir string
}

// newPeerWorld starts a peer of a generation as a child process.
func newPeerWorld(t *testing.T, generation string, more ...map[string]any) *peerWorld {
	t.Helper()
	w := &peerWorld{newWorld(t), t.TempDir()}
	env := map[string]any{"env": map[string]string{
		modeVariable: "peer", "PEER_GENERATION": generation, "PEER_DIR": w.dir, "PEER_SECRET": "peer-secret-text",
	}}
	w.define("peer", "peer", append([]map[string]any{env}, more...)...)
	w.start()
	w.become("peer", registry.Ready) // on a busy machine one of little patience needs more than one attempt
	return w
}

// newPeerWeb starts a peer of a generation behind a URL.
func newPeerWeb(t *testing.T, generation string) *peerWorld {
	t.Helper()
	w := &peerWorld{newWorld(t), t.TempDir()}
	web := httptest.NewServer(newPeer(generation, w.dir))
	t.Cleanup(web.Close)
	w.put("peer.json", `{"schemaVersion":"1.0.0","name":"peer","transport":"http","baseURL":"`+web.URL+`","capabilities":["tools"],"timeout":"30s"}`)
	w.start()
	w.become("peer", registry.Ready) // on a busy machine one of little patience needs more than one attempt
	return w
}

// request is a call of the peer.
func request(tool, args string) registry.CallRequest {
	return registry.CallRequest{Server: "peer", Tool: tool, Args: json.RawMessage(args)}
}

// requests returns the parameters of the peer's requests with a method.
func (w *peerWorld) requests(method string) []string {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, "requests"))
	require.NoError(w.t, err)
	var found []string
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, method+" "); ok {
			found = append(found, rest)
		}
	}
	return found
}

// everywhere runs a test with both generations, as a process and behind a URL.
func everywhere(t *testing.T, test func(t *testing.T, w *peerWorld)) {
	t.Helper()
	for _, generation := range []string{older, newer} {
		t.Run(generation+" process", func(t *testing.T) {
			t.Parallel()
			test(t, newPeerWorld(t, generation))
		})
		t.Run(generation+" URL", func(t *testing.T) {
			t.Parallel()
			test(t, newPeerWeb(t, generation))
		})
	}
}

func TestCallKeepsTheResult(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		reply, err := w.Call(t.Context(), request("raw", ""))
		require.NoError(t, err)
		assert.JSONEq(t, `{"content":[],"structuredContent":{"n":12345678901234567890.10,"<":"&"},"_meta":{"a/b":1},"later":[1.0]}`, string(reply.Result))
		assert.Contains(t, string(reply.Result), "12345678901234567890.10")
		assert.Contains(t, string(reply.Result), "1.0]")
		assert.Nil(t, reply.Task)
		assert.Empty(t, reply.Asks)
		_, err = w.Call(t.Context(), request("none", ""))
		require.True(t, fault.Has(err, fault.InvalidParams), "%v", err)
		require.NotErrorIs(t, err, registry.ErrUnanswered)
	})
}

// A server learns the position of a call in a trace.
func TestCallTrace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		c := request("trace", "")
		for _, c.TraceParent = range []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"} {
			reply, err := w.Call(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, c.TraceParent, text(t, reply.Result))
		}
		c.TraceState = "rojo=1"
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, c.TraceParent+c.TraceState, text(t, reply.Result))
	})
}

func TestCallProgress(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{older, newer} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			w := newPeerWorld(t, generation)
			var told []string
			c := request("wait", `{"ms":3000}`)
			c.Progress = func(done, total float64, message string) {
				assert.InDelta(t, 1, done, 0)
				assert.InDelta(t, 2, total, 0)
				told = append(told, message)
			}
			reply, err := w.Call(t.Context(), c)
			require.NoError(t, err)
			assert.Equal(t, "waited", text(t, reply.Result))
			assert.Equal(t, []string{"waiting"}, told)
		})
	}
}

// A call of 2026-07-28 asks in rounds, which the caller may store for any time.
func TestCallInRounds(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, w *peerWorld) {
		t.Helper()
		c := request("round", "")
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		require.Len(t, reply.Asks, 2)
		assert.Equal(t, "<one>", reply.State)
		assert.Equal(t, "a", reply.Asks[0].Key)
		assert.Equal(t, "elicitation/create", reply.Asks[0].Method)
		assert.JSONEq(t, `{"message":"who?","requestedSchema":{"type":"object"}}`, string(reply.Asks[0].Params))
		assert.Nil(t, reply.Result)
		c.State, c.Answers = reply.State, map[string]json.RawMessage{"a": json.RawMessage(`1.0`), "b": json.RawMessage(`2`)}
		reply, err = w.Call(t.Context(), c)
		require.NoError(t, err)
		require.Len(t, reply.Asks, 1)
		c.State, c.Answers = reply.State, map[string]json.RawMessage{"c": json.RawMessage(`3`)}
		reply, err = w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, "<two>1.03", text(t, reply.Result))

		reply, err = w.Call(t.Context(), request("busy", ""))
		require.NoError(t, err)
		assert.Equal(t, "at last", text(t, reply.Result))
	}
	t.Run("process", func(t *testing.T) { t.Parallel(); test(t, newPeerWorld(t, newer)) })
	t.Run("URL", func(t *testing.T) { t.Parallel(); test(t, newPeerWeb(t, newer)) })
}

// asked collects the questions of the server, and answers with a text.
type asked struct {
	mu   sync.Mutex
	list []string
}

func (a *asked) answer(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, method+" "+p.Message)
	return json.RawMessage(`{"action":"accept","content":{"n":1.50}}`), nil
}

func (a *asked) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.list...)
}

// S2-055: who answers for a call, and what happens when nobody does.
func TestCallAsks(t *testing.T) {
	t.Parallel()
	const cancelled = `{"action":"cancel"}`
	t.Run("one call", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		got := &asked{}
		c := request("ask", `{"ask":["name","sample"]}`)
		c.Ask = got.answer
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, 2, strings.Count(text(t, reply.Result), `{"action":"accept","content":{"n":1.50}}`))
		assert.ElementsMatch(t, []string{"elicitation/create name", "sampling/createMessage "}, got.all())
	})
	t.Run("nobody answers", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		reply, err := w.Call(t.Context(), request("ask", `{"ask":["name"]}`))
		require.NoError(t, err)
		assert.JSONEq(t, cancelled, text(t, reply.Result))
		reply, err = w.Call(t.Context(), request("ask", `{"ask":["sample"]}`))
		require.NoError(t, err)
		assert.JSONEq(t, `{"code":-1,"message":"the request was refused"}`, text(t, reply.Result))
	})
	t.Run("the answer fails", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		c := request("ask", `{"ask":["name"]}`)
		c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("private reason")
		}
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.JSONEq(t, cancelled, text(t, reply.Result))
	})
	t.Run("time to answer does not count", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older, map[string]any{"timeout": "5s", "concurrency": 1})
		asking, answer := make(chan struct{}), make(chan struct{})
		c := request("ask", `{"ask":["name"]}`)
		c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			close(asking)
			<-answer
			return json.RawMessage(`{"action":"decline"}`), nil
		}
		replied := make(chan registry.Reply, 1)
		go func() {
			reply, err := w.Call(t.Context(), c)
			assert.NoError(t, err)
			replied <- reply
		}()
		<-asking
		_, err := w.Call(t.Context(), request("wait", `{"ms":60000}`)) // others work meanwhile; this one for too long
		require.True(t, fault.Has(err, fault.Timeout), "%v", err)
		require.ErrorIs(t, err, registry.ErrUnanswered)
		close(answer)
		assert.JSONEq(t, `{"action":"decline"}`, text(t, (<-replied).Result))
	})
	t.Run("the call is given up", func(t *testing.T) {
		t.Parallel()
		w := newPeerWorld(t, older)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := request("ask", `{"ask":["name"]}`)
		c.Ask = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			cancel()
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		_, err := w.Call(ctx, c)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, fault.Has(err, fault.Cancelled))
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// A request that may belong to several calls is answered by none of them.
func TestAskOfSeveralCalls(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older)
	working := make(chan struct{}, 1)
	long := request("wait", `{"ms":6000}`)
	long.Progress = func(float64, float64, string) { working <- struct{}{} }
	var group sync.WaitGroup
	group.Go(func() {
		_, err := w.Call(t.Context(), long)
		assert.NoError(t, err)
	})
	<-working
	got := &asked{}
	c := request("ask", `{"ask":["name"]}`)
	c.Ask = got.answer
	reply, err := w.Call(t.Context(), c)
	require.NoError(t, err)
	assert.JSONEq(t, `{"action":"cancel"}`, text(t, reply.Result))
	assert.Empty(t, got.all())
	assert.Contains(t, w.log.String(), "mcp_request_refused server=peer")
	assert.Contains(t, w.log.String(), "concurrency")

	reply, err = w.Call(t.Context(), c) // it waits for the other one now
	require.NoError(t, err)
	assert.JSONEq(t, `{"action":"accept","content":{"n":1.5}}`, text(t, reply.Result))
	group.Wait()
}

func TestCallError(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{"retryPolicy": map[string]any{"maxAttempts": 1}}) // it is left alone for a while
	_, err := w.Call(t.Context(), request("leak", ""))
	require.ErrorContains(t, err, "cannot log in with ***")
	_, err = w.Call(t.Context(), request("die", ""))
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.ErrorIs(t, err, registry.ErrUnanswered)
	assert.NotContains(t, err.Error(), "orch/")
	w.become("peer", registry.Offline)
	_, err = w.Call(t.Context(), request("raw", ""))
	require.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	require.NotErrorIs(t, err, registry.ErrUnanswered)
}

// A server that requires its user to visit a URL first answers with an error.
func TestCallNeedsAURL(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		c := request("login", "")
		reply, err := w.Call(t.Context(), c)
		require.NoError(t, err)
		require.Len(t, reply.Asks, 1)
		assert.Equal(t, "elicitation/create", reply.Asks[0].Method)
		assert.Contains(t, string(reply.Asks[0].Params), "https://example.com/login")
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "logged-in"), nil, 0o600))
		c.Answers = map[string]json.RawMessage{reply.Asks[0].Key: json.RawMessage(`{"action":"accept"}`)}
		reply, err = w.Call(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, "welcome", text(t, reply.Result))
	})
}

// The number of concurrent requests of a server is limited.
func TestAskTooMuch(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older)
	var many []string
	for i := range 150 {
		many = append(many, strconv.Itoa(i))
	}
	args, err := json.Marshal(map[string]any{"ask": many})
	require.NoError(t, err)
	c := request("ask", string(args))
	release := make(chan struct{})
	var n atomic.Int32
	c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		n.Add(1)
		<-release
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	go func() {
		defer close(release)
		assert.Eventually(t, func() bool { return len(w.requests("replied")) == 50 && n.Load() == 100 }, maxDebounce, 10*time.Millisecond)
	}()
	reply, err := w.Call(t.Context(), c)
	require.NoError(t, err)
	answers := text(t, reply.Result)
	assert.Equal(t, 100, strings.Count(answers, "accept"))
	assert.Equal(t, 50, strings.Count(answers, "cancel"))
}

func TestCallOfAHostilePeer(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, newer)
	for tool, want := range map[string]string{
		"roots":   `the server asks for "roots/list", which was not offered`,
		"flood":   "the server asks more than 100 things",
		"never":   "the server is too busy",
		"unnamed": "a task with an invalid id",
		"list":    "something that is not an object",
	} {
		_, err := w.Call(t.Context(), request(tool, ""))
		require.ErrorContains(t, err, want, tool)
	}
	require.Equal(t, registry.Ready, w.get("peer").Status)
}

// A connection that was replaced stays for as long as a call on it waits for an answer.
func TestReplacedWhileAsking(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{"timeout": "4s"})
	asking, answer := make(chan struct{}), make(chan struct{})
	c := request("ask", `{"ask":["name"]}`)
	c.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		close(asking)
		<-answer
		return json.RawMessage(`{"action":"accept"}`), nil
	}
	replied := make(chan error, 1)
	go func() {
		_, err := w.Call(t.Context(), c)
		replied <- err
	}()
	<-asking
	env := map[string]string{modeVariable: "peer", "PEER_GENERATION": older, "PEER_DIR": w.dir}
	w.define("peer", "peer", map[string]any{"env": env, "description": "another one"})
	_, err := w.Reload(t.Context())
	require.NoError(t, err)
	_, err = w.Call(t.Context(), request("wait", `{"ms":4500}`)) // longer than calls of the former definition may work
	require.NoError(t, err)
	close(answer)
	require.NoError(t, <-replied)
}

// Questions, progress and read resources contain no secrets of the definition either.
func TestQuestionsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const args = `{"ask":["peer-secret-text"],"ms":50}`
	for _, generation := range []string{older, newer} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			w := newPeerWorld(t, generation)
			var mu sync.Mutex
			var heard []string
			hear := func(text string) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, text)
			}
			ask := func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
				hear(string(params))
				return json.RawMessage(`{"action":"cancel"}`), nil
			}
			for _, tool := range map[string][]string{older: {"ask", "wait", "job"}, newer: {"round", "wait", "job"}}[generation] {
				c := request(tool, args)
				c.Ask, c.Progress = ask, func(_, _ float64, message string) { hear(message) }
				reply, err := w.Call(t.Context(), c)
				require.NoError(t, err, tool)
				for _, a := range reply.Asks {
					hear(string(a.Params))
				}
				if c.Task = reply.Task; c.Task != nil {
					_, err = w.Call(t.Context(), c)
					require.NoError(t, err, tool)
				}
			}
			raw, err := w.ReadResource(t.Context(), "peer", "peer://peer-secret-text")
			require.NoError(t, err)
			hear(string(raw))
			assert.GreaterOrEqual(t, len(heard), 4)
			assert.NotContains(t, strings.Join(heard, "\n"), "peer-secret-text")
			assert.Contains(t, strings.Join(heard, "\n"), "***")
		})
	}
}
