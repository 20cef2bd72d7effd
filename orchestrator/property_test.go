package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// randomPlan draws a plan: a graph of steps of every kind.
func randomPlan(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("orch: v1\n")
	if rapid.IntRange(0, 4).Draw(t, "key") == 0 {
		b.WriteString("concurrency: {key: k}\n")
	}
	b.WriteString("steps:\n")
	ids := []string{}
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		id := fmt.Sprintf("s%d", i)
		needs := rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{""}, ids...)), 0, 2, rapid.ID).Draw(t, "needs")
		b.WriteString("  - {id: " + id + needsText(needs) + randomStep(t) + "}\n")
		ids = append(ids, id)
	}
	if rapid.Bool().Draw(t, "always") {
		b.WriteString("always: [{id: z, tool: WRITE2}]\n")
	}
	return b.String()
}

func needsText(needs []string) string {
	var known []string
	for _, n := range needs {
		if n != "" {
			known = append(known, n)
		}
	}
	return ", needs: [" + strings.Join(known, ", ") + "]"
}

func randomStep(t *rapid.T) string {
	onError := rapid.SampledFrom([]string{"", ", on_error: continue", ", on_error: skip_dependents"}).Draw(t, "on_error")
	retry := rapid.SampledFrom([]string{"", ", retry: {max_attempts: 3}"}).Draw(t, "retry")
	return rapid.SampledFrom([]string{
		", tool: READ" + onError + retry, ", tool: WRITE" + onError + retry, ", tool: IDEM" + retry, ", tool: WRITE",
		", tool: WRITE, verify: {tool: READ2, with: {text: probe}, expect: output.n == 1}",
		", set: {x: 1}", ", wait: {for: 3s}", ", wait: {signal: go, timeout: 5s, default: 1}",
		", for_each: 1..3, max_parallel: 2, do: [{id: r, tool: READ" + retry + "}, {id: w, needs: [r], tool: WRITE}]",
		", for_each: 1..3, on_item_error: continue, do: [{id: w, tool: WRITE}]",
		", run: {orch: v1, steps: [{id: w, tool: WRITE}, {id: r, needs: [w], tool: READ}]}",
		", tool: SPAWN" + onError + retry,
	}).Draw(t, "step")
}

// world is one random run.
type world struct {
	t     *rapid.T
	node  *node
	log   *memlog.Log
	book  *ledger
	tasks []events.TaskID
	held  []heldCall
	// taken are all calls that workers ever got.
	taken []heldCall
	// refuse and lose determine what happens to the next append.
	refuse, lose atomic.Bool
	reports      []work.Outcome
	// jobs is how the work that calls have started elsewhere ended, by note: "" while it continues.
	jobs map[string]string
}

type heldCall struct {
	work.Call

	worker string
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, book: &ledger{effects: map[string]int{}}, jobs: map[string]string{}}
	once := func(flag *atomic.Bool) func(*events.Record) error {
		return func(*events.Record) error {
			if flag.CompareAndSwap(true, false) {
				return gone()
			}
			return nil
		}
	}
	w.log = memlog.New(memlog.Config{Fail: once(&w.refuse), LoseAnswer: once(&w.lose)})
	w.node = start(t, w.log, short)
	return w
}

