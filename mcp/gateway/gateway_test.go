package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// S1-089: the hints of a server decide gate, approval and rate.
func TestTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.Equal(t, []string{
		"lab__ask", "lab__crash", "lab__echo", "lab__fail", "lab__grow", "lab__lie", "lab__link", "lab__look", "lab__set", "lab__shift", "lab__shifty", "lab__slow", "lab__think", "lab__wipe", "lab__write",
	}, w.catalogue.Names(), "those with a bomb of a schema, a foreign one, or hidden characters are left out")
	for name, want := range map[string]tools.Effect{
		"lab__echo": tools.Read, "lab__write": tools.Write, "lab__wipe": tools.Destructive, "lab__set": tools.Idempotent,
	} {
		spec := w.tool(name).Spec()
		assert.Equal(t, want, spec.Effect, name)
		assert.Equal(t, want == tools.Read, spec.Gate == tools.AnyState, name)
		assert.Equal(t, want == tools.Destructive, spec.Approval == tools.Always, name)
		assert.Equal(t, want == tools.Read, spec.Rate == tools.Reads, name)
		assert.Equal(t, want != tools.Read, spec.Rate == tools.Writes, name)
	}
	out, err := w.call("lab.echo", `{"text":"a\u003cb"}`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"content":[{"type":"text","text":"a<b"}],"structuredContent":{"text":"a<b"}}`, out)
	reply, ok := w.tool("lab__echo").(tools.Replier)
	require.True(t, ok)
	assert.JSONEq(t, out, string(reply.Reply(json.RawMessage(out))))
}

// A call with effects that was sent and not answered may have happened: it is not repeated automatically.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.call("lab__crash", `{}`)
	assert.Equal(t, fault.InDoubt, fault.CodeOf(err))
	require.ErrorContains(t, err, "it may have happened")
	assert.Equal(t, "crash \n", w.ledger())
}

// Resources in a result have the URIs of the server in the log, and those of orch for clients.
func TestLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, err := w.call("lab__link", `{}`)
	require.NoError(t, err)
	assert.Contains(t, out, `"uri":"lab://a"`)
	reply, ok := w.tool("lab__link").(tools.Replier)
	require.True(t, ok)
	shown := string(reply.Reply(json.RawMessage(out)))
	assert.Contains(t, shown, `"uri":"orch://server/lab/lab://a"`)
	assert.Contains(t, shown, `"uri":"orch://server/lab/lab://b"`)
	assert.Contains(t, shown, "12345678901234567890")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct {
		args string
		code fault.Code
		text string
	}{
		"lab__fail":   {`{}`, fault.ToolFailed, `it is broken: \u202egnp.exe`},
		"lab__lie":    {`{}`, fault.ToolFailed, "the result of lab__lie is not what its definition promises"},
		"lab__echo":   {`{"text":1}`, fault.ValidationError, "got number, want string"},
		"lab__write":  {`{}`, fault.RequiredField, "is required"},
		"lab__set":    {`{"text":"x","y":1}`, fault.ValidationError, "additional properties 'y' not allowed"},
		"lab__hidden": {`{}`, fault.ToolDisabled, "lab__hidden is blocked: it holds hidden characters"},
		"lab__wipe":   {`[]`, fault.ValidationError, "must be an object"},
	} {
		_, err := w.call(name, tc.args)
		assert.Equal(t, tc.code, fault.CodeOf(err), name)
		require.ErrorContains(t, err, tc.text, name)
	}
	assert.Empty(t, w.ledger())
	assert.Contains(t, w.log.String(), "tool=bomb")
	assert.Contains(t, w.log.String(), "tool=far")
}

// A result that is larger than the output of a call may be is refused as a whole.
func TestLargeResult(t *testing.T) {
	t.Parallel()
	need.Long(t)
	w := newWorld(t)
	_, err := w.call("lab__echo", `{"text":"`+strings.Repeat("x", 2<<20-100)+`"}`) // it returns the text twice
	require.NoError(t, err)
	_, err = w.call("lab__echo", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`)
	require.ErrorContains(t, err, "the result of lab__echo has more than 4194304 bytes")
	assert.Equal(t, fault.ToolFailed, fault.CodeOf(err))
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", fault.From(err).Reason)
}

