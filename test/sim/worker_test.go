package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// hand is a simulated worker. What its tools do is written into the ledger, and nowhere else.
type hand struct {
	name   string
	queues []string
	// deaf workers send no heartbeat, dead ones do nothing any more.
	deaf, dead bool
	polling    *call
	jobs       []*job
	met        map[work.Ref]bool
}

// job is a call in the hands of a worker.
type job struct {
	work.Call

	worker *hand
	// started is set when the owner knows that a call with effects begins; asking while a request about
	// the call is under way; gone when the worker does not have the call any more.
	started, asking, gone bool
	// outcome is what is to be reported, nil before the end of the call.
	outcome *work.Outcome
}

// place names the call in the ledger. A retry of the task is another place, though its key is the same.
func (j *job) place() string { return string(j.Task) + "/" + j.Step }

func (j *job) hasEffects() bool { return j.Effect == "write" || j.Effect == "destructive" }

func (w *world) join() *hand {
	w.joined++
	h := &hand{name: fmt.Sprintf("w%d", w.joined), queues: []string{"default", "other"}, met: map[work.Ref]bool{}}
	if w.joined%4 == 3 {
		h.queues = []string{"other"}
	}
	w.workers = append(w.workers, h)
	return h
}

// worker returns one of the workers, or a new one.
func (w *world) worker(n int) *hand {
	if n %= 4; n < len(w.workers) {
		return w.workers[n]
	}
	return w.join()
}

// poll asks for work, for a while or only now.
func (w *world) poll(h *hand, wait time.Duration) {
	if wait > 0 {
		wait += time.Duration(2 + slices.Index(w.workers, h)) // see world: no two timers at one instant
	}
	var b work.Batch
	p := work.Poll{Worker: h.name, Queues: h.queues, Free: 2, Wait: wait}
	h.polling = w.call(w.any(), "poll "+h.name, func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		b, err = o.Poll(ctx, p)
		return err
	}, func(err error) {
		if err == nil && !h.dead {
			w.receive(h, b)
		}
	})
}

// receive takes what a poll has brought.
func (w *world) receive(h *hand, b work.Batch) {
	for _, ref := range b.Cancel {
		w.drop(h, ref)
	}
	for _, c := range b.Calls {
		// After a restart of the owner a worker may be handed the attempt that it has already.
		if h.met[c.Ref] {
			continue
		}
		w.say("%s takes %s %s %d %s", h.name, c.Task, c.Step, c.Attempt, c.Note)
		if w.cheat == forgetfulWorker {
			c.Note, c.Away = nil, false
		}
		h.met[c.Ref] = true
		h.jobs = append(h.jobs, &job{Call: c, worker: h})
		w.newestCall[string(c.Task)+"/"+c.Step] = work.Outcome{Ref: c.Ref, Worker: h.name}
	}
}

// drop lets a worker stop a call; it may have taken effect.
func (w *world) drop(h *hand, ref work.Ref) {
	for _, j := range h.jobs {
		if j.Ref == ref {
			if j.started && j.outcome == nil && w.chance(1, 2) {
				w.effect(j)
			}
			w.lay(j)
			return
		}
	}
}

// lay takes a call out of the hands of its worker.
func (w *world) lay(j *job) {
	j.gone = true
	j.worker.jobs = slices.DeleteFunc(j.worker.jobs, func(x *job) bool { return x == j })
}

func (w *world) effect(j *job) {
	w.ledger[j.place()]++
	w.say("%s: effect of %s %s %d, number %d", j.worker.name, j.Task, j.Step, j.Attempt, w.ledger[j.place()])
}

// toil lets workers do the next thing for their calls, each with a chance of n of 8.
func (w *world) toil(n int) {
	for _, h := range slices.Clone(w.workers) {
		for _, j := range slices.Clone(h.jobs) {
			if !j.asking && !j.gone && w.chance(n, 8) {
				w.step(j)
			}
		}
	}
}

