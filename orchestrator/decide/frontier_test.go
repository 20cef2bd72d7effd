package decide_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// A decision that visits only what events have touched decides the same as one that looks at the whole task: two worlds with the
// same history, of which the second forgets before each decision what is derived. Some decisions are late.
func TestDecisionsVisitWhatMayMove(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			text := randomPlan(r)
			p := &pair{t: t, text: text, r: r, quick: submitted(t, text, nil), whole: submitted(t, text, nil)}
			p.quick.parts = int(seed % 5)
			p.whole.parts = p.quick.parts
			p.do("wake", (*world).wake)
			for range 200 {
				if p.quick.task.State.Terminal() {
					return
				}
				p.move()
			}
		})
	}
}

// pair is a task that is decided about twice.
type pair struct {
	t            *testing.T
	text         string
	r            *rand.Rand
	quick, whole *world
}

// do makes the same decision in both worlds.
func (p *pair) do(what string, turn func(*world) string) {
	p.t.Helper()
	p.whole.forget()
	quick, whole := turn(p.quick), turn(p.whole)
	require.Equal(p.t, whole, quick, "%s\n%s", p.text, what)
	require.Equal(p.t, p.whole.task.State, p.quick.task.State)
}

// forget drops what is derived from the task and its plan.
func (w *world) forget() { w.plan = decide.Plan{Program: w.plan.Program} }

// move lets something happen to the task.
func (p *pair) move() {
	ready, running := p.quick.task.In(statemachine.StepReady), p.quick.task.In(statemachine.StepRunning)
	parts := slices.DeleteFunc(slices.Clone(running), func(s *statemachine.Step) bool { return s.Parallel == 0 })
	running = withCalls(running)
	p.quick.mayStart, p.whole.mayStart = 0, 0
	if p.r.IntN(3) == 0 {
		late := 1 + p.r.IntN(2)
		p.quick.mayStart, p.whole.mayStart = late, late
	}
	switch n := p.r.IntN(20); {
	case n == 0:
		later := time.Duration(p.r.IntN(120)) * time.Second
		p.quick.now, p.whole.now = p.quick.now.Add(later), p.whole.now.Add(later)
		p.do("later", (*world).wake)
	case n == 1:
		p.do("signal", func(w *world) string {
			return w.decide(func(t *decide.Turn) error {
				t.Emit(events.SignalReceived, &events.Signal{Name: "go"})
				return nil
			})
		})
	case n == 2:
		kind := events.TaskPaused
		if p.quick.task.Paused {
			kind = events.TaskResumed
		}
		p.do(string(kind), func(w *world) string {
			return w.decide(func(t *decide.Turn) error {
				t.Emit(kind, &events.Paused{})
				return nil
			})
		})
	case n == 3 && p.r.IntN(20) == 0:
		p.do("cancel", func(w *world) string {
			return w.decide(func(t *decide.Turn) error {
				t.Cancel("enough")
				return nil
			})
		})
	case n < 6 && len(parts) > 0:
		key, result := parts[p.r.IntN(len(parts))].Key, decide.PartResult{Output: events.Inline([]byte(`[{"a":{"n":1}}]`)), Calls: 2}
		if p.r.IntN(4) == 0 {
			result = decide.PartResult{Error: fault.New(fault.ToolFailed, "it broke"), Class: fault.ClassToolError}
		}
		p.do("end "+key, func(w *world) string {
			return w.decide(func(t *decide.Turn) error {
				t.EndPart(key, result)
				return nil
			})
		})
	case n < 12 && len(ready) > 0:
		key := ready[p.r.IntN(len(ready))].Key
		p.do("begin "+key, func(w *world) string { return w.begin(key) })
	case len(running) > 0:
		key := running[p.r.IntN(len(running))].Key
		outcome := good()
		if p.r.IntN(4) == 0 {
			outcome = bad([]string{fault.ClassToolError, fault.ClassWorkerLost, fault.ClassTimeout}[p.r.IntN(3)])
		}
		p.do("end "+key, func(w *world) string { return w.end(key, outcome) })
	}
}

// withCalls returns the steps whose calls are running.
func withCalls(steps []*statemachine.Step) (calls []*statemachine.Step) {
	for _, s := range steps {
		if s.Executing() {
			calls = append(calls, s)
		}
	}
	return calls
}

// randomPlan returns a plan of a few steps of all kinds.
func randomPlan(r *rand.Rand) string {
	var text strings.Builder
	text.WriteString("steps:\n")
	n := 1 + r.IntN(9)
	order := r.Perm(n) // a need may come later in the file
	for i := range n {
		var needs []string
		for j := range n {
			if order[j] < order[i] && r.IntN(3) == 0 {
				needs = append(needs, fmt.Sprint("s", j))
			}
		}
		fmt.Fprintf(&text, "  - {id: s%d, needs: [%s]%s, %s}\n", i, strings.Join(needs, ", "), onError(r), kindOf(r))
	}
	if r.IntN(3) == 0 {
		text.WriteString("verify:\n  - {id: v, tool: READ, effect: read}\n  - {id: v2, tool: READ, effect: read, needs: [v]}\n")
	}
	if r.IntN(3) == 0 {
		text.WriteString("always:\n  - {id: z, tool: READ, effect: read}\n  - {id: each, for_each: '[1, 2, 3]', do: [{id: y, tool: READ, effect: read}]}\n")
	}
	return text.String()
}

func onError(r *rand.Rand) string {
	return []string{"", ", on_error: continue", ", on_error: skip_dependents"}[r.IntN(3)]
}

// kindOf returns the kind of a random step with its fields.
func kindOf(r *rand.Rand) string {
	call := []string{
		"tool: READ, effect: read", "tool: READ, effect: read, retry: {max_attempts: 2}", "tool: WRITE, effect: write",
		"tool: WRITE, effect: write, verify: {tool: READ, expect: 'output.n == 1'}",
	}
	switch r.IntN(8) {
	case 0:
		return "set: {x: 1}"
	case 1:
		return []string{"wait: {for: 1m}", "wait: {signal: go}", "wait: {signal: go, timeout: 1m}"}[r.IntN(3)]
	case 2:
		return "if: 'false', tool: READ"
	case 3, 4:
		each := fmt.Sprintf("for_each: '1..%d', max_parallel: %d", 1+r.IntN(9), 1+r.IntN(4))
		if r.IntN(2) == 0 {
			each += ", on_item_error: continue"
		}
		return fmt.Sprintf("%s, do: [{id: a, %s}, {id: b, needs: [a]%s, %s}]", each, call[r.IntN(3)], onError(r), call[r.IntN(3)])
	default:
		return call[r.IntN(len(call))]
	}
}
