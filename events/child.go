package events

import "time"

// This file holds what events say about child tasks.

// Parent links a child task to the step that spawned it.
type Parent struct {
	Task  TaskID `json:"task"`
	Step  string `json:"step"`
	Depth int    `json:"depth"`
	// Agent is the agent type of the child, empty for a sub-plan.
	Agent string `json:"agent,omitempty"`
	// Requester is the submitter of the first ancestor: the child acts on its behalf.
	Requester string `json:"requester,omitempty"`
	// Labels are those of the first ancestor. The costs of models count for them.
	Labels map[string]string `json:"labels,omitempty"`
	// Since is when the first ancestor was submitted.
	Since time.Time `json:"since,omitzero"`
	// Attempt is set for a delegated task: the attempt of the step during which the agent submitted it.
	Attempt int `json:"attempt,omitempty"`
	// Level counts the agent calls among the ancestors.
	Level int `json:"level,omitempty"`
	// Trace is the trace of the first ancestor in hexadecimal, with -00 behind it if the caller did not sample it. It is empty if the trace
	// is the one of Task's id.
	Trace string `json:"trace,omitempty"`
	// TraceState is the tracestate of the caller of the first ancestor; empty for none.
	TraceState string `json:"tracestate,omitempty"`
}

// Delegated reports whether an agent submitted the task while it ran a call. The step does not wait for the task.
func (p *Parent) Delegated() bool { return p.Attempt > 0 }

// Spawned is the data of step.spawned: the step is a child task.
type Spawned struct {
	Step   string `json:"step"`
	Child  TaskID `json:"child"`
	Inputs Value  `json:"inputs,omitzero"`
	// Agent and Plan are set when a call requested the child (TASK_SPAWN): the type of the agent and its plan in normal
	// form.
	Agent string `json:"agent,omitempty"`
	Plan  Value  `json:"plan,omitzero"`
	// Parallel is set for a part of a for_each: how many of its items may be under way at a time.
	Parallel int `json:"parallel,omitempty"`
}

func (*Spawned) payload() {}