// A changed definition blocks its tool until it is accepted.
func TestChangedDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("shifty", "nice")
	_, err := w.call("lab__shifty", `{}`)
	require.NoError(t, err)
	replaced := w.catalogue.Replaced()
	_, err = w.call("lab__shift", `{}`)
	require.NoError(t, err)
	<-replaced
	_, err = w.call("lab__shifty", `{}`)
	assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
	require.ErrorContains(t, err, "its definition is another one than that which was accepted")
	assert.NotContains(t, w.catalogue.Names(), "lab__shifty")
	assert.Contains(t, w.catalogue.Refused(), "lab__shifty")

	w.open() // a restart changes nothing
	_, err = w.call("lab__shifty", `{}`)
	assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
	var changed []gateway.Definition
	for _, d := range w.Definitions("lab") {
		if d.Status != gateway.Accepted {
			changed = append(changed, d)
		}
	}
	require.Len(t, changed, 2)
	assert.Equal(t, "hidden", changed[0].Tool)
	assert.Equal(t, gateway.Changed, changed[1].Status)
	assert.Contains(t, changed[1].Diff, "-  \"description\": \"Is \",\n+  \"description\": \"Is nice\",")

	_, err = w.Accept("lab", map[string]string{"shifty": "1234"}, "user:ada")
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	_, err = w.Accept("lab", map[string]string{"none": ""}, "user:ada")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = w.Accept("nowhere", nil, "user:ada")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	accepted, err := w.Accept("lab", map[string]string{"shifty": changed[1].SHA256}, "user:ada")
	require.NoError(t, err)
	require.Len(t, accepted, 1)
	assert.Equal(t, "user:ada", accepted[0].By)
	w.mu.Lock()
	assert.Contains(t, w.changes, registry.Change{Kind: registry.DefinitionAccepted, Server: "lab", Tool: "shifty", By: "user:ada"})
	w.mu.Unlock()
	assert.Contains(t, w.log.String(), "mcp_definitions_accepted server=lab tools=[shifty] by=user:ada")
	_, err = w.call("lab__shifty", `{}`)
	require.NoError(t, err)
}

const ada = `{"action":"accept","content":{"name":"Ada"}}`

// asked makes an attempt that ends with one question, and returns the next attempt, which has the answer.
func (w *world) asked(name, answer string) *tools.Env {
	w.t.Helper()
	e := env(name)
	_, err := w.attempt(w.t.Context(), e, name, `{}`)
	asking, ok := errors.AsType[*tools.Asking](err)
	require.True(w.t, ok, "%v", err)
	require.NoError(w.t, asking.Check())
	require.Len(w.t, asking.Questions, 1)
	next := env(name)
	next.Attempt, next.Note = 2, asking.Note
	next.Answers[asking.Questions[0].Key] = json.RawMessage(answer)
	return next
}

// A question of a server becomes one of the call: the attempt ends, and the attempt with the answer continues. Without a
// state from the server only this process can continue it; after a restart a call that may not be repeated is in
// doubt.
func TestQuestions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		open    func(*testing.T) *world
		tool    string
		restart bool
		code    fault.Code
	}{
		"newer":                       {open: newNewer, tool: "lab__ask"},
		"newer, restart":              {open: newNewer, tool: "lab__ask", restart: true},
		"older":                       {open: newOlder, tool: "lab__ask"},
		"older, restart":              {open: newOlder, tool: "lab__ask", restart: true, code: fault.InDoubt},
		"older, restart, only a read": {open: newOlder, tool: "lab__look", restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tc.open(t)
			next := w.asked(tc.tool, ada)
			assert.Empty(t, w.ledger())
			if tc.restart {
				w.open()
			}
			out, err := w.attempt(t.Context(), next, tc.tool, `{}`)
			if tc.code != "" {
				assert.Equal(t, tc.code, fault.CodeOf(err))
				assert.Empty(t, w.ledger())
				next.Anew = true // a person has decided
				out, err = w.attempt(t.Context(), next, tc.tool, `{}`)
			}
			require.NoError(t, err)
			assert.JSONEq(t, `{"content":[{"type":"text","text":"accept Ada"}]}`, out)
			assert.Len(t, strings.Split(strings.TrimSpace(w.ledger()), "\n"), 1)
		})
	}
}

// A call whose answer never arrives is given up, and leaves no state.
func TestQuestionThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	w := newOlder(t)
	late := w.asked("lab__ask", ada)
	require.Equal(t, 1, w.Flights())
	w.Orphan()
	require.Eventually(t, func() bool { return w.Flights() == 0 }, patience, time.Millisecond)
	_, err := w.attempt(t.Context(), late, "lab__ask", `{}`)
	assert.Equal(t, fault.InDoubt, fault.CodeOf(err))
	assert.Empty(t, w.ledger())
	assert.Zero(t, w.Flights())
}

