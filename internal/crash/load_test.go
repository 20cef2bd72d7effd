package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/crash"
	"github.com/orch-dev/orch/orchestrator"
)

const (
	// submitters work at the same time, each with a pause of at most submitEvery between two tasks.
	submitters  = 4
	submitEvery = 60 * time.Millisecond
	// answerWithin is how long an answer may stay away while nodes die and return.
	answerWithin = 30 * time.Second
	// oneAnswer is how long a client waits for one answer before it asks again.
	oneAnswer = 5 * time.Second
	// retryEvery is the pause of a client that could not reach the node.
	retryEvery = 20 * time.Millisecond
)

// job is a kind of task that submitters ask for.
type job struct {
	name string
	plan string
	// cancel is set for tasks that their submitter cancels.
	cancel bool
}

func jobs() []job {
	const once = "    retry: {max_attempts: 100, initial: 20ms, max: 100ms}\n"
	step := func(id, tool, more string) string {
		return "  - id: " + id + "\n    tool: " + tool + "\n" + once + more
	}
	head := func(name string) string { return "orch: v1\nname: " + name + "\nsteps:\n" }
	return []job{
		{name: "read", plan: head("read") + step("a", crash.ToolRead, "")},
		{name: "idem", plan: head("idem") + step("a", crash.ToolIdem, "")},
		{name: "write", plan: head("write") + step("a", crash.ToolWrite, "")},
		{name: "chain", plan: head("chain") + step("a", crash.ToolRead, "") +
			step("b", crash.ToolIdem, "    needs: [a]\n") + step("c", crash.ToolWrite, "    needs: [b]\n")},
		{name: "each", plan: head("each") + "  - id: each\n    for_each: \"[1, 2, 3, 4]\"\n    max_parallel: 2\n    do:\n" +
			"      - {id: i, tool: CRASH_IDEM, retry: {max_attempts: 100, initial: 20ms, max: 100ms}}\n" +
			"      - {id: w, needs: [i], tool: CRASH_WRITE}\n"},
		{name: "timer", plan: head("timer") + "  - {id: w, wait: {for: 50ms}}\n" + step("a", crash.ToolIdem, "    needs: [w]\n")},
		{name: "sub", plan: head("sub") + "  - id: sub\n    run:\n      orch: v1\n      name: inner\n      steps:\n" +
			"        - {id: w, tool: CRASH_WRITE}\n        - {id: r, needs: [w], tool: CRASH_READ, retry: {max_attempts: 100, initial: 20ms, max: 100ms}}\n" +
			step("z", crash.ToolIdem, "    needs: [sub]\n")},
		{name: "slow", plan: head("slow") + step("a", crash.ToolSlow, "")},
		{name: "child", plan: head("child") + step("a", crash.ToolChild, "")},
		{name: "cancelled", cancel: true, plan: head("cancelled") + step("a", crash.ToolIdem, "") +
			"  - {id: w, needs: [a], wait: {for: 1h}}\n"},
	}
}

// load is what clients do and were told.
type load struct {
	api      orchestrator.API
	watcher  orchestrator.API
	watching sync.WaitGroup

	mu         sync.Mutex
	acks       []crash.Ack
	cancels    []events.TaskID
	watches    []crash.Watch
	violations []crash.Violation
	repeats    int // answers to requests whose first outcome stayed unknown
}

func (l *load) violate(invariant string, task events.TaskID, round int, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, crash.Violation{Invariant: invariant, Task: task, Round: round, What: fmt.Sprintf(format, args...)})
}

