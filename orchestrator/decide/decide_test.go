package decide_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// noon returns the time at which every decision of these tests starts.
func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// world is a task with everything that its decisions depend on. It implements decide.Facts.
type world struct {
	t    *testing.T
	task *statemachine.Task
	plan decide.Plan
	now  time.Time
	// held are the workers that hold calls, by step. full keeps the task from acquiring its concurrency key.
	held map[string]string
	full bool
	// starts counts the starts of steps that a decision has tried; more than mayStart make it late. 0 means any number.
	starts, mayStart int
	// parts is how many items a part of a for_each has; 0 means the default.
	parts     int
	catalogue catalogue
	// values are the large values in memory.
	values map[string]json.RawMessage
	// ledgers are the budgets of the node. It is not known what was spent of them if unknownLedgers is set.
	ledgers        []decide.Ledger
	unknownLedgers bool
	// above are the budgets of the agents above.
	above []decide.Ledger
	// children are the costs of the child tasks.
	children map[events.TaskID]events.Spent
	// wakes are the timers that the task has set.
	wakes []time.Time
}

func (w *world) Wake(at time.Time) { w.wakes = append(w.wakes, at) }

func (w *world) Acquire() bool { return !w.full }

func (w *world) Requester() string { return w.task.Requestor }

func (w *world) Holder(step string) (worker string, held bool) {
	worker, held = w.held[step]
	return worker, held
}

func (w *world) Ledgers() ([]decide.Ledger, bool) { return slices.Clone(w.ledgers), !w.unknownLedgers }

func (w *world) Above() ([]decide.Ledger, bool) { return slices.Clone(w.above), true }

func (w *world) Children() map[events.TaskID]events.Spent { return w.children }

func (w *world) AwaitLedgers(now time.Time) { w.wakes = append(w.wakes, now) }

func (w *world) Overdue(string, time.Time) time.Duration { return 0 }
func (w *world) Limit(string) string                     { return "" }

func (w *world) CachedValue(ref string) (json.RawMessage, bool) {
	raw, ok := w.values[ref]
	return raw, ok
}

func (w *world) CacheValue(ref string, raw json.RawMessage) { w.values[ref] = raw }

func (w *world) TimeUp() bool {
	w.starts++
	return w.mayStart > 0 && w.starts > w.mayStart
}

type catalogue interface {
	Get(name string) (tools.Tool, bool)
	Names() []string
}

// noTools is an empty catalogue: every call counts as a write.
type noTools struct{}

func (noTools) Get(string) (tools.Tool, bool) { return nil, false }

func (noTools) Names() []string { return nil }

func (w *world) rules() *decide.Rules {
	return &decide.Rules{
		Models: prices{}, Catalogue: w.catalogue, Entropy: bytes.NewReader(bytes.Repeat([]byte{byte(7 + len(w.task.Approvals))}, 1<<10)), Random: func() float64 { return 0.5 }, MaxDeliveries: 3, MaxSpawned: 4, PartItems: w.parts, Counted: true,
		Workspace:  func(string, events.TaskID) string { return "" },
		Redact:     func(data []byte) ([]byte, bool) { return data, false },
		FindSecret: func(raw []byte) (string, bool) { return "test", bytes.Contains(raw, []byte("QYLPMN5HHHFPZAM2")) },
		HandOn:     func(decide.HandOn) error { return nil },
	}
}

// submitted returns a world with a new task.
func submitted(t *testing.T, steps string, change func(*events.Submitted)) *world {
	t.Helper()
	parsed, _, err := plan.Load("plan", []byte("orch: v1\n"+steps), plan.Options{Accepted: true})
	require.NoError(t, err)
	program, err := plan.Compile(parsed.JSON())
	require.NoError(t, err)
	w := &world{t: t, now: noon(), catalogue: noTools{}, values: map[string]json.RawMessage{}, held: map[string]string{}, plan: decide.Plan{Program: program}}
	w.task = &statemachine.Task{ID: "TASK_01JD0000000000000000000000", Requestor: "user:ada"}
	sub := &events.Submitted{Name: "test", Plan: events.Inline(parsed.JSON()), PlanSHA256: parsed.SHA256(), Priority: "normal"}
	if change != nil {
		change(sub)
	}
	require.NoError(t, w.task.Apply(w.now, events.Event{Kind: events.TaskSubmitted, Data: sub}))
	return w
}

// decide takes a decision and returns its events as text: their kinds, each with its step if it has one.
func (w *world) decide(say func(*decide.Turn) error) string {
	w.t.Helper()
	w.starts = 0
	r := decide.Reading{Task: w.task, Plan: &w.plan, Rules: w.rules(), Facts: w, Now: w.now}
	turn, err := decide.Decide(r, "user:ada", say)
	require.NoError(w.t, err)
	var said []string
	for _, e := range turn.Events {
		said = append(said, strings.TrimSpace(string(e.Kind)+" "+stepOf(w.t, e)))
	}
	return strings.Join(said, ", ")
}

