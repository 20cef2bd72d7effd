package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

const (
	// submitters work at the same time, each with a pause of at most submitEvery between two tasks.
	submitters  = 4
	submitEvery = 90 * time.Millisecond
	// answerWithin is how long an answer may stay away while nodes die and return.
	answerWithin = 30 * time.Second
	// oneAnswer is how long a client waits for an answer before it repeats the request.
	oneAnswer = 5 * time.Second
	// retryEvery is the pause of a client that could not reach the node.
	retryEvery = 20 * time.Millisecond
)

// job is a kind of task that submitters submit.
type job struct {
	name string
	plan string
	// cancel is set for tasks that their submitter cancels.
	cancel bool
	// cancelWithin is how long after the submission at most.
	cancelWithin time.Duration
	// deposit is the kind of the task's database write; "" for none.
	deposit string
	// says is the number of messages to its agent. chat is set for an agent that waits for them and is dismissed with the last one.
	says int
	chat bool
	// labels are those of the task.
	labels map[string]string
	// burst is the number of equal tasks that are submitted in one request; 0 means one by itself.
	burst int
}

func jobs() []job {
	const once = "    retry: {max_attempts: 100, initial: 20ms, max: 100ms}\n"
	step := func(id, tool, more string) string {
		return "  - id: " + id + "\n    tool: " + tool + "\n" + once + more
	}
	head := func(name string) string { return "orch: v1\nname: " + name + "\nsteps:\n" }
	return slices.Concat(modelJobs(), []job{
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
		{name: "slow", plan: head("slow") + step("a", crash.ToolSlow, "") + step("b", crash.ToolSlow, "") + step("c", crash.ToolSlow, "")},
		{name: "child", plan: head("child") + step("a", crash.ToolChild, "")},
		{name: "large", plan: head("large") + step("a", crash.ToolLarge, "") + step("b", crash.ToolRead, "    needs: [a]\n")},
		{name: "tell", plan: head("tell") + step("a", crash.ToolTell, "") + step("b", crash.ToolRead, "    needs: [a]\n")},
		{name: "point", plan: head("point") + step("p", "CHECKPOINT_CREATE", "    with: {checkpoint_name: half, state_data: {n: 1}}\n") +
			step("a", crash.ToolIdem, "    needs: [p]\n")},
		{name: "spawn", plan: head("spawn") + step("a", "TASK_SPAWN", "    with: {subagent_type: crew, prompt: go}\n") +
			step("b", crash.ToolRead, "    needs: [a]\n")},
		{name: "burst", burst: 24, plan: head("burst") + step("a", crash.ToolIdem, "")},
		{name: "cancelled", cancel: true, plan: head("cancelled") + step("a", crash.ToolIdem, "") +
			"  - {id: w, needs: [a], wait: {for: 1h}}\n"},
	})
}

// crewPlan is the agent of the job spawn.
const crewPlan = "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps:\n" +
	"  - {id: r, tool: CRASH_READ, retry: {max_attempts: 100, initial: 20ms, max: 100ms}}\n" +
	"  - {id: w, needs: [r], tool: CRASH_WRITE}\n"

// load is the state of the clients: their requests and the answers.
type load struct {
	api      api.API
	watcher  api.API
	watching sync.WaitGroup
	// talking are the clients that talk to agents.
	talking sync.WaitGroup
	// databases records the database writes of tasks; nil without a network. jobs are the kinds of tasks.
	databases *databaseClient
	jobs      []job
	// dial opens a connection of its own.
	dial func() (*rpc.Remote, error)

	mu         sync.Mutex
	acks       []crash.Ack
	cancels    []events.TaskID
	watches    []crash.Watch
	violations []crash.Violation
	repeats    int // answers to requests whose first outcome stayed unknown
	refusals   int // requests with a secret, which were refused
	looks      []look
	says       []crash.Say
	grants     int // extensions of budgets
	// watched maps the tasks with active watchers to their round.
	watched map[events.TaskID]int
}

func (l *load) violate(invariant string, task events.TaskID, round int, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, crash.Violation{Invariant: invariant, Task: task, Round: round, What: fmt.Sprintf(format, args...)})
}

func (l *load) violated() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.violations) > 0
}