func TestSampling(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *world{"newer": newNewer, "older": newOlder} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			next := w.asked("lab__think", `{"role":"assistant","model":"m","content":{"type":"text","text":"4"}}`)
			out, err := w.attempt(t.Context(), next, "lab__think", `{}`)
			require.NoError(t, err)
			assert.Contains(t, out, "it says")
			assert.Contains(t, out, `\"text\":\"4\"`)
			next = w.asked("lab__think", `null`)
			_, err = w.attempt(t.Context(), next, "lab__think", `{}`)
			assert.Equal(t, fault.ToolFailed, fault.CodeOf(err), "it was declined: %v", err)
		})
	}
}

func newNewer(t *testing.T) *world { t.Helper(); return newWorld(t) }

func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	e := env("slow")
	e.Progress = func(done, total float64, message string) {
		assert.InDelta(t, 1, done, 0)
		assert.InDelta(t, 2, total, 0)
		assert.Equal(t, "half", message)
		cancel(fault.New(fault.Cancelled, "enough"))
	}
	_, err := w.attempt(ctx, e, "lab__slow", `{}`)
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	w.write("go", "go")
	_, err = w.call("lab__slow", `{}`)
	require.NoError(t, err)
}

// Recorded tools are known without a server.
func TestRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := w.catalogue.Names()
	w.open(func(c *gateway.Config) { c.Connect = gateway.Never })
	assert.Equal(t, names, w.catalogue.Names())
	w.define("lab", map[string]any{"tools": []string{"e*", "w*", "!wipe"}, "effects": map[string]string{"e*": "destructive"}})
	w.open(func(c *gateway.Config) { c.Connect = gateway.Never })
	assert.Equal(t, []string{"lab__echo", "lab__write"}, w.catalogue.Names())
	assert.Equal(t, tools.Destructive, w.tool("lab__echo").Spec().Effect)
	w.open()
	assert.Equal(t, []string{"lab__echo", "lab__write"}, w.catalogue.Names())
	_, err := w.call("lab__write", `{"text":"x"}`)
	require.NoError(t, err)

	for _, e := range w.Entries() {
		m, err := gateway.Mirror(e)
		require.NoError(t, err)
		assert.Equal(t, w.tool(e.Spec.Name).Spec(), m.Spec())
		_, err = m.Check(json.RawMessage(`{"text":1}`))
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		_, err = m.Call(t.Context(), env("x"), json.RawMessage(`{"text":"x"}`))
		assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	}
}

// A server that has other tools each time fills no disk: beyond a size nothing of it counts any more.
func TestRecordHasASize(t *testing.T) {
	t.Parallel()
	need.Long(t)
	w := newWorld(t)
	w.close()
	file := filepath.Join(w.home, ".orch", "state", "mcp-tools", "lab.json")
	full := []byte(`{"tools":{"old":{"gone":true,"accepted":"` + strings.Repeat("x", 64<<20) + `"}}}`)
	require.NoError(t, os.WriteFile(file, full, 0o600))
	w.open(func(c *gateway.Config) { c.Connect = gateway.AtOnce })
	require.NoError(t, w.Ready(t.Context()))
	assert.Empty(t, w.catalogue.Names())
	assert.Contains(t, w.log.String(), "mcp_definitions_unrecorded")
	assert.Contains(t, w.log.String(), "total more than 64 MiB")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, int64(len(full)), info.Size())
}

// A disabled server keeps its names, and its calls say why they are refused (S1-052, S1-054).
func TestDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.call("lab__write", `{"text":"x"}`)
	require.NoError(t, err)
	replaced := w.catalogue.Replaced()
	require.NoError(t, w.Servers().Disable(t.Context(), "lab"))
	<-replaced
	_, err = w.call("lab__write", `{"text":"x"}`)
	assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
	require.ErrorIs(t, err, registry.ErrToolDisabled)
	assert.Empty(t, w.catalogue.Names())
	replaced = w.catalogue.Replaced()
	require.NoError(t, w.Servers().Enable(t.Context(), "lab"))
	<-replaced
	_, err = w.call("lab__write", `{"text":"x"}`)
	require.NoError(t, err)
	assert.Equal(t, "write x\nwrite x\n", w.ledger())
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(t, []registry.Change{
		{Kind: registry.ToolLoaded, Server: "lab"}, {Kind: registry.ToolDisabled, Server: "lab"}, {Kind: registry.ToolEnabled, Server: "lab"},
	}, w.changes)
}

