package api

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/events"
)

// Effect says what a method does, for the audit stream.
type Effect int

const (
	// Reads is for methods that change nothing.
	Reads Effect = iota + 1
	// Works is for methods of the daily work of programs. Who has called them is in the log of the task; only refusals are acts.
	Works
	// Steers is for methods with which somebody steers tasks. They are acts. Their effect is in the log of a task too, so they are
	// executed even if the audit stream cannot be written.
	Steers
	// Administers is for methods that are executed only if their act is recorded.
	Administers
)

// reads, works, steers and administers set Method.Effect. The functions return the act of a request, false if it only reads.
func (m typedMethod[In, Out]) reads() typedMethod[In, Out] {
	m.Effect = Reads
	return m
}

func (m typedMethod[In, Out]) works() typedMethod[In, Out] {
	m.Effect = Works
	return m
}

func (m typedMethod[In, Out]) steers(act func(In) (audit.Act, bool)) typedMethod[In, Out] {
	m.Effect, m.act = Steers, act
	return m
}

func (m typedMethod[In, Out]) administers(act func(In) (audit.Act, bool)) typedMethod[In, Out] {
	m.Effect, m.act = Administers, act
	return m
}

// params returns parameters without empty values.
type params = map[string]string

func actOf(actor, name, target string, p params) (audit.Act, bool) {
	return audit.Act{Actor: actor, Name: name, Target: target, Params: p}, true
}

func cancelAct(r CancelRequest) (audit.Act, bool) {
	return actOf(r.Actor, "task.cancel", string(r.ID), params{"reason": r.Reason})
}

func pauseAct(verb string) func(PauseRequest) (audit.Act, bool) {
	return func(r PauseRequest) (audit.Act, bool) {
		kind, target := "task", string(r.ID)
		switch {
		case r.Node:
			kind, target = "node", ""
		case r.Queue != "":
			kind, target = "queue", r.Queue
		case r.Tool != "":
			kind, target = "tool", r.Tool
		}
		return actOf(r.Actor, kind+"."+verb, target, params{"reason": r.Reason, "checkpoint": r.Checkpoint})
	}
}

func retryAct(r RetryRequest) (audit.Act, bool) {
	return actOf(r.Actor, "task.retry", string(r.ID), params{"from": r.From})
}

func redriveAct(r RedriveRequest) (audit.Act, bool) {
	return actOf(r.Actor, "task.redrive", string(r.ID), nil)
}

func forkAct(r ForkRequest) (audit.Act, bool) {
	names := make([]string, 0, len(r.Set))
	for name := range r.Set {
		names = append(names, name)
	}
	slices.Sort(names)
	act, _ := actOf(r.Actor, "task.fork", string(r.ID), params{
		"at": r.At, "live_from": r.LiveFrom, "set": strings.Join(names, " "), "repeat": strings.Join(r.Repeat, " "),
	})
	return act, !r.DryRun
}

func signalAct(r SignalRequest) (audit.Act, bool) {
	return actOf(r.Actor, "task.signal", string(r.ID), params{"name": r.Name, "data": audit.Digest(r.Data)})
}

func sayAct(r SayRequest) (audit.Act, bool) {
	end := ""
	if r.End {
		end = "true"
	}
	return actOf(r.Actor, "task.say", string(r.ID), params{"step": r.Step, "text": audit.Digest([]byte(r.Text)), "end": end})
}

func resolveAct(r ResolveRequest) (audit.Act, bool) {
	return actOf(r.Actor, "task.resolve", string(r.ID), params{"step": r.Step, "as": r.As, "reason": r.Reason, "output": audit.Digest(r.Output)})
}

func checkpointAct(r CheckpointRequest) (audit.Act, bool) {
	act, _ := actOf(r.Actor, "checkpoint.create", string(r.Task), params{"name": r.Name, "state": audit.Digest(r.State)})
	return act, r.Name != ""
}

func decideAct(r DecideRequest) (audit.Act, bool) {
	names := map[string]string{"granted": "approval.grant", "rejected": "approval.reject", "revise": "approval.revise", "revoked": "approval.revoke"}
	name := names[r.As]
	if name == "" {
		name = "approval.decide"
	}
	return actOf(r.Actor, name, r.ID, params{
		"reason": r.Reason, "form": audit.Digest(r.Form), "opens": strings.Join(r.Opens, " "), "always": strings.Join(r.Always, " "),
	})
}

func answerAct(r AnswerRequest) (audit.Act, bool) {
	return actOf(r.Actor, "question.answer", r.Question, params{"task": string(r.ID), "response": audit.Digest(r.Response)})
}

func archiveAct(r ArchiveRequest) (audit.Act, bool) {
	act, _ := actOf("", "task.archive", "", params{"age": r.Age.String()})
	return act, !r.StatusOnly
}

// setOf returns the target of an act on tasks, which is the task if there is one, and the number of the tasks with the digest of their
// ids.
func setOf(tasks []events.TaskID) (target string, p params) {
	if len(tasks) == 1 {
		target = string(tasks[0])
	}
	return target, params{"tasks": strconv.Itoa(len(tasks)), "ids": audit.SetDigest(tasks)}
}

