package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

const maxTasks = 6

// play runs the script.
func (w *world) play() {
	w.advanceTo(1)
	w.start(false)
	for _, a := range w.script.Acts {
		if len(w.wrong) > 0 {
			return
		}
		if w.tape != nil {
			w.logf("-- %s", a)
		}
		w.do(a)
		w.runUntilIdle()
		w.proceed(w.script.Toil)
		w.runUntilIdle()
		w.ageOps()
	}
}

// do does one thing of the script.
func (w *world) do(a act) {
	switch a.Do {
	case "pass":
		w.advance(time.Duration(1+a.A%4000)*time.Millisecond + time.Duration(a.B)*time.Microsecond)
	case "toil":
		w.proceed(8)
	case "poll", "beat", "die", "deaf", "leave":
		w.doWorker(a)
	case "duplicate":
		w.duplicate(a.A)
	case "submit", "again", "batch", "retry":
		w.doSubmit(a)
	case "crash", "crash_written", "refuse", "conflict", "lose", "late", "unread", "lose_reply":
		w.armed = append(w.armed, a.Do)
	case "land":
		w.appendLate()
	case "full":
		w.full = !w.full
	case "down", "takeover", "retire", "sides", "jump":
		w.doOwner(a)
	case "give_up":
		if len(w.calls) > 0 {
			w.calls[a.A%len(w.calls)].cancel()
		}
	case "hold":
		w.pauseOrResume(a)
	case "decide":
		w.decide([]string{"granted", "granted", "rejected", "revise"}[a.A%4], []string{"user:ada", "user:bob"}[a.B%2])
	case "answer":
		w.answerAll(a.A%3 == 0)
	case "note":
		w.noteNow(a)
	case "later":
		w.advance(21 * time.Second)
	case "expire":
		w.advance(map[bool]time.Duration{true: 61 * time.Minute, false: 2 * time.Minute}[w.clockwork == nil])
	case "put", "replace", "trigger", "pause_one", "resume_one", "backfill", "delete", "nap", "sleep", "clock":
		w.doSchedule(a)
	default:
		if len(w.tasks) > 0 {
			w.doTask(a, w.tasks[a.A%len(w.tasks)])
		}
	}
	if w.owner == nil && w.chance(1, 2) {
		w.start(w.chance(1, 16))
	}
}

func (w *world) doWorker(a act) {
	h := w.worker(a.A)
	switch a.Do {
	case "poll":
		w.poll(h, []time.Duration{0, 3 * time.Second, 20 * time.Second}[a.B%3])
	case "beat":
		w.beat(h)
	case "die":
		w.killWorker(h)
	case "deaf":
		h.deaf = !h.deaf
	case "leave":
		w.shutDownWorker(h)
	}
}

func (w *world) doOwner(a act) {
	switch a.Do {
	case "down":
		w.kill(w.owner)
	case "takeover":
		if w.owner != nil && w.old == nil {
			w.old, w.owner, w.overlapped = w.owner, nil, true
			w.start(false)
			if w.owner == nil {
				w.owner, w.old = w.old, nil
			}
		}
	case "retire":
		w.kill(w.old)
	case "sides":
		if w.owner != nil {
			w.owner.link.breakSides(a.B%2 == 0)
		}
	case "jump":
		w.skew.Add(int64(a.B%8000-4000) * int64(time.Millisecond))
	}
}

// doSubmit submits tasks.
func (w *world) doSubmit(a act) {
	switch a.Do {
	case "submit":
		w.submit(w.request(a))
	case "again":
		if len(w.asked) > 0 {
			w.submit(w.asked[a.A%len(w.asked)])
		}
	case "batch":
		w.batch(w.request(a), act{A: a.B, B: a.A})
	case "retry":
		if len(w.tasks) == 0 || len(w.tasks) >= maxTasks || slices.ContainsFunc(w.calls, func(c *call) bool { return strings.HasPrefix(c.label, "retry") }) {
			return
		}
		id, from := w.tasks[a.A%len(w.tasks)], []string{"", "s0"}[a.B%2]
		var reply api.SubmitReply
		w.call(w.any(), "retry "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
			reply, err = o.Retry(ctx, api.RetryRequest{ID: id, From: from})
			return err
		}, func(err error) { w.acknowledged(reply, err) })
	}
}

