package outside_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// maxMemory bounds the memory of a node with a hostile server, in MiB.
const maxMemory = 400

// hostile is a world with the servers bad, of a kind, and good.
type hostile struct{ *world }

// TestHostile checks that a hostile server affects only its callers: the node continues within its memory limit,
// reports the problem, and leaves no process behind.
func TestHostile(t *testing.T) {
	t.Parallel()
	timeouts := map[string]string{"deaf": "1s"}
	//nolint:paralleltest // each node is measured alone
	for kind, check := range map[string]func(*testing.T, hostile){
		"silent": unknown, "deeper": unknown, "loop": unknown, "deaf": deafCase, "garbage": works, "huge": tooLarge, "endless": tooLarge, "wrong": wrongCase,
		"schemas": schemasCase, "many": manyCase, "names": namesCase, "shifty": shiftyCase, "stubborn": works, "asker": askerCase,
		"nested": nestedCase, "progress": floodCase, "changed": floodCase, "teller": tellerCase, "painter": painterCase,
	} {
		t.Run(kind, func(t *testing.T) {
			w := hostile{newWorld(t)}
			w.define("bad", kind, object{"timeout": cmp.Or(timeouts[kind], "1m"), "env": object{envPeer: kind, envDir: w.peerDir(), envSecret: "hunter2-hunter2"}})
			w.define("good", "usual", nil)
			node := w.spawn()
			check(t, w)
			out := w.run("steps: [{id: a, tool: good.echo, with: {text: x}}, {id: b, tool: BASH_EXECUTE, with: {command: echo y}}]\n" +
				"outputs: {said: \"${{ steps.a.output.content[0].text }}${{ steps.b.output.stdout }}\"}\n")
			assert.JSONEq(t, `{"said":"xy\n"}`, out)
			memory := peak(t, node.cmd.Process.Pid)
			t.Logf("%s: %d MiB at most", kind, memory)
			if !raced {
				assert.Less(t, memory, maxMemory)
			}
			node.terminate(t)
			w.nobodyIsLeft()
			assert.NotContains(t, w.logged(), "hunter2")
			assert.NotContains(t, w.logged(), "panic")
		})
	}
}

// peak returns the peak memory of a process in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib >> 10
}

// nobodyIsLeft checks that no process of a server is left.
func (w *world) nobodyIsLeft() {
	w.t.Helper()
	for text := range strings.FieldsSeq(w.peerFile("pid")) {
		pid, err := strconv.Atoi(text)
		require.NoError(w.t, err)
		assert.Eventually(w.t, func() bool { return hasEnded(pid) }, patience, 20*time.Millisecond, "process %d lives", pid)
	}
}

func hasEnded(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(text), ") Z ") || syscall.Kill(pid, 0) != nil
}

// The servers of a killed node end with it.
func TestKilledNodeLeavesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("bad", "stubborn", nil)
	node := w.spawn()
	w.run(one("bad.echo", "{text: x}"))
	require.Len(t, strings.Fields(w.peerFile("pid")), 2)
	node.kill()
	w.nobodyIsLeft()
}

// fails runs a plan that must fail, and returns why.
func (w *world) fails(plan string) *fault.Error {
	w.t.Helper()
	r := w.result(w.submit(plan))
	require.Equal(w.t, statemachine.Failed, r.State, "%s", r.Output)
	require.NotNil(w.t, r.Error)
	return r.Error
}

// unknown servers have no tools.
func unknown(t *testing.T, w hostile) {
	t.Helper()
	w.submit(one("good.echo", "{text: x}"))
	_, err := w.try(one("bad.echo", "{text: x}"))
	assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err))
	require.Eventually(t, func() bool {
		return strings.Contains(w.logged(), "server=bad from") || strings.Contains(w.logged(), "server=bad")
	}, patience, 20*time.Millisecond)
}

// works means that calls succeed nevertheless.
func works(t *testing.T, w hostile) {
	t.Helper()
	assert.Contains(t, w.run(one("bad.echo", "{text: x}")), "said")
}

// floodCase sends 100,000 notifications, or fewer in a short test.
func floodCase(t *testing.T, w hostile) {
	t.Helper()
	n := 10_000
	if os.Getenv("ORCH_OUTSIDE_FULL") != "" {
		n = 100_000
	}
	assert.JSONEq(t, `{"said":"flooded"}`, w.run(one("bad.echo", "{n: "+strconv.Itoa(n)+"}")))
}

func deafCase(t *testing.T, w hostile) {
	t.Helper()
	err := w.fails("steps: [{id: a, tool: bad.echo, with: {text: x}}]\n")
	assert.Equal(t, fault.Timeout, err.Code, "%v", err)
}

func tooLarge(t *testing.T, w hostile) {
	t.Helper()
	err := w.fails(one("bad.echo", "{text: x}"))
	assert.Equal(t, fault.ToolUnavailable, err.Code, "%v", err)
	assert.Contains(t, err.Message, "16 MiB")
}