func stepOf(t *testing.T, e events.Event) string {
	t.Helper()
	data, err := json.Marshal(e.Data)
	require.NoError(t, err)
	var of struct {
		Step string `json:"step"`
	}
	_ = json.Unmarshal(data, &of)
	return of.Step
}

// wake takes a decision without a command.
func (w *world) wake() string {
	w.t.Helper()
	return w.decide(func(*decide.Turn) error { return nil })
}

// begin is a worker that starts the call of a step. end is a worker that reports its outcome.
func (w *world) begin(step string) string {
	w.t.Helper()
	w.held[step] = "ada"
	return w.decide(func(t *decide.Turn) error {
		t.Attempts().Start(t.Task.Steps[step], work.Started{Worker: "ada"}, t.Now)
		return nil
	})
}

func (w *world) end(step string, o work.Outcome) string {
	w.t.Helper()
	defer delete(w.held, step)
	o.Ref, o.Worker = work.Ref{Task: w.task.ID, Step: step, Attempt: w.task.Steps[step].Attempt}, "ada"
	return w.decide(func(t *decide.Turn) error {
		require.False(w.t, t.Attempts().Report(&o, decide.Received{Output: events.Inline(o.Output)}))
		return nil
	})
}

func good() work.Outcome { return work.Outcome{Output: json.RawMessage(`{"n":1}`)} }

func bad(class string) work.Outcome {
	return work.Outcome{Error: fault.New(fault.ToolFailed, "it broke"), Class: class}
}

// What follows for a new task.
func TestBeginning(t *testing.T) {
	t.Parallel()
	const one = "steps: [{id: a, tool: READ}]\n"
	for name, test := range map[string]struct {
		plan   string
		change func(*events.Submitted)
		full   bool
		want   string
	}{
		"what needs nothing is ready":    {plan: "steps: [{id: a, tool: READ}, {id: b, tool: READ}, {id: c, tool: READ, needs: [a, b]}]\n", want: "step.ready a, step.ready b"},
		"a false condition skips":        {plan: "steps: [{id: a, tool: READ, if: 'false'}, {id: b, tool: READ}]\n", want: "step.skipped a, step.ready b"},
		"values are over at once":        {plan: "steps: [{id: a, set: {x: 1}}]\n", want: "task.started, step.succeeded a, task.finished"},
		"a list is expanded":             {plan: "steps: [{id: a, for_each: '[1, 2]', do: [{id: x, tool: READ}]}]\n", want: "task.started, step.expanded a, step.ready a[0].x, step.ready a[1].x"},
		"a question comes first":         {plan: "steps: [{id: ok, approve: {description: 'Go?'}}, {id: a, tool: READ, needs: [ok]}]\n", want: "approval.requested ok, task.approval_requested, step.parked ok"},
		"a wait waits":                   {plan: "steps: [{id: a, wait: {for: 1h}}]\n", want: "task.started, step.waiting a"},
		"a broken expression fails":      {plan: "inputs: {properties: {n: {type: integer, default: 0}}}\nsteps: [{id: a, set: {x: '${{ 1 % inputs.n }}'}}]\n", change: func(s *events.Submitted) { s.Inputs = events.Inline([]byte(`{"n":0}`)) }, want: "step.failed a, task.ending, task.failed"},
		"a delayed task waits":           {plan: one, change: func(s *events.Submitted) { s.NotBefore = new(noon().Add(time.Hour)) }, want: ""},
		"one past its deadline ends":     {plan: one, change: func(s *events.Submitted) { s.Deadline = new(noon()) }, want: "task.ending, task.failed"},
		"one without a free key waits":   {plan: one, full: true, want: ""},
		"one of a dependency is blocked": {plan: one, change: func(s *events.Submitted) { s.DependsOn = []events.TaskID{"TASK_01JD0000000000000000000001"} }, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitted(t, test.plan, test.change)
			w.full = test.full
			assert.Equal(t, test.want, w.wake())
			assert.Empty(t, w.wake(), "a second look says nothing new")
		})
	}
}

