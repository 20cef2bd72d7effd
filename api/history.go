package api

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// WatchRequest asks for the commits after a revision, so that a watcher resumes without a gap.
type WatchRequest struct {
	ID    events.TaskID `json:"id"`
	After uint64        `json:"after"`
	// SeenVersion is the Version of the previous WatchReply. The wait also ends if the progress has changed since.
	SeenVersion uint64        `json:"seen,omitempty"`
	Wait        time.Duration `json:"wait,omitempty"`
	// Limit is 1 to 500 commits, default 100.
	Limit int `json:"limit,omitempty"`
	// Output asks for the output of running calls after the piece with number AfterOutput (Output.Seq).
	Output      bool   `json:"output,omitempty"`
	AfterOutput uint64 `json:"heard,omitempty"`
}

// WatchReply holds the next commits of a task, each exactly once and in order (I8).
type WatchReply struct {
	Commits []CommitView `json:"commits,omitempty"`
	// Progress maps the keys of running steps to their progress.
	Progress map[string]work.Progress `json:"progress,omitempty"`
	// Output holds the new pieces, if WatchRequest.Output is set. A client that requests them too seldom misses some.
	Output []Output `json:"output,omitempty"`
	// Version changes whenever the progress changes.
	Version uint64             `json:"version"`
	State   statemachine.State `json:"state"`
	// Ended is true if no further commit will come: the task has ended, or was imported, in any state.
	Ended bool `json:"over"`
}

// Output is a piece of the output of a running call. It is not part of the history.
type Output struct {
	work.Output

	// Seq is the number of the piece. The numbers of a task increase.
	Seq     uint64 `json:"no"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// CommitView is a commit as clients see it.
type CommitView struct {
	Seq    uint64         `json:"seq"`
	Rev    uint64         `json:"rev"`
	At     time.Time      `json:"at"`
	Actor  string         `json:"actor,omitempty"`
	Cause  string         `json:"cause,omitempty"`
	Hash   string         `json:"hash"`
	Prev   string         `json:"prev,omitempty"`
	Events []events.Event `json:"events"`
}

// HistoryRequest asks for commits starting at revision From (1 is the first).
type HistoryRequest struct {
	ID    events.TaskID `json:"id"`
	From  uint64        `json:"from,omitempty"`
	Limit int           `json:"limit,omitempty"`
}

// HistoryReply is a page of commits; Next is the From of the following page, 0 at the end.
type HistoryReply struct {
	Commits []CommitView `json:"commits"`
	Next    uint64       `json:"next,omitempty"`
}

// ReplayRequest asks for a replay, up to revision At if that is set.
type ReplayRequest struct {
	ID events.TaskID `json:"id"`
	At uint64        `json:"at,omitempty"`
}

// ReplayReply is the result of a replay.
type ReplayReply struct {
	Task *statemachine.Task `json:"task"`
	// Commits and Events are the numbers of commits and events that the replay applied.
	Commits int `json:"commits"`
	Events  int `json:"events"`
	// Chain is true if every hash link is intact; otherwise Replay returns an error.
	Chain bool `json:"chain"`
	// Live reports whether the replayed state equals the live state in the node, byte for byte. It is nil for a replay up to an
	// earlier revision.
	Live *bool `json:"live,omitempty"`
	// Duration is the time that the replay took.
	Duration time.Duration `json:"took"`
}

// ExplainReply holds one sentence per cause; the first is the most important.
type ExplainReply struct {
	ID     events.TaskID      `json:"id"`
	State  statemachine.State `json:"state"`
	Causes []Cause            `json:"causes"`
	// Continued are the retries and forks of a task that has ended, and those of them, the oldest first. Those that have another name
	// are left out, and so are all but the newest.
	Continued []Continued `json:"continued,omitempty"`
}

// Continued is a task that continues another one, From. How is retry or fork.
type Continued struct {
	Task      events.TaskID      `json:"task"`
	From      events.TaskID      `json:"from"`
	How       string             `json:"how"`
	Name      string             `json:"name"`
	State     statemachine.State `json:"state"`
	CreatedAt time.Time          `json:"created_at"`
}

// Cause is one reason why a task does not move.
type Cause struct {
	// Kind is a stable code for programs, one of: over, dependency, paused, node_paused, queue_paused, tool_paused, concurrency,
	// delay, retry, timer, signal, child, running, in_doubt, no_worker, limit, queued, approval, question, message, blocked, cancelling,
	// store, deadline, agent, budget, imported, continued. What an agent waits for follows its cause of kind agent. A call with a silent worker is
	// also of kind running, and so is a call that was running before the node restarted. Their sentences state when the call will be lost.
	Kind     string `json:"kind"`
	Step     string `json:"step,omitempty"`
	Sentence string `json:"sentence"`
	// Next is a command that removes the cause, if there is one.
	Next string `json:"next,omitempty"`
	// Until is when the cause ends by itself, if that is known: the time in the sentence.
	Until time.Time `json:"until,omitzero"`
	// Approval is the approval that the task waits for, Task the child task.
	Approval string        `json:"approval,omitempty"`
	Task     events.TaskID `json:"task,omitempty"`
}