// step performs one random action.
func (w *world) step() {
	ctx := context.Background()
	some := func() events.TaskID { return rapid.SampledFrom(w.tasks).Draw(w.t, "task") }
	switch rapid.SampledFrom(strings.Fields("submit poll poll poll finish finish finish finish lost pass pass repeat restart refuse lose cancel pause resume signal person answer")).Draw(w.t, "do") {
	case "submit":
		if len(w.tasks) < 4 {
			w.submit()
		}
	case "poll":
		w.poll(rapid.SampledFrom([]string{"w1", "w2"}).Draw(w.t, "worker"))
	case "finish":
		w.finish()
	case "lost":
		w.held = nil
	case "pass":
		w.pass(time.Duration(rapid.IntRange(1, 4000).Draw(w.t, "ms")) * time.Millisecond)
	case "repeat":
		if len(w.reports) > 0 {
			_ = w.node.Report(ctx, rapid.SampledFrom(w.reports).Draw(w.t, "outcome"))
		}
	case "restart":
		w.node.stop()
		w.node = start(w.t, w.log, short)
	case "refuse":
		w.refuse.Store(true)
	case "lose":
		w.lose.Store(true)
	case "cancel":
		if rapid.IntRange(0, 3).Draw(w.t, "really") == 0 {
			_ = w.node.cancel(some())
		}
	case "pause":
		_, _ = w.node.Pause(ctx, api.PauseRequest{ID: some()})
	case "resume":
		_, _ = w.node.Resume(ctx, api.PauseRequest{ID: some()})
	case "signal":
		_, _ = w.node.Signal(ctx, api.SignalRequest{ID: some(), Name: "go", Data: json.RawMessage(`2`)})
	case "person":
		person(w.node, w.book, some())
	case "answer":
		w.answerAll()
	}
	synctest.Wait()
}

func (w *world) submit() {
	key := fmt.Sprint("key", len(w.tasks))
	plan := randomPlan(w.t)
	for range 3 { // a client repeats a request without an answer
		if reply, err := w.node.trySubmit(plan, keyed(key)); err == nil {
			w.tasks = append(w.tasks, reply.ID)
			return
		} else if !fault.Has(err, fault.Unavailable) {
			w.t.Fatalf("%v\n%s", err, plan)
		}
	}
	w.t.Fatalf("the task cannot be submitted")
}

func (w *world) poll(worker string) {
	b, err := w.node.Poll(context.Background(), work.Poll{Worker: worker, Free: 2})
	if err != nil {
		return
	}
	for _, c := range b.Calls {
		// A restarted node may dispatch an attempt again to the worker that holds it. The worker runs it once.
		if again := slices.ContainsFunc(w.taken, func(h heldCall) bool { return h.Ref == c.Ref && h.worker == worker }); !again {
			w.held = append(w.held, heldCall{*c, worker})
			w.taken = append(w.taken, heldCall{*c, worker})
		}
	}
}

// finish ends one of the calls that workers hold, with or without success, perhaps long after its lease expired.
func (w *world) finish() {
	if len(w.held) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(w.t, "call")
	c := w.held[i]
	w.held = append(w.held[:i:i], w.held[i+1:]...)
	how := rapid.SampledFrom(strings.Fields("ok ok ok asks notes notes tool_error transport shutdown dies")).Draw(w.t, "how")
	w.perform(c, how)
}

func (w *world) perform(c heldCall, how string) {
	ctx := context.Background()
	if c.Effect == "write" && c.Note == nil && w.node.Start(ctx, startedBy(c.worker, c.Call)) != nil {
		return
	}
	o := work.Outcome{Ref: c.Ref, Worker: c.worker, StartedAt: time.Now(), Output: json.RawMessage(`{"n":0}`)}
	switch {
	case how == "asks" && c.Tool != "READ2" && len(c.Answers) < 3:
		o.Output, o.Questions = nil, []work.Question{elicit(fmt.Sprint("k", len(c.Answers)))}
	case c.Note != nil:
		how = w.lookAfter(c, how, &o)
	case how == "notes" && (c.Tool == "WRITE" || c.Tool == "IDEM" || c.Tool == "WRITE2"):
		w.book.add(c.Key())
		note := fmt.Sprintf(`{"job":%d}`, len(w.jobs))
		w.jobs[note] = ""
		o.Output, o.Note = nil, json.RawMessage(note)
	case c.Tool == "READ2": // the verify tool checks what has happened
		key, _, _ := strings.Cut(c.Key(), "!")
		o.Output = json.RawMessage(fmt.Sprintf(`{"n":%d}`, w.book.count(key)))
	case c.Tool == "SPAWN" && (how == "ok" || how == "asks" || how == "notes"):
		o.Output, o.Spawn = nil, w.node.spawning(c.worker, c.Call, agentPlan, "p").Spawn
	case how == "ok" || how == "dies" || how == "asks" || how == "notes":
		w.book.add(c.Key())
	default:
		o.Output, o.Error, o.Class = nil, fault.New(fault.ExecFailed, "it failed before its effect"), how
	}
	if how == "dies" {
		return
	}
	w.reports = append(w.reports, o)
	_ = w.node.Report(ctx, o)
}

