package main

import (
	"errors"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// The exit codes.
const (
	exitOK          = 0
	exitInternal    = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4
	exitUnreachable = 5
	exitConflict    = 6
	exitFailed      = 7
	exitRunning     = 8
	exitApproval    = 9
	exitCancelled   = 10
	exitNewer       = 11
	exitDetached    = 130
)

// exitRow is one row of the table of exit codes.
type exitRow struct {
	exit    int
	meaning string
	// codes are the fault codes with this exit code.
	codes []fault.Code
}

// exits returns the table of exit codes.
func exits() []exitRow {
	return []exitRow{
		{exitOK, "it worked", nil},
		{exitInternal, "a fault of orch or of its store", []fault.Code{fault.Internal, fault.DataLoss, fault.DiskFull}},
		{exitUsage, "wrong usage, or an invalid plan", []fault.Code{
			fault.ParseError, fault.InvalidRequest, fault.MethodNotFound, fault.InvalidParams, fault.ValidationError,
			fault.RequiredField, fault.InvalidFormat, fault.InvalidPlan, fault.NotUnique,
		}},
		{exitNotFound, "there is no such task, tool or file", []fault.Code{fault.NotFound, fault.Gone}},
		{exitDenied, "it is not permitted", []fault.Code{
			fault.Unauthorized, fault.Forbidden, fault.TokenExpired, fault.ApprovalRequired, fault.ApprovalRejected,
			fault.ToolDisabled, fault.OutsideRoot, fault.ReadOnly, fault.CommandNotAllowed, fault.SecretDetected,
			fault.ProtectedPath, fault.RateLimited, fault.QuotaExceeded,
		}},
		{exitUnreachable, "no node can be reached", []fault.Code{fault.Unavailable, fault.NetworkError}},
		{exitConflict, "it conflicts with what is there", []fault.Code{
			fault.Conflict, fault.StateNotAllowed, fault.PatchFailed, fault.InDoubt,
		}},
		{exitFailed, "the task failed", []fault.Code{
			fault.FirebaseError, fault.GithubError, fault.ToolUnavailable, fault.ToolFailed, fault.ExecFailed, fault.DatabaseError, fault.WorkerLost,
		}},
		{exitRunning, "the task was still running when --timeout was over", []fault.Code{fault.Timeout}},
		{exitApproval, "the task waits for a person, and nothing else of it moves", nil},
		{exitCancelled, "the task was cancelled, or expired", []fault.Code{fault.Cancelled, fault.ApprovalExpired}},
		{exitNewer, "a newer orch has written this: use it", []fault.Code{fault.NewerStore, fault.NewerRequest}},
		{exitDetached, "interrupted; the task goes on", nil},
	}
}

// exitError ends the command with an exit code that does not follow from a fault code. err is the error to report; nil if the
// command has already reported everything.
type exitError struct {
	exit int
	err  error
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the error to report, or nil.
func (e *exitError) Unwrap() error { return e.err }

// exitOf returns the exit code for an error.
func exitOf(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.exit
	}
	if err == nil {
		return exitOK
	}
	return exitOfCode(fault.CodeOf(err))
}

func exitOfCode(code fault.Code) int {
	for _, row := range exits() {
		if slices.Contains(row.codes, code) {
			return row.exit
		}
	}
	return exitInternal
}

// exitOfTask returns the exit code for the state of a task when the command stops waiting.
func exitOfTask(state statemachine.State) int {
	switch state {
	case statemachine.Done:
		return exitOK
	case statemachine.Failed:
		return exitFailed
	case statemachine.Cancelled:
		return exitCancelled
	case statemachine.AwaitingApproval:
		return exitApproval
	case statemachine.NeedsAction, statemachine.Assigned, statemachine.Planning, statemachine.InProgress,
		statemachine.Blocked, statemachine.Completed:
		return exitRunning
	default:
		return exitInternal
	}
}

// endOf returns nil for a task that is done. For any other state, it returns an error with the exit code of the state.
func endOf(state statemachine.State) error {
	if exit := exitOfTask(state); exit != exitOK {
		return &exitError{exit: exit}
	}
	return nil
}
