package workers_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// client is a client for a language.
type client struct {
	name, program, extension, folder string
}

func clients() []client {
	return []client{{"python", "python3", ".py", "python"}, {"typescript", "node", ".mjs", "typescript"}}
}

// command returns the command of a program of testdata.
func (c client) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	need.Program(t, c.program)
	folder, err := filepath.Abs(filepath.Join("..", "..", "clients", c.folder))
	require.NoError(t, err)
	return exec.Command(c.program, append([]string{filepath.Join("testdata", name+c.extension), folder}, args...)...)
}

// outcome is what the client of the tests prints.
type outcome struct {
	State  string          `json:"state"`
	Output json.RawMessage `json:"output"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// submit submits a plan with the client in a process of its own. The returned function waits for the result.
func (w *world) submit(c client, plan map[string]any, signals ...string) func() outcome {
	w.t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(w.t, err)
	cmd := c.command(w.t, "submit", append([]string{"http://" + w.address, w.token(), string(text), c.name}, signals...)...)
	var printed bytes.Buffer
	cmd.Stdout = &printed
	w.run(cmd)
	return func() (out outcome) {
		require.NoError(w.t, cmd.Wait())
		require.NoError(w.t, json.Unmarshal(printed.Bytes(), &out))
		return out
	}
}

// A plan is submitted, signalled and worked on by clients. The node and the worker are killed in the middle, and nothing is lost:
// each item has its result, and only calls in progress were made twice.
func TestClientsSurviveKills(t *testing.T) {
	t.Parallel()
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const items = 200
			numbers := make([]any, items)
			for i := range numbers {
				numbers[i] = i
			}
			plan := map[string]any{
				"orch": "v1", "name": "squares",
				"steps": []any{
					map[string]any{"id": "go", "wait": map[string]any{"signal": "go"}},
					map[string]any{
						"id": "each", "needs": []string{"go"}, "for_each": numbers, "max_parallel": 8, "do": []any{map[string]any{
							"id": "square", "tool": "AGENT_TASK", "effect": "idempotent", "heartbeat": "3s",
							"with": map[string]any{"title": "square", "requires": []string{"square"}, "data": map[string]any{"n": "${{ item }}"}},
						}},
					},
				},
				"outputs": map[string]any{"squares": "${{ map(steps.each.output, .square.result) }}", "factor": "${{ steps.go.output.factor }}"},
			}
			w := newWorld(t, "square")
			worker := w.run(c.command(t, "worker", w.credential, w.dir))
			result := w.submit(c, plan, "go")
			w.until("effects", 40)
			kill(w.node)
			w.start()
			w.until("effects", 100)
			kill(worker)
			worker = w.run(c.command(t, "worker", w.credential, w.dir))
			out := result()
			require.Equal(t, "DONE", out.State, out.Error.Message)
			var got struct {
				Squares []int `json:"squares"`
				Factor  int   `json:"factor"`
			}
			require.NoError(t, json.Unmarshal(out.Output, &got))
			assert.Equal(t, 3, got.Factor)
			require.Len(t, got.Squares, items)
			for i, square := range got.Squares {
				assert.Equal(t, i*i, square)
			}
			effects := w.lines("effects")
			assert.Len(t, distinct(effects), items)
			assert.LessOrEqual(t, len(effects), items+2*8, "only what was in progress is made twice")
			require.NoError(t, worker.Process.Signal(syscall.SIGTERM))
			require.NoError(t, worker.Wait(), "the worker ends cleanly")
		})
	}
}

func distinct(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		set[line] = true
	}
	return set
}

// A handler fails, gives its call back, and hears of a cancellation.
func TestClientsReportAndStop(t *testing.T) {
	t.Parallel()
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "fail", "busy", "until-stopped")
			w.run(c.command(t, "worker", w.credential, w.dir))
			step := func(id, capability, more string) string {
				return `{"orch":"v1","name":"` + id + `","steps":[{"id":"a","tool":"AGENT_TASK",` + more + `"with":{"title":"t","requires":["` + capability + `"]}}]}`
			}
			submit := func(plan string) outcome {
				t.Helper()
				cmd := w.orch("submit", "--wait", "-o", "json", "-")
				cmd.Stdin = bytes.NewReader([]byte(plan))
				printed, _ := cmd.Output() // the state says how it has ended
				var out outcome
				require.NoError(t, json.Unmarshal(printed, &out), strconv.Quote(string(printed)))
				return out
			}
			out := submit(step("fails", "fail", ""))
			assert.Equal(t, "FAILED", out.State)
			assert.Contains(t, out.Error.Message, "not a number")
			assert.Equal(t, "DONE", submit(step("busy", "busy", "")).State, "the call that was given back comes again")

			result := w.submit(c, mustPlan(t, step("stops", "until-stopped", "")))
			require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.dir, "begun")); return err == nil }, patience, 10*time.Millisecond)
			require.NoError(t, w.orch("cancel", "@last").Run())
			assert.Equal(t, "CANCELLED", result().State)
			require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.dir, "stopped")); return err == nil }, patience, 10*time.Millisecond)
		})
	}
}

func mustPlan(t *testing.T, text string) (plan map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &plan))
	return plan
}