// How a call ends, and what follows.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan    string
		outcome work.Outcome
		want    string
	}{
		"success ends the task":               {"steps: [{id: a, tool: READ}]\n", good(), "step.succeeded a, task.finished"},
		"success makes the next ready":        {"steps: [{id: a, tool: READ}, {id: b, tool: READ, needs: [a]}]\n", good(), "step.succeeded a, step.ready b"},
		"failure ends the task":               {"steps: [{id: a, tool: READ}]\n", bad(fault.ClassToolError), "step.failed a, task.ending, task.failed"},
		"failure skips what needs it":         {"steps: [{id: a, tool: READ, on_error: skip_dependents}, {id: b, tool: READ, needs: [a]}]\n", bad(fault.ClassToolError), "step.failed a, step.skipped b, task.finished"},
		"failure is tried again":              {"steps: [{id: a, tool: READ, effect: read, retry: {max_attempts: 2}}]\n", bad(fault.ClassToolError), "step.retrying a"},
		"what is always done is done":         {"steps: [{id: a, tool: READ}]\nalways: [{id: z, tool: READ}]\n", bad(fault.ClassToolError), "step.failed a, task.ending, step.ready z"},
		"a lost read is made again":           {"steps: [{id: a, tool: READ, effect: read}]\n", bad(fault.ClassWorkerLost), "step.retrying a"},
		"a lost write is in doubt":            {"steps: [{id: a, tool: WRITE, effect: write}]\n", bad(fault.ClassWorkerLost), "step.in_doubt a, task.blocked"},
		"a lost write is verified if it can":  {"steps: [{id: a, tool: WRITE, effect: write, verify: {tool: READ, expect: 'output.n == 1'}}]\n", bad(fault.ClassWorkerLost), "step.in_doubt a, step.ready a!verify1"},
		"verification follows the last step":  {"steps: [{id: a, tool: READ}]\nverify: [{id: v, tool: READ}]\n", good(), "step.succeeded a, task.completed, step.ready v"},
		"an unexpected result is a failure":   {"steps: [{id: a, tool: READ, expect: 'output.n == 2'}]\n", good(), "step.failed a, task.ending, task.failed"},
		"what needs an approval is put aside": {"steps: [{id: a, tool: WRITE}]\n", work.Outcome{ApprovalRequest: &work.ApprovalRequest{Type: "pre_execution", Rule: "r", ArgsSHA256: "x"}}, "approval.requested a, task.approval_requested, step.parked a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitted(t, test.plan, nil)
			w.wake()
			require.Equal(t, "task.started, step.called a", w.begin("a"))
			assert.Equal(t, test.want, w.end("a", test.outcome))
		})
	}
}

// A result of an attempt that is no longer current changes nothing, and is recorded.
func TestLateResultsAreRefused(t *testing.T) {
	t.Parallel()
	w := submitted(t, "steps: [{id: a, tool: READ}, {id: b, tool: READ}]\n", nil)
	w.wake()
	w.begin("a")
	w.end("a", good())
	said := w.decide(func(turn *decide.Turn) error {
		late := good()
		late.Ref, late.Worker = work.Ref{Task: w.task.ID, Step: "a", Attempt: 1}, "bob"
		assert.True(t, turn.Attempts().Report(&late, decide.Received{Output: events.Inline(late.Output)}))
		return nil
	})
	assert.Equal(t, "result.refused a", said)
}

// What people decide about a call that waits for them.
func TestApprovals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		as, by, want, wrong string
	}{
		"granted":            {as: "granted", by: "user:eve", want: "approval.granted, step.ready a, task.approved"},
		"rejected":           {as: "rejected", by: "user:eve", want: "approval.rejected, step.failed a, task.declined, task.ending, task.failed"},
		"put back":           {as: "revise", by: "user:eve", want: "approval.rejected, step.resolved a, task.revised, task.paused"},
		"by who asks for it": {as: "granted", by: "task:TASK_01JD0000000000000000000000", wrong: "asks for this approval"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitted(t, "steps: [{id: a, tool: WRITE}]\n", nil)
			w.wake()
			w.begin("a")
			w.end("a", work.Outcome{ApprovalRequest: &work.ApprovalRequest{Type: "pre_execution", Rule: "r", ArgsSHA256: "x"}})
			a := w.task.Approvals[0]
			r := api.DecideRequest{ID: a.ID, As: test.as, Reason: "because", Actor: test.by}
			if test.wrong != "" {
				w.decide(func(turn *decide.Turn) error {
					assert.ErrorContains(t, turn.Approvals().MayDecide(a, r), test.wrong)
					return nil
				})
				return
			}
			assert.Equal(t, test.want, w.decide(func(turn *decide.Turn) error {
				require.NoError(t, turn.Approvals().MayDecide(a, r))
				return turn.Approvals().DecideApproval(a, r, nil)
			}))
		})
	}
}

// A task sets timers for itself; this is what follows when they fire.
func TestTimers(t *testing.T) {
	t.Parallel()
	w := submitted(t, "steps: [{id: a, wait: {for: 1h}}]\n", nil)
	w.wake()
	assert.Equal(t, []time.Time{noon().Add(time.Hour)}, w.wakes)
	w.now = noon().Add(time.Hour)
	assert.Equal(t, "step.succeeded a, task.finished", w.wake())
}

// A history never goes back in time: a decision under a clock that was set back takes the time of the history.
func TestClockThatGoesBack(t *testing.T) {
	t.Parallel()
	w := submitted(t, "steps: [{id: a, tool: READ}]\n", nil)
	w.now = noon().Add(-time.Hour)
	w.wake()
	assert.Equal(t, noon(), w.task.Steps["a"].Since)
}
