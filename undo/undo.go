// Package undo puts back what a session of an MCP client, or one call of it, has changed in its project.
//
// An undo is a task with one call of PROJECT_UNDO. That call needs an approval, and whoever asks for the undo gives it. The files
// and what was recorded of them are at a worker, so a dry run is such a task, too. It only reads and needs no approval, unless the
// policy file asks for one, and it is an internal task (api.UndoPreviewName): lists leave it out, and nobody takes it for an undo.
package undo

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// tool is the tool that restores the files.
const tool = "PROJECT_UNDO"

// round is the longest time between two looks at the task of an undo.
const round = time.Second

// Request asks for an undo.
type Request struct {
	// ID is a session, or a call of one.
	ID events.TaskID `json:"id"`
	// Force also restores files that were changed since.
	Force bool `json:"force,omitempty"`
	// DryRun only reports what would be restored.
	DryRun bool   `json:"dry_run,omitempty"`
	Actor  string `json:"actor,omitempty"`
	// Wait is how long to wait for the result; 0 means DefaultWait. Only Run uses it.
	Wait time.Duration `json:"wait,omitempty"`
}

// DefaultWait is how long Run waits for the result.
const DefaultWait = 30 * time.Second

// ActorFields returns the field that names who acts.
func (r *Request) ActorFields() []*string { return []*string{&r.Actor} }

// Outcome is the result of an undo. Unless Done is set, its task goes on.
type Outcome struct {
	// Task is the task that restores the files.
	Task events.TaskID `json:"task"`
	Done bool          `json:"done"`

	Files
}

// Files lists files by what happened to them.
type Files struct {
	// Restored are the files that have their previous content again, Removed the new files that were removed.
	Restored []string `json:"restored"`
	Removed  []string `json:"removed"`
	// Conflicts are the files that were changed since, and left as they are.
	Conflicts []string `json:"conflicts"`
	// Later are the files that were changed after what is undone: those of Conflicts, and with Force those whose later changes are lost.
	Later []LaterChange `json:"later,omitempty"`
}

// LaterChange is a file that was changed after what is undone.
type LaterChange struct {
	Path string `json:"path"`
	// Lost is set if the undo overwrites these changes. Otherwise the file is left as it is.
	Lost bool `json:"lost"`
	// By are who has changed it, in the order of time.
	By []ChangedBy `json:"by"`
	// Diff is what was changed, as a unified diff. It is empty for content that is no text, too large, or not to be read.
	Diff string `json:"diff,omitempty"`
}

// ChangedBy is who has changed a file, and when.
type ChangedBy struct {
	// Task and Step name the call that has changed it. Who says in words who it was, if no task is named.
	Task events.TaskID `json:"task,omitempty"`
	Step string        `json:"step,omitempty"`
	Who  string        `json:"who,omitempty"`
	// At is unknown for a file that somebody outside of sessions has removed.
	At *time.Time `json:"at,omitempty"`
}

// Run submits an undo and waits for its result, at most r.Wait.
func Run(ctx context.Context, a api.API, r Request) (Outcome, error) {
	t, err := a.Get(ctx, api.GetRequest{ID: r.ID})
	if err != nil {
		return Outcome{}, err
	}
	id, err := Submit(ctx, a, t, r)
	if err != nil {
		return Outcome{}, err
	}
	wait := r.Wait
	if wait == 0 {
		wait = DefaultWait
	}
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	files, err := Await(waiting, a, id, r)
	if err != nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
		return Outcome{Task: id, Files: Files{Restored: []string{}, Removed: []string{}, Conflicts: []string{}}}, nil
	}
	return Outcome{Task: id, Done: true, Files: files}, err
}

// Submit submits the task that undoes what t has changed. It returns STATE_NOT_ALLOWED if t belongs to no session.
func Submit(ctx context.Context, a api.API, t api.TaskView, r Request) (events.TaskID, error) {
	args, err := arguments(t, r)
	if err != nil {
		return "", err
	}
	p, err := plan.FromCall(tool, args)
	if err != nil {
		return "", err
	}
	request := api.SubmitRequest{Plan: p.JSON(), Actor: r.Actor, Root: t.Root, Undoes: t.ID}
	if r.DryRun {
		request.Undoes, request.Name = "", api.UndoPreviewName
	}
	reply, err := a.Submit(ctx, request)
	return reply.ID, err
}

func arguments(t api.TaskView, r Request) (json.RawMessage, error) {
	if t.Session == "" {
		return nil, fault.New(fault.StateNotAllowed, "the task %s belongs to no session, and nothing of what it has changed is kept", t.ID).
			WithField("id").WithHint("orch sessions lists the sessions")
	}
	args := map[string]any{"session": t.Session, "force": r.Force, "dry_run": r.DryRun}
	if t.Session != t.ID {
		args["task"] = t.ID
	}
	return json.Marshal(args)
}

// Await approves the call of a submitted undo in the name of r.Actor, and returns its result when it has ended.
func Await(ctx context.Context, a api.API, id events.TaskID, r Request) (Files, error) {
	for {
		result, err := a.Result(ctx, api.ResultRequest{ID: id, Wait: round, Attend: true})
		switch {
		case err != nil:
			return Files{}, err
		case result.Ended:
			return filesOf(result)
		case ctx.Err() != nil:
			return Files{}, fault.From(ctx.Err())
		case !result.Waits:
			continue
		}
		if err := approve(ctx, a, id, r); err != nil {
			return Files{}, err
		}
	}
}

// approve grants the approval that the call of an undo waits for.
func approve(ctx context.Context, a api.API, id events.TaskID, r Request) error {
	list, err := a.Approvals(ctx, api.ApprovalsRequest{Task: id})
	if err != nil || len(list.Approvals) == 0 {
		return err
	}
	reason := "orch undo"
	if r.DryRun {
		reason = "orch undo --dry-run"
	}
	_, err = a.Decide(ctx, api.DecideRequest{ID: list.Approvals[0].ID, As: "granted", Reason: reason, Actor: r.Actor})
	return err
}

// filesOf reads the output of an undo that has ended.
func filesOf(r api.ResultReply) (Files, error) {
	if r.Error != nil {
		return Files{}, r.Error
	}
	var output struct{ Result Files }
	if err := json.Unmarshal(r.Output, &output); err != nil {
		return Files{}, fault.Wrap(fault.Internal, err, "the output of "+tool+" cannot be read")
	}
	return output.Result, nil
}