// request returns a submission; most have an idempotency key, so that they can be repeated.
func (w *world) request(a act) api.SubmitRequest {
	r := api.SubmitRequest{Plan: json.RawMessage(w.withKey(w.script.Plans[a.A%len(w.script.Plans)], a.B)), Actor: "user:sim"}
	if a.B%8 != 7 {
		r.IdempotencyKey = fmt.Sprint("key ", len(w.asked))
		r.IdempotencyScope = []string{"", plan.ScopeForever, plan.ScopeUntilEnd, "1s"}[a.B/8%4]
	}
	if a.B%5 == 4 {
		r.Delay = time.Duration(a.B) * time.Millisecond
	}
	if a.B%6 == 5 && len(w.tasks) > 0 {
		r.DependsOn = []events.TaskID{w.tasks[a.A%len(w.tasks)]}
	}
	r.Priority = []string{"", "", "critical", "low"}[a.A%4]
	return r
}

func (w *world) submit(r api.SubmitRequest) {
	if len(w.tasks) >= maxTasks {
		return
	}
	w.asked = append(w.asked, r)
	var reply api.SubmitReply
	w.call(w.any(), "submit "+r.IdempotencyKey, func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.Submit(ctx, r)
		return err
	}, func(err error) { w.acknowledged(reply, err) })
}

func (w *world) batch(first api.SubmitRequest, second act) {
	if len(w.tasks)+2 > maxTasks {
		return
	}
	w.asked = append(w.asked, first)
	requests := []api.SubmitRequest{first, w.request(second)}
	w.asked = append(w.asked, requests[1])
	var reply api.SubmitBatchReply
	w.call(w.any(), "submit batch", func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: requests})
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		for _, item := range reply.Tasks {
			if item.Error == nil {
				w.acknowledged(item.SubmitReply, nil)
			}
		}
	})
}

// acknowledged writes an accepted task into the journal.
func (w *world) acknowledged(reply api.SubmitReply, err error) {
	switch {
	case err == nil && !w.accepted[reply.ID]:
		w.accepted[reply.ID] = true
		w.tasks = append(w.tasks, reply.ID)
		w.logf("task %s", reply.ID)
	case err != nil && !passing(err) && !fault.Has(err, fault.Conflict) && !fault.Has(err, fault.StateNotAllowed) &&
		!fault.Has(err, fault.InDoubt) && !fault.Has(err, fault.NotFound) && !fault.Has(err, fault.Cancelled):
		w.fail("a submission is refused: %v", err)
	}
}

// passing reports whether a request may be retried.
func passing(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.DiskFull)
}

// pauseOrResume pauses or resumes the node, a queue or a tool.
func (w *world) pauseOrResume(a act) {
	r := []api.PauseRequest{{Node: true}, {Queue: "other"}, {Tool: "WRITE"}}[a.A%3]
	w.call(w.any(), fmt.Sprintf("hold %d %d", a.A%3, a.B%2), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		if a.B%2 == 0 {
			_, err = o.Pause(ctx, r)
		} else {
			_, err = o.Resume(ctx, r)
		}
		return err
	}, func(error) {})
}

// doTask does something to a task.
func (w *world) doTask(a act, id events.TaskID) {
	switch a.Do {
	case "cancel":
		if a.B%2 == 0 {
			w.cancel(id)
		}
	case "person":
		w.person(id)
	case "result":
		w.result(id, time.Duration(a.B)*time.Millisecond+time.Duration(500+w.callNo%400))
	case "say":
		w.say(id, a.B%4 == 0)
	default:
		w.command(a, id)
	}
}

// command sends a command of which only the consequences matter.
func (w *world) command(a act, id events.TaskID) {
	w.call(w.any(), a.Do+" "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		switch a.Do {
		case "pause":
			_, err = o.Pause(ctx, api.PauseRequest{ID: id})
		case "resume":
			_, err = o.Resume(ctx, api.PauseRequest{ID: id})
		case "signal":
			_, err = o.Signal(ctx, api.SignalRequest{ID: id, Name: "go", Data: json.RawMessage(`{"n":2}`)})
		case "checkpoint":
			_, err = o.Checkpoint(ctx, api.CheckpointRequest{Task: id, Name: "here", State: json.RawMessage(`{"a":1}`)})
		case "call":
			_, err = o.Call(ctx, api.CallRequest{ID: id, Tool: []string{"READ", "ANY", "WRITE"}[a.B%3]})
		case "archive":
			_, err = o.Archive(ctx, api.ArchiveRequest{Age: time.Second, Wait: time.Second})
		}
		return err
	}, func(error) {})
}