// lookAfter ends a call with a note according to the end of what it has started elsewhere, which ends once. A failure there has
// no effect.
func (w *world) lookAfter(c heldCall, how string, o *work.Outcome) string {
	job := string(c.Note)
	if how == "shutdown" || how == "dies" {
		o.Output, o.Error, o.Class = nil, fault.New(fault.Unavailable, "the worker stops"), how
		return how
	}
	if w.jobs[job] == "" {
		w.jobs[job] = "ok"
		if how == "tool_error" {
			w.jobs[job] = how
			w.book.undo(c.Key())
		}
	}
	if w.jobs[job] == "tool_error" {
		o.Output, o.Error, o.Class = nil, fault.New(fault.ExecFailed, "it failed elsewhere"), "tool_error"
	}
	return how
}

// answerAll answers all open questions.
func (w *world) answerAll() {
	list, err := w.node.Questions(context.Background(), api.QuestionsRequest{})
	if err != nil {
		return
	}
	for _, q := range list.Questions {
		_, _ = w.node.answer(q.ID, ada)
	}
}

func (w *world) pass(d time.Duration) { <-time.After(d) }

// settle ends all faults and waits until every task has ended.
func (w *world) settle() {
	w.refuse.Store(false)
	w.lose.Store(false)
	w.held = nil
	for range 400 {
		open := w.node.list(api.ListRequest{States: []statemachine.State{
			statemachine.NeedsAction, statemachine.InProgress, statemachine.Blocked, statemachine.Completed,
		}})
		if len(open) == 0 {
			return
		}
		for _, task := range open {
			_, _ = w.node.Resume(context.Background(), api.PauseRequest{ID: task.ID})
			person(w.node, w.book, task.ID)
		}
		w.answerAll()
		w.poll("w3")
		for _, c := range w.held {
			w.perform(c, "ok")
		}
		w.held = nil
		w.pass(700 * time.Millisecond)
	}
	w.t.Fatalf("tasks do not end: %v", w.explain())
}

func (w *world) explain() []string {
	var all []string
	for _, task := range w.node.list(api.ListRequest{}) {
		if !task.State.Terminal() {
			all = append(all, fmt.Sprint(task.ID, task.State, w.node.cause(task.ID), w.node.kinds(task.ID)))
		}
	}
	return all
}

// timeless is a test without a deadline, because there is none inside a synctest bubble.
type timeless struct{ rapid.TB }

// TestRandomWorlds checks that whatever workers, the log and the node do, every task ends, its history is sound, replay equals
// live, also after a restart, and no call with effects happens twice (I1–I7, I10).
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(t *rapid.T) {
			w := newWorld(t)
			w.submit()
			for range rapid.IntRange(1, 60).Draw(t, "things") {
				w.step()
			}
			w.settle()
			for range 2 {
				for _, task := range w.node.list(api.ListRequest{}) {
					w.node.checkReplay(task.ID)
				}
				w.pass(2 * time.Second) // leases of calls that ended unheard
				w.node.checkIdle()
				w.node.stop()
				w.node = start(t, w.log, short)
			}
			w.checkEffects()
		})
	})
}

func (w *world) checkEffects() {
	for key, times := range w.book.effects {
		id, step := cutKey(key)
		if tool := effectOf(w.node, id, step); tool == "WRITE" || tool == "WRITE2" {
			require.Equal(w.t, 1, times, "effects of %s\n%s", key, w.story(id))
		}
	}
}

// story formats the history of a task for a failed test.
func (w *world) story(id events.TaskID) string {
	h, err := w.node.History(context.Background(), api.HistoryRequest{ID: id})
	require.NoError(w.t, err)
	var b strings.Builder
	for _, c := range h.Commits {
		data, err := json.Marshal(c.Events)
		require.NoError(w.t, err)
		fmt.Fprintf(&b, "%d %s %s %s\n", c.Rev, c.At.Format("04:05.000"), c.Actor, data)
	}
	return b.String()
}