// step does the next thing for a call.
func (w *world) step(j *job) {
	switch {
	case j.outcome != nil:
		w.report(j)
	case !j.started && j.Grant == nil && w.chance(w.script.Asks, 16):
		w.ask(j)
	case j.Tool != "PROBE" && len(j.Answers) < 3 && w.chance(w.script.Inquires, 16):
		w.inquire(j)
	case !j.Away && j.hasEffects() && !j.started:
		w.begin(j)
	case j.mayNote() && w.chance(w.script.Notes, 16):
		w.note(j)
	default:
		w.finish(j)
	}
}

// begin asks whether a call with effects may begin.
func (w *world) begin(j *job) {
	if w.chance(w.script.Errors, 64) {
		w.end(j, "shutdown")
		return
	}
	j.asking = true
	s := work.Started{Ref: j.Ref, Worker: j.worker.name}
	w.call(w.any(), "start "+j.label(), func(ctx context.Context, o *orchestrator.Orchestrator) error {
		return o.Start(ctx, s)
	}, func(err error) {
		j.asking = false
		switch {
		case j.gone:
		case err == nil, w.cheat == boldWorker:
			j.started = true
		case fault.Has(err, fault.Conflict):
			w.lay(j)
		}
	})
}

func (j *job) label() string {
	return fmt.Sprintf("%s %s %s %d", j.worker.name, j.Task, j.Step, j.Attempt)
}

// finish makes the call of the tool and reports how it ended.
func (w *world) finish(j *job) {
	how := "ok"
	if w.chance(w.script.Errors, 16) {
		how = strings.Fields("tool_error transport timeout rate_limited shutdown denied")[w.rnd.IntN(6)]
	}
	if j.Away {
		how = w.lookAfter(j, how)
	}
	w.end(j, how)
}

// end ends a call in one way. Who does not know whether a call was made may have made it.
func (w *world) end(j *job, how string) {
	begun := j.started || !j.hasEffects()
	unknown := how == "transport" || how == "timeout" || how == "shutdown"
	if !j.Away && j.Tool != "PROBE" && j.Tool != "SPAWN" && begun && (how == "ok" || (unknown && w.chance(1, 2))) {
		w.effect(j)
	}
	n := 1
	if j.Tool == "PROBE" {
		doubtful, _, _ := strings.Cut(j.place(), "!")
		if n = w.ledger[doubtful]; n == 0 {
			w.fence(doubtful)
		}
	}
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Duration: time.Millisecond}
	switch {
	case how == "ok" && j.Tool == "SPAWN":
		j.outcome.Spawn = &work.Spawn{Agent: "sim", File: "sim.yaml", Plan: json.RawMessage(agentPlan), Inputs: json.RawMessage(`{"n":3}`)}
	case how == "ok":
		j.outcome.Output = json.RawMessage(fmt.Sprintf(`{"n":%d,"by":%q,"attempt":%d}`, n, j.worker.name, j.Attempt))
	default:
		j.outcome.Error, j.outcome.Class = fault.New(fault.ExecFailed, "it failed"), how
	}
	w.report(j)
}

// agentPlan is what a call of SPAWN goes on as.
const agentPlan = `{"orch":"v1","inputs":{"type":"object","properties":{"n":{"type":"integer"}}},` +
	`"steps":[{"id":"r","tool":"READ"},{"id":"w","needs":["r"],"tool":"WRITE"}]}`

// ask gives a call back that needs an approval: for itself, or for what its task may reach.
func (w *world) ask(j *job) {
	a := &work.ApprovalRequest{Rule: "sim", Reason: "the script says so", Type: "destructive_operation", ArgsSHA256: j.Tool}
	if w.chance(1, 3) {
		a.Scopes = []string{"endpoint https://sim:443"}
	}
	if j.Access != nil && len(j.Access.Scopes) > 0 && len(a.Scopes) > 0 {
		w.finish(j)
		return
	}
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), ApprovalRequest: a}
	w.report(j)
}