// say says something to the agent of a task, if it has one that works.
func (w *world) say(id events.TaskID, end bool) {
	w.sayings++
	r := api.SayRequest{ID: id, Text: fmt.Sprint("message ", w.sayings), End: end, Actor: "user:sim"}
	w.call(w.any(), fmt.Sprintf("say %d to %s", w.sayings, id), func(ctx context.Context, o *orchestrator.Orchestrator) error {
		_, err := o.Say(ctx, r)
		return err
	}, func(error) {})
}

func (w *world) cancel(id events.TaskID) {
	w.call(w.any(), "cancel "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) error {
		_, err := o.Cancel(ctx, api.CancelRequest{ID: id})
		return err
	}, func(err error) {
		if err == nil {
			w.cancelled[id] = true
		}
	})
}

// result waits for the end of a task and remembers how it ended (I9, I10).
func (w *world) result(id events.TaskID, wait time.Duration) {
	var reply api.ResultReply
	w.call(w.any(), "result "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.Result(ctx, api.ResultRequest{ID: id, Wait: wait})
		return err
	}, func(err error) {
		if err == nil && reply.Ended {
			w.observed(id, reply.State)
		}
	})
}

// observed records that a client saw the end of a task.
func (w *world) observed(id events.TaskID, state statemachine.State) {
	if before, seen := w.ended[id]; seen && before != string(state) {
		w.fail("task %s was seen %s and later %s", id, before, state)
	}
	w.ended[id] = string(state)
}

// person decides about the steps of a task that are in doubt, and those of its children, by looking at
// the ledger.
func (w *world) person(id events.TaskID) {
	var view api.TaskView
	w.call(w.owner, "get "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		view, err = o.Get(ctx, api.GetRequest{ID: id})
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		if view.State.Terminal() {
			w.observed(id, view.State)
		}
		for _, s := range view.Steps {
			if s.Child != "" && !s.State.Terminal() {
				w.person(s.Child)
			}
			if s.State == statemachine.StepInDoubt {
				w.resolve(id, s.Key)
			}
		}
	})
}

// decide decides about every approval that is pending.
func (w *world) decide(as, who string) {
	var list api.ApprovalsReply
	w.call(w.any(), "approvals", func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		list, err = o.Approvals(ctx, api.ApprovalsRequest{})
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		for _, a := range list.Approvals {
			r := api.DecideRequest{ID: a.ID, As: as, Reason: "so", Actor: who}
			w.call(w.any(), as+" "+a.ID, func(ctx context.Context, o *orchestrator.Orchestrator) error {
				_, err := o.Decide(ctx, r)
				return err
			}, func(error) {})
		}
	})
}

// answerAll answers every question that is open.
func (w *world) answerAll(declined bool) {
	var list api.QuestionsReply
	w.call(w.any(), "questions", func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		list, err = o.Questions(ctx, api.QuestionsRequest{})
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		for _, q := range list.Questions {
			r := api.AnswerRequest{Question: q.ID, Declined: declined, Actor: "user:sim"}
			if !declined {
				r.Response = json.RawMessage(`{"action":"accept","content":{"n":1}}`)
			}
			w.call(w.any(), "answer "+q.ID, func(ctx context.Context, o *orchestrator.Orchestrator) error {
				_, err := o.Answer(ctx, r)
				return err
			}, func(error) {})
		}
	})
}

// resolve resolves a step in doubt. If it decides that the call has not happened, it ensures that it never will.
func (w *world) resolve(id events.TaskID, step string) {
	key := string(id) + "/" + step
	r := api.ResolveRequest{ID: id, Step: step, As: "succeeded", Output: json.RawMessage(`{"n":1}`), Actor: "user:sim"}
	if w.ledger[key] == 0 {
		w.fence(key)
		r.As, r.Output = []string{"retry", "retry", "failed"}[w.rnd.IntN(3)], nil
	}
	w.call(w.owner, "resolve "+key+" as "+r.As, func(ctx context.Context, o *orchestrator.Orchestrator) error {
		_, err := o.Resolve(ctx, r)
		return err
	}, func(error) {})
}
