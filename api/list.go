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
	// Name matches as a glob, such as "nightly-*".
	Name   string        `json:"name,omitempty"`
	Parent events.TaskID `json:"parent,omitempty"`
	// Tree keeps the task, those above it and all that are below the uppermost of those, the oldest first. Such a list has one page.
	Tree events.TaskID `json:"tree,omitempty"`
	// Session keeps the tasks that were asked for in a session.
	Session events.TaskID `json:"session,omitempty"`
	// Requestor is who submitted the task, such as "user:ada".
	Requestor string    `json:"requestor,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	// Dead lists the dead letter: tasks that failed and were not redriven, and those that are blocked by
	// anything but a dependency. They need a person.
	Dead bool `json:"dead,omitempty"`
	// Limit is 1 to 1,000, default 50.
	Limit int `json:"limit,omitempty"`
	// Cursor is ListReply.Next of the page before.
	Cursor string `json:"cursor,omitempty"`
}

// ListReply is a page of tasks.
type ListReply struct {
	Tasks []Summary `json:"tasks"`
	Next  string    `json:"next,omitempty"`
	// Omitted counts the tasks of a tree that the page has no room for.
	Omitted int `json:"left,omitempty"`
}

// Summary is one line of a list.
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
	// Via is the command by which a person submitted it, if one did.
	Via string `json:"via,omitempty"`
	// Session is the one in which the task was asked for, its own id for a session.
	Session events.TaskID `json:"session,omitempty"`
	// Reason is why the task is in its state or, for an open task, what it waits for.
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
	// Unreadable is the code of the error for which the history of an open task cannot be read; Reason says more. Its name and its state
	// are not known then, unless they were before.
	Unreadable fault.Code `json:"unreadable,omitempty"`
	// Archived tasks lie in the archive; everything about them still answers.
	Archived bool `json:"archived,omitempty"`
}
