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
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// simWorker is a simulated worker. Effects of its tools are only recorded in the ledger.
type simWorker struct {
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

	worker *simWorker
	// started is true when the owner knows that a call with effects starts; asking while a request about the call is
	// pending; gone when the worker no longer has the call.
	started, asking, gone bool
	// outcome is the outcome to report; nil before the end of the call.
	outcome *work.Outcome
}

// location names the call in the ledger. A retry of the task is another place, though its key is the same.
func (j *job) location() string { return string(j.Task) + "/" + j.Step }

func (j *job) hasEffects() bool { return j.Effect == "write" || j.Effect == "destructive" }

func (w *world) join() *simWorker {
	w.joined++
	h := &simWorker{name: fmt.Sprintf("w%d", w.joined), queues: []string{"default", "other", work.NodeQueue, work.ModelsQueue}, met: map[work.Ref]bool{}}
	if w.joined%4 == 3 {
		h.queues = []string{"other"}
	}
	w.workers = append(w.workers, h)
	return h
}

// worker returns one of the workers, or a new one.
func (w *world) worker(n int) *simWorker {
	if n %= 4; n < len(w.workers) {
		return w.workers[n]
	}
	return w.join()
}

// poll requests work, with or without waiting.
func (w *world) poll(h *simWorker, wait time.Duration) {
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

// receive processes the answer to a poll.
func (w *world) receive(h *simWorker, b work.Batch) {
	for _, ref := range b.Cancel {
		w.drop(h, ref)
	}
	for _, c := range b.Calls {
		// After a restart of the owner a worker may be handed the attempt that it has already.
		if h.met[c.Ref] {
			continue
		}
		w.logf("%s takes %s %s %d %s", h.name, c.Task, c.Step, c.Attempt, c.Note)
		if w.cheat == forgetfulWorker {
			c.Note, c.Away = nil, false
		}
		h.met[c.Ref] = true
		h.jobs = append(h.jobs, &job{Call: *c, worker: h})
		w.newestCall[string(c.Task)+"/"+c.Step] = work.Outcome{Ref: c.Ref, Worker: h.name}
	}
	w.checkTaken(b.Calls)
}

// drop makes a worker stop a call, which may already have had its effect.
func (w *world) drop(h *simWorker, ref work.Ref) {
	for _, j := range h.jobs {
		if j.Ref == ref {
			if j.started && j.outcome == nil && w.chance(1, 2) {
				w.effect(j)
			}
			w.removeJob(j)
			return
		}
	}
}

// removeJob removes a call from its worker.
func (w *world) removeJob(j *job) {
	j.gone = true
	j.worker.jobs = slices.DeleteFunc(j.worker.jobs, func(x *job) bool { return x == j })
}

func (w *world) effect(j *job) {
	w.ledger[j.location()]++
	w.logf("%s: effect of %s %s %d, number %d", j.worker.name, j.Task, j.Step, j.Attempt, w.ledger[j.location()])
}

// proceed makes workers proceed with their calls, each with a probability of n/8.
func (w *world) proceed(n int) {
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
	case j.Tool == models.CallTool:
		w.finish(j)
	case !j.started && j.Grant == nil && w.chance(w.script.Asks, 16):
		w.requestApproval(j)
	case j.Tool != "PROBE" && len(j.Answers) < 3 && w.chance(w.script.Inquires, 16):
		w.inquire(j)
	case !j.Away && j.hasEffects() && !j.started:
		w.requestStart(j)
	case j.mayNote() && w.chance(w.script.Notes, 16):
		w.startOutside(j)
	default:
		w.finish(j)
	}
}

// requestStart requests permission to start a call with effects.
func (w *world) requestStart(j *job) {
	if w.chance(w.script.Errors, 64) {
		w.endCall(j, "shutdown")
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
			w.removeJob(j)
		}
	})
}

func (j *job) label() string {
	return fmt.Sprintf("%s %s %s %d", j.worker.name, j.Task, j.Step, j.Attempt)
}

// finish calls the tool and reports the outcome.
func (w *world) finish(j *job) {
	how := "ok"
	if w.chance(w.script.Errors, 16) {
		how = strings.Fields("tool_error transport timeout rate_limited shutdown denied")[w.rnd.IntN(6)]
	}
	if j.Away {
		how = w.outcomeOf(j, how)
	}
	w.endCall(j, how)
}

