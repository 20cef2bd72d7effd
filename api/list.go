package api

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// ListRequest filters tasks; zero fields do not filter.
type ListRequest struct {
	States []statemachine.State `json:"states,omitempty"`
	Labels map[string]string    `json:"labels,omitempty"`
	// Name is a glob, such as "nightly-*".
	Name   string        `json:"name,omitempty"`
	Parent events.TaskID `json:"parent,omitempty"`
	// Tree selects the tree of a task: its topmost parent and all descendants of that, the oldest first. A list with Tree has one
	// page.
	Tree events.TaskID `json:"tree,omitempty"`
	// Session selects the tasks that were submitted in a session.
	Session events.TaskID `json:"session,omitempty"`
	// Requestor selects the tasks of one submitter, such as "user:ada".
	Requestor string    `json:"requestor,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	// ChangedSince selects the tasks whose line has changed at this time or later. Since and Until are about the submission.
	ChangedSince time.Time `json:"changed_since,omitzero"`
	// Dead selects the dead letter, which is the set of tasks that need a person: failed tasks that were not redriven, and tasks
	// that are blocked by anything but a dependency. A failed call of a session is not in it: its client has got the error.
	Dead bool `json:"dead,omitempty"`
	// Stuck selects the open tasks with a call that has waited for ten seconds, and that no worker takes until a person starts one:
	// none serves its queue, or none the root of the task. Blocked tasks are in the dead letter instead. At most 10,000 are found.
	Stuck bool `json:"stuck,omitempty"`
	// Limit is 1 to 1,000, default 50.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous ListReply.
	Cursor string `json:"cursor,omitempty"`
}

// ListReply is a page of tasks.
type ListReply struct {
	Tasks []Summary `json:"tasks"`
	Next  string    `json:"next,omitempty"`
	// Omitted counts the tasks of a tree that did not fit on the page.
	Omitted int `json:"left,omitempty"`
}

// Summary is the entry of a task in a list.
type Summary struct {
	ID       events.TaskID      `json:"id"`
	Name     string             `json:"name"`
	State    statemachine.State `json:"state"`
	Block    string             `json:"block,omitempty"`
	Paused   bool               `json:"paused,omitempty"`
	Priority string             `json:"priority,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Parent   events.TaskID      `json:"parent,omitempty"`
	// Requestor is who submitted the task.
	Requestor string `json:"requestor,omitempty"`
	// Via is the command with which a person submitted the task; empty if no person did.
	Via string `json:"via,omitempty"`
	// Session is the session in which the task was submitted; for a session, its own id.
	Session events.TaskID `json:"session,omitempty"`
	// Reason is why the task is in its state or, for an open task, what it waits for.
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
	// Unreadable is the error code if the history of an open task cannot be read; Reason contains the message. Name and State are
	// then empty unless they were read earlier.
	Unreadable fault.Code `json:"unreadable,omitempty"`
	// Archived is set for tasks in the archive. All requests work for archived tasks as well.
	Archived bool `json:"archived,omitempty"`
	// Imported is set for tasks of other nodes that were imported for reading. State is then as of the last imported revision.
	Imported bool `json:"imported,omitempty"`
}