func wrongCase(t *testing.T, w hostile) {
	t.Helper()
	for n := range 7 {
		err := w.fails(one("bad.echo", "{n: "+strconv.Itoa(n)+"}"))
		assert.NotContains(t, err.Message, "the outputs")
		assert.Contains(t, []fault.Code{fault.ToolFailed, fault.ToolUnavailable}, err.Code, "%d: %v", n, err)
	}
}

func schemasCase(t *testing.T, w hostile) {
	t.Helper()
	w.submit(one("bad.echo", "{text: x}"))
	for _, name := range []string{"bomb", "file"} {
		_, err := w.try(one("bad."+name, "{text: x}"))
		assert.Equal(t, fault.InvalidPlan, fault.CodeOf(err), name)
	}
	deep := strings.Repeat("{x: ", 20) + "{}" + strings.Repeat("}", 20)
	for name, args := range map[string]string{
		"twice": deep, "circle": "{}", "deep": deep, "pattern": "{text: " + strings.Repeat("a", 5000) + "b}", "repeat": "{text: " + strings.Repeat("a", 5000) + "}",
	} {
		begin := time.Now()
		id, err := w.try(one("bad."+name, args))
		if err == nil {
			r := w.result(id)
			t.Logf("%s: %s %v", name, r.State, r.Error)
			assert.NotContains(t, r.Reason, "file://")
			assert.Equal(t, name == "twice", r.State == statemachine.Failed && r.Error.Code == fault.ValidationError && strings.Contains(r.Error.Message, "too deep"), name)
		}
		assert.Less(t, time.Since(begin), patience, "%s: %v", name, err)
	}
}

func manyCase(t *testing.T, w hostile) {
	t.Helper()
	begin := time.Now()
	assert.Contains(t, w.run(one("bad.tool_9980", "{text: x}")), "called")
	t.Logf("10,000 tools were there after %s", time.Since(begin))
}

func namesCase(t *testing.T, w hostile) {
	t.Helper()
	assert.Contains(t, w.run(one("bad.echo", "{text: x}")), "said")
	assert.Contains(t, w.run(one("bad__a-b", "{text: x}")), "called a")
	for line := range strings.SplitSeq(w.logged(), "\n") {
		if strings.Contains(line, "mcp_tool") {
			t.Log(line)
		}
	}
	assert.NotContains(t, w.logged(), "mcp_tools_not_offered")
}

// A definition that changes while a call waits for its approval is not the one that was approved.
func shiftyCase(t *testing.T, w hostile) {
	t.Helper()
	waits := w.submit(one("bad.wipe", "{text: x}"))
	a := w.approval(waits)
	w.run(one("bad.echo", "{text: x}"))
	require.Eventually(t, func() bool { return strings.Contains(w.logged(), "tool=wipe reason=") }, patience, 10*time.Millisecond)
	_, err := w.api.Decide(t.Context(), api.DecideRequest{ID: a.ID, As: "granted", Actor: operator})
	if err == nil {
		r := w.result(waits)
		assert.Equal(t, statemachine.Failed, r.State)
		require.NotNil(t, r.Error)
		assert.Contains(t, []fault.Code{fault.ToolDisabled, fault.Conflict, fault.ToolUnavailable}, r.Error.Code, "%v", r.Error)
		t.Log(r.Error)
	}
	assert.Zero(t, w.calls("wipe"))
}

func askerCase(t *testing.T, w hostile) {
	t.Helper()
	id := w.submit(one("bad.echo", "{text: x}"))
	w.question(id)
	list, err := w.api.Questions(t.Context(), api.QuestionsRequest{Task: id})
	require.NoError(t, err)
	assert.LessOrEqual(t, len(list.Questions), 100)
	_, err = w.api.Cancel(t.Context(), api.CancelRequest{ID: id, Actor: operator})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Cancelled, w.result(id).State)
}

func nestedCase(t *testing.T, w hostile) {
	t.Helper()
	for n := range 4 {
		id := w.submit(one("bad.echo", "{n: "+strconv.Itoa(n)+"}"))
		r := w.result(id)
		t.Logf("%d: %s %v %s", n, r.State, r.Error, r.Output)
		assert.Contains(t, []statemachine.State{statemachine.Done, statemachine.Failed}, r.State)
	}
}

func tellerCase(t *testing.T, w hostile) {
	t.Helper()
	out := w.run(one("bad.echo", "{n: 0}"))
	assert.JSONEq(t, `{"said":"the secret is ***"}`, out)
	for _, n := range []string{"1", "2"} {
		err := w.fails(one("bad.echo", "{n: "+n+"}"))
		assert.Contains(t, err.Message, "the secret is ***")
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func painterCase(t *testing.T, w hostile) {
	t.Helper()
	for _, n := range []string{"0", "1"} {
		err := w.fails(one("bad.echo", "{n: "+n+"}"))
		assert.Equal(t, fault.ToolFailed, err.Code)
		assert.NotContains(t, err.Error(), "\x1b")
		assert.NotContains(t, err.Error(), "\u202e")
	}
}
