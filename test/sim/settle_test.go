package sim_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// settle stops all faults and waits until every task ends: by itself or, if it reports what it waits for, with the help
// of a person (I1).
func (w *world) settle() {
	w.logf("== the faults stop")
	w.armed, w.full = nil, false
	w.script.Patience, w.script.Errors, w.script.Asks, w.script.Inquires, w.script.Notes = 0, 0, 0, 0, 0
	for range 4 {
		w.ageOps()
	}
	w.kill(w.old)
	for len(w.late) > 0 || w.clockwork.hasLate() {
		w.appendLate()
	}
	if w.strayed || w.overlapped || w.clockwork.hasUnseen() {
		w.kill(w.owner) // a task, or a schedule, that this owner has never heard of is found at the next start
	}
	w.up()
	if w.owner == nil {
		w.fail("no owner comes up")
		return
	}
	w.owner.link.breakSides(false)
	w.runUntilIdle()
	w.release()
	keen := w.join()
	keen.queues = []string{"default", "other", work.NodeQueue, work.ModelsQueue}
	w.endSchedules()
	for round := range w.patience() {
		if len(w.wrong) > 0 || w.finished(round) {
			return
		}
		w.poll(keen, []time.Duration{0, time.Second}[round%2])
		w.runUntilIdle()
		for range 3 {
			w.proceed(8)
			w.runUntilIdle()
		}
		w.advance(700 * time.Millisecond)
	}
	w.fail("I1: tasks neither end nor say what they wait for: %v %s", w.owner.Leftovers(), w.explain())
}

// patience is how many rounds it may take until everything has ended. Firings that wait for each other take long.
func (w *world) patience() int {
	if w.clockwork == nil {
		return 400
	}
	return 6000
}

// release stops some of the workers with their calls; the others resume.
func (w *world) release() {
	for _, h := range slices.Clone(w.workers) {
		h.deaf = false
		if w.chance(1, 2) {
			w.killWorker(h)
		}
	}
	for _, r := range []api.PauseRequest{{Node: true}, {Queue: "other"}, {Tool: "WRITE"}} {
		w.now("release", func(ctx context.Context, o *orchestrator.Orchestrator) error {
			_, err := o.Resume(ctx, r)
			return err
		})
	}
}

// now makes a request that must be answered without delay if there are no faults.
func (w *world) now(label string, do func(ctx context.Context, o *orchestrator.Orchestrator) error) {
	heard := false
	w.call(w.owner, label, do, func(err error) {
		if heard = true; err != nil {
			w.fail("%s: %v", label, err)
		}
	})
	w.runUntilIdle()
	if !heard && len(w.wrong) == 0 {
		w.fail("%s is not answered", label)
	}
}

// finished reports whether all tasks have ended. If all open tasks report that they wait for people, it sometimes
// provides the answer.
func (w *world) finished(round int) bool {
	open := w.open()
	left := w.owner.Leftovers()
	if len(open) == 0 && w.drained() && left["unread"] == 0 && left["lanes"] == 0 && left["running"] == 0 { // single calls go on in a task that is over
		return true
	}
	if round%8 != 7 || !w.blocked(open) {
		return false
	}
	for _, who := range []string{"user:ada", "user:bob"} {
		w.decide([]string{"granted", "rejected"}[w.rnd.IntN(2)], who)
		w.runUntilIdle()
	}
	w.answerAll(w.chance(1, 2))
	w.runUntilIdle()
	for _, task := range open {
		w.command(act{Do: "resume"}, task.ID)
		w.command(act{Do: "signal"}, task.ID)
		w.endChats(task.ID)
		w.person(task.ID)
		w.runUntilIdle()
	}
	return false
}

// endChats ends the chats of a task that wait for a message.
func (w *world) endChats(id events.TaskID) {
	var view api.TaskView
	w.now("get "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		view, err = o.Get(ctx, api.GetRequest{ID: id})
		return err
	})
	for _, s := range view.Steps {
		if s.State == statemachine.StepRunning && s.Tool == "" {
			r := api.SayRequest{ID: id, Step: s.Key, End: true, Actor: "user:sim"}
			w.call(w.owner, "end "+s.Key, func(ctx context.Context, o *orchestrator.Orchestrator) error {
				_, err := o.Say(ctx, r)
				return err
			}, func(error) {})
		}
	}
}

// open returns the open tasks, also the parts of loops, which a list without their name leaves out.
func (w *world) open() []api.Summary {
	return append(w.openNamed(""), w.openNamed(api.PartName+"*")...)
}

func (w *world) openNamed(name string) []api.Summary {
	var list api.ListReply
	w.now("list", func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		list, err = o.List(ctx, api.ListRequest{Name: name, Limit: 1000, States: []statemachine.State{
			statemachine.NeedsAction, statemachine.InProgress, statemachine.Blocked, statemachine.Completed, statemachine.AwaitingApproval,
		}})
		return err
	})
	return list.Tasks
}

// blocked reports whether each open task reports what it waits for, and that does not happen by itself.
func (w *world) blocked(open []api.Summary) bool {
	for _, task := range open {
		for _, c := range w.causes(task.ID) {
			switch c.Kind {
			case "paused", "dependency", "concurrency", "in_doubt", "child", "signal", "cancelling", "approval", "question", "budget", "agent", "message":
			default:
				return false
			}
		}
	}
	return true
}

func (w *world) causes(id events.TaskID) []api.Cause {
	var reply api.ExplainReply
	w.now("explain "+string(id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.Explain(ctx, api.GetRequest{ID: id})
		return err
	})
	return reply.Causes
}

func (w *world) explain() string {
	var b strings.Builder
	for _, task := range w.open() {
		b.WriteString("\n" + string(task.ID) + " " + string(task.State) + ":")
		for _, c := range w.causes(task.ID) {
			b.WriteString(" " + c.Sentence)
		}
	}
	return b.String()
}