// Two names that become one in the catalogue share its trust: a tool that replaces another is a change of that tool.
func TestTwins(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"one after the other": "one-two", "both": "one/two one-two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			restart := func(twins string) {
				w.close()
				w.write("twins", twins)
				w.open()
				require.NoError(t, w.Ready(t.Context()))
			}
			w.close()
			require.NoError(t, os.RemoveAll(filepath.Join(w.home, ".orch", "state"))) // it is seen for the first time
			restart(first)
			_, err := w.call("lab__one-two", `{}`)
			require.NoError(t, err)
			assert.Equal(t, "Is called one-two", w.tool("lab__one-two").Spec().Purpose)
			restart("one/two")
			_, err = w.call("lab__one-two", `{}`)
			assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
			_, err = w.call("lab.one/two", `{}`)
			assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
			waiting := slices.DeleteFunc(w.Definitions("lab"), func(d gateway.Definition) bool { return d.Status != gateway.Changed })
			require.Len(t, waiting, 1)
			assert.Equal(t, "one/two", waiting[0].Tool)
			assert.Contains(t, waiting[0].Diff, "-  \"description\": \"Is called one-two\",\n+  \"description\": \"Is called one/two\",")
			_, err = w.Accept("lab", map[string]string{"one/two": waiting[0].SHA256}, "user:ada")
			require.NoError(t, err)
			_, err = w.call("lab__one-two", `{}`)
			require.NoError(t, err)
			restart("one-two")
			_, err = w.call("lab__one-two", `{}`)
			require.NoError(t, err, "it is as it was accepted")
			assert.Equal(t, "one-two \none/two \none-two \n", w.ledger())
		})
	}
}

// Hidden characters are shown before a tool is used, whatever hides them.
func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	need.Long(t)
	w := newWorld(t)
	w.close()
	shown := []string{"❤️\u200d🔥", "1️⃣", "नमस्ते \u0915\u094d\u200d\u0937", "naïve"}
	for _, text := range append(shown, "\u3164", "\u115f", "\U000e0002", "\u034f", "\u2800", "\ufff0", "a\u200db", "a\u200d\u200d", "❤\ufe0f\ufe0f", "ok\ufe0f", "a"+strings.Repeat("\u0301", 20)) {
		w.write("shifty", text)
		require.NoError(t, os.RemoveAll(filepath.Join(w.home, ".orch", "state")))
		w.open()
		assert.Equal(t, !slices.Contains(shown, text), slices.Contains(w.catalogue.Refused(), "lab__shifty"), "%q", text)
		w.close()
	}
}

// A call uses the definition of the connection that carries it, even before the catalogue has it.
func TestCallOfChangedDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.call("lab__shifty", `{}`)
	require.NoError(t, err)
	lock, err := os.Open(filepath.Join(w.home, ".orch", "state", "mcp-tools", ".lock"))
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)) // nothing is recorded meanwhile
	defer lock.Close()
	w.write("shifty", "nice")
	_, err = w.call("lab__shift", `{}`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		all, err := w.Servers().Defined()
		return err == nil && slices.ContainsFunc(all["lab"].Tools, func(tool *registry.Tool) bool { return tool.Description == "Is nice" })
	}, patience, time.Millisecond)
	_, err = w.call("lab__shifty", `{}`)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%v", err)
	assert.Equal(t, 1, strings.Count(w.ledger(), "shifty"))
	require.NoError(t, lock.Close())
	require.Eventually(t, func() bool { return slices.Contains(w.catalogue.Refused(), "lab__shifty") }, patience, time.Millisecond)
}

// A call that waits for an answer ends at the server when its task has ended.
func TestAbandonedQuestions(t *testing.T) {
	t.Parallel()
	w := newOlder(t)
	var over atomic.Bool
	w.open(func(c *gateway.Config) {
		c.CallEnded = func(_ context.Context, call gateway.Call) bool {
			return call == gateway.Call{Task: "TASK_1", Step: "lab__look"} && over.Load()
		}
	})
	next := w.asked("lab__look", ada)
	w.EndAbandoned(t.Context())
	out, err := w.attempt(t.Context(), next, "lab__look", `{}`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"content":[{"type":"text","text":"accept Ada"}]}`, out)
	over.Store(true)
	for range 110 { // more than the limit of concurrent questions
		w.asked("lab__look", ada)
		w.EndAbandoned(t.Context())
	}
}

// A server gets from the client's model only its own context, and nothing of other servers.
func TestModestSampling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.call("lab__think", `{}`)
	asking, ok := errors.AsType[*tools.Asking](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, string(asking.Questions[0].Params), `"includeContext":"none"`)
	w.write("greedy", "yes")
	_, err = w.call("lab__think", `{}`)
	assert.Equal(t, fault.ToolFailed, fault.CodeOf(err))
	require.ErrorContains(t, err, "tools of a sampling were not offered")
}