// run submits tasks until stop is closed and returns when every request has its answer.
func (l *load) run(ctx context.Context, stop <-chan struct{}, seed uint64, round int) {
	var group sync.WaitGroup
	for i := range submitters {
		rng := rand.New(rand.NewPCG(seed, uint64(round*submitters+i)))
		group.Go(func() {
			for n := 0; !closed(stop); n++ {
				l.one(ctx, rng, round, fmt.Sprintf("%d-%d-%d", round, i, n))
				_ = pause.For(ctx, rand.N(submitEvery))
			}
		})
	}
	group.Wait()
	l.talking.Wait()
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
	j := l.jobs[rng.IntN(len(l.jobs))]
	text, err := json.Marshal(planOf(j, round, name))
	if err != nil {
		l.violate("I1", "", round, "%v", err)
		return
	}
	r := api.SubmitRequest{Plan: text, Actor: operator, Labels: j.labels}
	if rng.IntN(2) == 0 {
		r.IdempotencyKey, r.IdempotencyScope = "job-"+name, plan.ScopeForever
	} else {
		r.ID = events.NewTaskID(time.Now())
	}
	follow, again, afresh := rng.IntN(4) == 0, rng.IntN(8) == 0, rng.IntN(4) == 0
	switch {
	case j.burst > 0:
		l.burst(ctx, r, j.burst, round)
		return
	case rng.IntN(32) == 0:
		l.submitWithSecret(ctx, r, round)
	}
	asked := time.Now()
	id, ok := l.submit(ctx, r, round, false)
	if !ok {
		return
	}
	l.acknowledged(id, r.IdempotencyKey, round, asked)
	if j.deposit != "" {
		l.databases.expect(id, crash.DatabaseWrite{Name: writeName(j.name, name), Kind: j.deposit, Round: round})
	}
	if j.says > 0 {
		l.talking.Go(func() { l.talk(ctx, j, talk{id, name, round}) })
	}
	if follow {
		l.watching.Go(func() { l.watch(ctx, id, round, afresh) })
	}
	if again {
		if other, ok := l.submit(ctx, r, round, true); ok && other != id {
			l.violate("I1", other, round, "the repeated request for %s made another task", id)
		}
	}
	if j.cancel {
		_ = pause.For(ctx, rand.N(j.cancelWithin+1))
		l.cancel(ctx, id, round)
	}
}

// planOf is the plan of a job with the names that it has for this task.
func planOf(j job, round int, name string) string {
	return strings.NewReplacer("NAME", writeName(j.name, name), "ROUND", roundPath(round)).Replace(j.plan)
}

// acknowledged writes the journal.
func (l *load) acknowledged(id events.TaskID, key string, round int, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, crash.Ack{Task: id, Key: key, Round: round, At: time.Now()})
	l.looks = append(l.looks, look{task: id, what: submitted, asked: asked, answered: time.Now()})
}

// burst submits many tasks in one request, so that their commits go as one batch.
func (l *load) burst(ctx context.Context, r api.SubmitRequest, n, round int) {
	batch := api.SubmitBatchRequest{}
	r.IdempotencyKey = ""
	for range n {
		r.ID = events.NewTaskID(time.Now())
		batch.Tasks = append(batch.Tasks, r)
	}
	for asked := time.Now(); len(batch.Tasks) > 0; {
		reply, _, err := insist(ctx, l.api.SubmitBatch, batch)
		if err != nil {
			l.violate("I1", "", round, "a batch of submissions failed: %v", err)
			return
		}
		var left []api.SubmitRequest
		for i, item := range reply.Tasks {
			switch {
			case item.Error == nil:
				l.acknowledged(item.ID, "", round, asked)
			case unknown(item.Error):
				left = append(left, batch.Tasks[i])
			default:
				l.violate("I1", batch.Tasks[i].ID, round, "a submission of a batch failed: %v", item.Error)
			}
		}
		batch.Tasks = left
	}
}

// submitWithSecret submits a task with a secret in its name, which must be refused.
func (l *load) submitWithSecret(ctx context.Context, r api.SubmitRequest, round int) {
	r.Name, r.ID, r.IdempotencyKey = "with "+secret(), "", ""
	if _, _, err := insist(ctx, l.api.Submit, r); !fault.Has(err, fault.SecretDetected) {
		l.violate("I13", "", round, "a name with a secret was not refused: %v", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals++
}

// submit repeats a submission until it is answered. repeated is true when the task exists already.
func (l *load) submit(ctx context.Context, r api.SubmitRequest, round int, repeated bool) (events.TaskID, bool) {
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
	asked := time.Now()
	_, tries, err := insist(ctx, l.api.Cancel, api.CancelRequest{ID: id, Actor: operator})
	if fault.Has(err, fault.StateNotAllowed) {
		switch state := l.endOf(ctx, id); {
		case state != "" && (state != statemachine.Cancelled || tries == 1):
			return // the task was faster
		case tries > 1:
			err = nil // the first try has done it
		}
	}
	if err != nil {
		l.violate("I10", id, round, "a cancellation failed: %v", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels = append(l.cancels, id)
	l.looks = append(l.looks, look{task: id, what: cancelled, asked: asked, answered: time.Now()})
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
		if !unknown(err) || pause.For(all, retryEvery) != nil {
			return out, tries, err
		}
	}
}

// unknown reports whether the outcome of a request is unknown.
func unknown(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout)
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