// inquire gives a call back that asks a question, before its effect; now and then with a note, which says nothing of
// what goes on elsewhere.
func (w *world) inquire(j *job) {
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Questions: []work.Question{j.question()}}
	if !j.Away && w.chance(1, 4) {
		j.outcome.Note = json.RawMessage(`{"state":"asked"}`)
	}
	w.report(j)
}

// question is the next one that a call asks.
func (j *job) question() work.Question {
	return work.Question{
		Key: fmt.Sprint("k", len(j.Answers)), Kind: events.Elicitation,
		Params: json.RawMessage(`{"message":"n?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`),
	}
}

// fence makes sure that a call that has not taken effect never will, as who says so must know.
func (w *world) fence(key string) {
	for _, h := range w.workers {
		for _, j := range slices.Clone(h.jobs) {
			if j.place() == key && j.outcome == nil {
				w.lay(j)
			}
		}
	}
}

// report tells the owner how a call ended, again and again until it has answered.
func (w *world) report(j *job) {
	j.asking = true
	outcome := w.forge(*j.outcome)
	w.call(w.any(), "report "+j.label()+" "+outcome.Class, func(ctx context.Context, o *orchestrator.Orchestrator) error {
		return o.Report(ctx, outcome)
	}, func(err error) {
		j.asking = false
		if job := w.jobs[string(outcome.Note)]; job != nil && err == nil {
			job.kept = true
		}
		if !j.gone && (err == nil || !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.DiskFull)) {
			w.said = append(w.said, outcome)
			w.lay(j)
		}
	})
}

// forge makes a stale result look like that of the newest attempt when that is the planted fault.
func (w *world) forge(o work.Outcome) work.Outcome {
	if w.cheat == staleResult {
		newest := w.newestCall[string(o.Task)+"/"+o.Step]
		o.Ref, o.Worker = newest.Ref, newest.Worker
	}
	return o
}

// duplicate lets an old report come a second time.
func (w *world) duplicate(n int) {
	if len(w.said) == 0 {
		return
	}
	outcome := w.said[n%len(w.said)]
	w.call(w.any(), fmt.Sprintf("report again %s %s %d", outcome.Task, outcome.Step, outcome.Attempt), func(ctx context.Context, o *orchestrator.Orchestrator) error {
		return o.Report(ctx, outcome)
	}, func(error) {})
}

// beat sends the heartbeat of a worker.
func (w *world) beat(h *hand) {
	b := work.Heartbeat{Worker: h.name, Queues: h.queues}
	for _, j := range h.jobs {
		b.Calls = append(b.Calls, work.CallHeartbeat{Ref: j.Ref, Tool: j.Tool, Progress: &work.Progress{Done: float64(w.rnd.IntN(3))}})
	}
	var reply work.HeartbeatReply
	w.call(w.any(), "beat "+h.name, func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.Heartbeat(ctx, b)
		return err
	}, func(err error) {
		if err != nil {
			return
		}
		for _, ref := range reply.Stop {
			w.drop(h, ref)
		}
	})
}

// die lets a worker vanish with its calls. Requests that are under way still arrive.
func (w *world) die(h *hand) {
	w.say("%s dies", h.name)
	h.dead = true
	for _, j := range slices.Clone(h.jobs) {
		w.lay(j)
	}
	w.workers = slices.DeleteFunc(w.workers, func(x *hand) bool { return x == h })
}

// leave lets a worker end in order: it gives back what it has not begun.
func (w *world) leave(h *hand) {
	for _, j := range slices.Clone(h.jobs) {
		if j.outcome == nil && !j.asking {
			w.end(j, "shutdown")
		}
	}
	w.call(w.any(), "leave "+h.name, func(ctx context.Context, o *orchestrator.Orchestrator) error {
		_, err := o.Poll(ctx, work.Poll{Worker: h.name})
		return err
	}, func(error) {})
}