// endCall ends a call with the outcome how. If the outcome is unknown, the call may have happened.
func (w *world) endCall(j *job, how string) {
	begun := j.started || !j.hasEffects()
	unknown := how == "transport" || how == "timeout" || how == "shutdown"
	if !j.Away && j.Tool != "PROBE" && j.Tool != "SPAWN" && begun && (how == "ok" || (unknown && w.chance(1, 2))) {
		w.effect(j)
	}
	n := 1
	if j.Tool == "PROBE" {
		doubtful, _, _ := strings.Cut(j.location(), "!")
		if n = w.ledger[doubtful]; n == 0 {
			w.fence(doubtful)
		}
	}
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Duration: time.Millisecond}
	switch {
	case how == "ok" && j.Tool == "SPAWN":
		j.outcome.Spawn = &work.Spawn{Agent: "sim", File: "sim.yaml", Plan: w.planOfAgent(), Inputs: json.RawMessage(`{"n":3}`)}
	case how == "ok" && j.Tool == models.CallTool:
		j.outcome.Output = w.answerOfModel()
	case how == "ok":
		j.outcome.Output = json.RawMessage(fmt.Sprintf(`{"n":%d,"by":%q,"attempt":%d}`, n, j.worker.name, j.Attempt))
	case how == "tool_error" && j.Tool == models.CallTool:
		j.outcome.Error, j.outcome.Class = fault.New(fault.ValidationError, "it is too long").WithReason(models.ReasonTooLong), how
	default:
		j.outcome.Error, j.outcome.Class = fault.New(fault.ExecFailed, "it failed"), how
	}
	w.report(j)
}

// planOfAgent draws the plan of the child of a SPAWN call: of tools, or of an agent with a model.
func (w *world) planOfAgent() json.RawMessage {
	steps := `{"id":"r","tool":"READ"},{"id":"w","needs":["r"],"tool":"WRITE"}`
	if w.chance(1, 2) {
		steps = `{"id":"m","agent":{"model":"m/x","prompt":"p","tools":["READ","SPAWN"],"max_turns":6,"max_tokens":2000}}`
	}
	key := ""
	if w.hasLimits() {
		key = `"limits":{"key":"kagent"},`
	}
	return json.RawMessage(`{"orch":"v1",` + key + `"inputs":{"type":"object","properties":{"n":{"type":"integer"}}},"steps":[` + steps + `]}`)
}

// requestApproval returns a call that needs an approval: for itself, or for scopes of its task.
func (w *world) requestApproval(j *job) {
	a := &work.ApprovalRequest{Rule: "sim", Reason: "the script says so", Type: "destructive_operation", ArgsSHA256: j.Tool}
	if w.chance(1, 4) {
		a.Scopes = []string{"endpoint https://sim:443"}
	}
	if j.Access != nil && len(j.Access.Scopes) > 0 && len(a.Scopes) > 0 {
		w.finish(j)
		return
	}
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), ApprovalRequest: a}
	w.report(j)
}

// inquire returns a call with a question, before its effect; sometimes with a note that is not about an outside
// operation.
func (w *world) inquire(j *job) {
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Questions: []work.Question{j.question()}}
	if !j.Away && w.chance(1, 4) {
		j.outcome.Note = json.RawMessage(`{"state":"asked"}`)
	}
	w.report(j)
}

// question returns the next question of a call.
func (j *job) question() work.Question {
	return work.Question{
		Key: fmt.Sprint("k", len(j.Answers)), Kind: events.Elicitation,
		Params: json.RawMessage(`{"message":"n?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`),
	}
}

// fence ensures that a call without an effect never has one, as a person who resolves it so must do.
func (w *world) fence(key string) {
	for _, h := range w.workers {
		for _, j := range slices.Clone(h.jobs) {
			if j.location() == key && j.outcome == nil {
				w.removeJob(j)
			}
		}
	}
}

// report reports the outcome of a call, repeatedly until the owner answers.
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
			w.removeJob(j)
		}
	})
}

// forge makes a stale result look like that of the newest attempt if that is the injected fault.
func (w *world) forge(o work.Outcome) work.Outcome {
	if w.cheat == staleResult {
		newest := w.newestCall[string(o.Task)+"/"+o.Step]
		o.Ref, o.Worker = newest.Ref, newest.Worker
	}
	return o
}

// duplicate repeats an old report.
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
func (w *world) beat(h *simWorker) {
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

// killWorker kills a worker with its calls. Its pending requests still arrive.
func (w *world) killWorker(h *simWorker) {
	w.logf("%s dies", h.name)
	h.dead = true
	for _, j := range slices.Clone(h.jobs) {
		w.removeJob(j)
	}
	w.workers = slices.DeleteFunc(w.workers, func(x *simWorker) bool { return x == h })
}

// shutDownWorker shuts a worker down cleanly: it returns the calls that it has not started.
func (w *world) shutDownWorker(h *simWorker) {
	for _, j := range slices.Clone(h.jobs) {
		if j.outcome == nil && !j.asking {
			w.endCall(j, "shutdown")
		}
	}
	w.call(w.any(), "leave "+h.name, func(ctx context.Context, o *orchestrator.Orchestrator) error {
		_, err := o.Poll(ctx, work.Poll{Worker: h.name})
		return err
	}, func(error) {})
}
