package events

import "github.com/orch-dev/orch/fault"

// This file holds the payloads about the items of a for_each, which may be divided into parts. Each part is a child task.

// OwnPrefix is the prefix of the names of internal tasks, which the node submits for itself or for its faces.
const OwnPrefix = "orch/"

// PartName is the prefix of the names of tasks that run a part of a for_each; the name of its task follows.
const PartName = OwnPrefix + "part/"

// Expanded is the data of step.expanded: the items of a for_each.
type Expanded struct {
	Step  string  `json:"step"`
	Items []Value `json:"items"`
}

// Divided is the data of step.divided: the items of a for_each that is divided.
type Divided struct {
	Step string `json:"step"`
	// Lists are the items: lists of Chunk items each, the last one of fewer.
	Lists []Value `json:"lists"`
	Chunk int     `json:"chunk"`
	// Total is the number of items, Size that of each part but the last. Chunk is a multiple of Size.
	Total int `json:"total"`
	Size  int `json:"size"`
}

// Part is the data of task.part: the items that a task runs, and what their steps can see of the parent. The task has
// the plan and the inputs of its parent, and runs only the for_each.
type Part struct {
	// Step is the for_each of the parent.
	Step string `json:"step"`
	// List contains the items of the part, from position From of the list. First is the index of the first of them
	// among all items, Count is their number.
	List  Value `json:"list"`
	From  int   `json:"offset,omitempty"`
	First int   `json:"first"`
	Count int   `json:"count"`
	// Parallel is how many items may be under way at a time.
	Parallel int `json:"parallel"`
	// Known are the results of the steps of the parent that the for_each needs.
	Known []Known `json:"known,omitempty"`
}

// Known is the result of a step of the parent.
type Known struct {
	Step     string       `json:"step"`
	State    string       `json:"state"`
	Output   Value        `json:"output,omitzero"`
	Error    *fault.Error `json:"error,omitempty"`
	Attempts int          `json:"attempts,omitempty"`
}

func (*Expanded) payload() {}
func (*Divided) payload()  {}
func (*Part) payload()     {}