// run submits tasks until stop is closed and returns when every request has its answer.
func (l *load) run(ctx context.Context, stop <-chan struct{}, seed uint64, round int) {
	var group sync.WaitGroup
	for i := range submitters {
		rng := rand.New(rand.NewPCG(seed, uint64(round*submitters+i)))
		group.Go(func() {
			for n := 0; !closed(stop); n++ {
				l.one(ctx, rng, round, fmt.Sprintf("%d-%d-%d", round, i, n))
				pause(ctx, rand.N(submitEvery))
			}
		})
	}
	group.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// one submits a task, follows some of them and repeats some requests.
func (l *load) one(ctx context.Context, rng *rand.Rand, round int, name string) {
	kinds := jobs()
	j := kinds[rng.IntN(len(kinds))]
	text, err := json.Marshal(j.plan)
	if err != nil {
		l.violate("I1", "", round, "%v", err)
		return
	}
	r := orchestrator.SubmitRequest{Plan: text, Actor: "user:submitter"}
	if rng.IntN(2) == 0 {
		r.IdempotencyKey = "job-" + name
	} else {
		r.ID = events.NewTaskID(time.Now())
	}
	follow, again := rng.IntN(4) == 0, rng.IntN(8) == 0
	id, ok := l.submit(ctx, r, round, false)
	if !ok {
		return
	}
	l.mu.Lock()
	l.acks = append(l.acks, crash.Ack{Task: id, Key: r.IdempotencyKey, Round: round, At: time.Now()})
	l.mu.Unlock()
	if follow {
		l.watching.Go(func() { l.watch(ctx, id, round) })
	}
	if again {
		if other, ok := l.submit(ctx, r, round, true); ok && other != id {
			l.violate("I1", other, round, "the repeated request for %s made another task", id)
		}
	}
	if j.cancel {
		l.cancel(ctx, id, round)
	}
}

// submit asks until there is an answer. repeated is set when the task exists already.
func (l *load) submit(ctx context.Context, r orchestrator.SubmitRequest, round int, repeated bool) (events.TaskID, bool) {
	reply, tries, err := insist(ctx, l.api.Submit, r)
	switch {
	case err != nil:
		l.violate("I1", r.ID, round, "a submission failed: %v", err)
	case repeated && !reply.Existing:
		l.violate("I4", reply.ID, round, "an acknowledged task was made once more")
	case tries > 1:
		l.mu.Lock()
		l.repeats++
		l.mu.Unlock()
	}
	return reply.ID, err == nil
}

func (l *load) cancel(ctx context.Context, id events.TaskID, round int) {
	_, tries, err := insist(ctx, l.api.Cancel, orchestrator.CancelRequest{ID: id, Actor: "user:submitter"})
	if tries > 1 && fault.Has(err, fault.StateNotAllowed) {
		err = nil // the first try had done it
	}
	if err != nil {
		l.violate("I10", id, round, "a cancellation failed: %v", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels = append(l.cancels, id)
}

// insist repeats a request whose outcome is unknown.
func insist[In, Out any](ctx context.Context, ask func(context.Context, In) (Out, error), in In) (out Out, tries int, err error) {
	all, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	for {
		tries++
		one, end := context.WithTimeout(all, oneAnswer)
		out, err = ask(one, in)
		end()
		if !unknown(err) || !pause(all, retryEvery) {
			return out, tries, err
		}
	}
}

// unknown reports whether the node may or may not have done what it was asked.
func unknown(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout)
}

// watch follows a task to its end by revision, across all deaths of the node.
func (l *load) watch(ctx context.Context, id events.TaskID, round int) {
	w := crash.Watch{Task: id}
	last := uint64(0)
	for !w.Over && ctx.Err() == nil {
		one, stop := context.WithTimeout(ctx, oneAnswer)
		reply, err := l.watcher.Watch(one, orchestrator.WatchRequest{ID: id, After: last, Wait: 2 * time.Second, Limit: 3})
		stop()
		if unknown(err) {
			pause(ctx, retryEvery)
			continue
		}
		if err != nil && ctx.Err() == nil {
			l.violate("I8", id, round, "a watcher was sent away: %v", err)
			break
		}
		for _, c := range reply.Commits {
			w.Seen = append(w.Seen, crash.Sighting{Seq: c.Seq, Rev: c.Rev, Hash: c.Hash})
			last = c.Rev
		}
		w.Over = reply.Over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches = append(l.watches, w)
}

// ackedIn returns the tasks that were acknowledged in a round.
func (l *load) ackedIn(round int) []events.TaskID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []events.TaskID
	for _, a := range l.acks {
		if a.Round == round {
			list = append(list, a.Task)
		}
	}
	return list
}
