package api

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// ForkRequest asks for a new task of the same plan that stands on the recorded results of another task before a cut, and calls tools
// after it.
type ForkRequest struct {
	// ID is the original task. It may be in any state.
	ID events.TaskID `json:"id"`
	// Fork is the id of the new task, chosen by the client so that a repeated request makes one task. If it is empty, the node
	// chooses it.
	Fork events.TaskID `json:"fork,omitempty"`
	// At is the cut: a step, which runs live with all that need it, a turn of an agent step such as review.t3, or a revision of the
	// original, after which nothing is reused. Empty means the newest revision.
	At string `json:"at,omitempty"`
	// LiveFrom is a further step that runs live with all that need it.
	LiveFrom string `json:"live_from,omitempty"`
	// Set replaces inputs by name. Steps that read a changed input run live.
	Set map[string]json.RawMessage `json:"set,omitempty"`
	// Repeat lists the steps that had effects in the original and may run again; "all" allows every step.
	Repeat []string `json:"repeat,omitempty"`
	// DryRun describes the fork and creates nothing.
	DryRun bool   `json:"dry_run,omitempty"`
	Actor  string `json:"actor,omitempty"`
	// Via is the same as in SubmitRequest.
	Via string `json:"via,omitempty"`
}

// RepeatAll in ForkRequest.Repeat allows every step with effects to run again.
const RepeatAll = "all"

// ForkReply describes a fork. ID and State are empty for a dry run.
type ForkReply struct {
	ID    events.TaskID      `json:"id,omitempty"`
	State statemachine.State `json:"state,omitempty"`
	// Existing is true if a task with the id in the request existed already.
	Existing bool `json:"existing,omitempty"`
	// At is the revision of the original that the fork stands on.
	At uint64 `json:"at"`
	// Reused are the steps with reused results, Live those that run, both in the order of the plan.
	Reused []string `json:"reused"`
	Live   []string `json:"live"`
	// Continued are the live agent steps that go on where they stood at the cut.
	Continued []ContinuedAgent `json:"continued,omitempty"`
	// StandsOn are the effects of the reused steps and turns: the fork assumes that they still hold. Repeats are the effects of the original
	// that may happen again.
	StandsOn []ForkEffect `json:"stands_on"`
	Repeats  []ForkEffect `json:"repeats"`
}

// ContinuedAgent is an agent step that takes over the turns of the original.
type ContinuedAgent struct {
	Step string `json:"step"`
	// Turn is the first turn that is not taken over, from 2.
	Turn int `json:"turn"`
}

// ForkEffect is an effect that a step of the original had, or may have had.
type ForkEffect struct {
	Step string `json:"step"`
	// Tool is the tool that the step called, Child the task that it started; one of them is set.
	Tool  string        `json:"tool,omitempty"`
	Child events.TaskID `json:"child,omitempty"`
	// Effect is idempotent, write or destructive; empty for a child task.
	Effect string `json:"effect,omitempty"`
}

// ReasonRepeats is the reason of the STATE_NOT_ALLOWED of a fork that would repeat effects without ForkRequest.Repeat.
const ReasonRepeats = "WOULD_REPEAT_EFFECTS"

// ActorFields returns the field that names who acts.
func (r *ForkRequest) ActorFields() []*string { return []*string{&r.Actor} }