func exportAct(r ExportRequest) (audit.Act, bool) {
	target, p := setOf(r.IDs)
	p["tree"] = strconv.FormatBool(r.Tree)
	act, _ := actOf("", "task.export", target, p)
	return act, len(r.IDs) > 0
}

// importAct returns the act of the part that completes a file. The other parts change nothing.
func importAct(r ImportRequest) (audit.Act, bool) {
	restore := ""
	if r.Restore {
		restore = "true"
	}
	act, _ := actOf(r.Actor, "task.import", r.File, params{"bytes": strconv.FormatInt(r.Size, 10), "key": r.Key, "restore": restore})
	return act, len(r.Data) > 0 && r.Offset+int64(len(r.Data)) >= r.Size
}

func putScheduleAct(r PutScheduleRequest) (audit.Act, bool) {
	return actOf(r.Actor, "schedule.put", r.Name, params{
		"plan": audit.Digest(r.Definition.Plan), "replace": strconv.FormatBool(r.Replace), "paused": strconv.FormatBool(r.Paused),
	})
}

func steerScheduleAct(r SteerScheduleRequest) (audit.Act, bool) {
	name := "schedule.steer"
	if slices.Contains([]string{ActPause, ActResume, ActTrigger, ActBackfill, ActDelete}, r.Act) {
		name = "schedule." + r.Act
	}
	p := params{"note": r.Note, "overlap": string(r.Overlap)}
	if r.From != nil {
		p["from"] = r.From.UTC().Format("2006-01-02T15:04:05Z")
	}
	if r.To != nil {
		p["to"] = r.To.UTC().Format("2006-01-02T15:04:05Z")
	}
	return actOf(r.Actor, name, r.Name, p)
}

// putHookAct returns the act of a definition of a hook. It says whether the hook gets a secret, and not which.
func putHookAct(r PutHookRequest) (audit.Act, bool) {
	return actOf(r.Actor, "hook.put", r.Name, params{
		"plan": audit.Digest(r.Definition.Plan), "replace": strconv.FormatBool(r.Replace), "paused": strconv.FormatBool(r.Paused), "new_secret": strconv.FormatBool(r.Secret != ""),
	})
}

func steerHookAct(r SteerHookRequest) (audit.Act, bool) {
	name := "hook.steer"
	if slices.Contains([]string{ActPause, ActResume, ActDelete, ActRotate}, r.Act) {
		name = "hook." + r.Act
	}
	return actOf(r.Actor, name, r.Name, params{"note": r.Note})
}

// putDestinationAct returns the act of a definition of a destination. Its URL may contain a secret, so the act has a digest of it.
func putDestinationAct(r PutDestinationRequest) (audit.Act, bool) {
	return actOf(r.Actor, "destination.put", r.Name, params{
		"url": audit.Digest([]byte(r.Definition.URL)), "replace": strconv.FormatBool(r.Replace), "paused": strconv.FormatBool(r.Paused), "new_secret": strconv.FormatBool(r.Secret != ""),
	})
}

func steerDestinationAct(r SteerDestinationRequest) (audit.Act, bool) {
	name := "destination.steer"
	if slices.Contains([]string{ActPause, ActResume, ActDelete, ActRotate, ActRedeliver, ActDiscard, ActTest}, r.Act) {
		name = "destination." + r.Act
	}
	return actOf(r.Actor, name, r.Name, params{"note": r.Note})
}

func placeHoldAct(r HoldRequest) (audit.Act, bool) {
	target, p := setOf(r.IDs)
	p["reason"] = r.Reason
	return actOf(r.Actor, "hold.place", target, p)
}

func releaseHoldAct(r ReleaseHoldRequest) (audit.Act, bool) {
	target, p := setOf(r.IDs)
	p["reason"], p["note"] = r.Reason, r.Note
	return actOf(r.Actor, "hold.release", target, p)
}

// ChangedTask returns the task that a reply is about, and a revision that contains the effect; empty for none.
func ChangedTask(reply any) (events.TaskID, uint64) {
	switch r := reply.(type) {
	case *TaskView:
		return r.ID, r.Rev
	case *SubmitReply:
		return r.ID, 1
	case *ForkReply:
		return r.ID, 1
	case *ControlReply:
		if r.Task != nil {
			return r.Task.ID, r.Task.Rev
		}
	case *ApprovalView:
		return r.Task, r.TaskRev
	case *ImportReply:
		if r.Done && len(r.Tasks) == 1 {
			return r.Tasks[0].ID, r.Tasks[0].Rev
		}
	case *SteerScheduleReply:
		if r.Task != "" {
			return r.Task, 1
		}
	}
	return "", 0
}

// Act returns the act of the request, and whether it is one.
func (c Call) Act() (audit.Act, bool) {
	if c.act == nil {
		return audit.Act{}, false
	}
	return c.act()
}

// Process is a transport to an API in the process.
func Process(a API) Transport {
	return func(ctx context.Context, c Call) error { return c.Make(ctx, a) }
}
