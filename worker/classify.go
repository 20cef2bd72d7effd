package worker

import (
	"errors"

	"github.com/orch-dev/orch/fault"
)

// The causes that determine a class where the code alone does not. No tool can return them.
var (
	errStopping = errors.New("the worker is stopping")
	errNoTool   = errors.New("the catalogue has no such tool")
	errNoReturn = errors.New("the tool has ended the goroutine of its call")
)

// classify returns the retry class of an error, "" for nil. Its list of codes is complete, so that a new code cannot get a
// class by accident.
func classify(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errStopping):
		return fault.ClassShutdown
	case errors.Is(err, errLeaseLost):
		return fault.ClassWorkerLost
	case errors.Is(err, errNoTool):
		return fault.ClassToolNotFound
	}
	switch fault.CodeOf(err) {
	case fault.Timeout:
		return fault.ClassTimeout
	case fault.Cancelled:
		return fault.ClassCancelled
	case fault.NetworkError, fault.Unavailable, fault.ToolUnavailable, fault.WorkerLost:
		return fault.ClassTransport
	case fault.RateLimited, fault.QuotaExceeded:
		return fault.ClassRateLimited
	case fault.Unauthorized, fault.Forbidden, fault.TokenExpired, fault.ApprovalRequired,
		fault.ApprovalRejected, fault.ApprovalExpired, fault.ToolDisabled, fault.OutsideRoot, fault.ReadOnly,
		fault.CommandNotAllowed, fault.SecretDetected, fault.ProtectedPath, fault.StateNotAllowed:
		return fault.ClassDenied
	case fault.ParseError, fault.InvalidRequest, fault.InvalidParams, fault.ValidationError,
		fault.RequiredField, fault.InvalidFormat, fault.InvalidPlan:
		return fault.ClassInvalidArgs
	case fault.MethodNotFound:
		return fault.ClassToolNotFound
	case fault.Internal, fault.NotFound, fault.Conflict, fault.Gone, fault.PatchFailed, fault.NotUnique,
		fault.DataLoss, fault.InDoubt, fault.DiskFull, fault.FirebaseError, fault.GithubError,
		fault.ExecFailed, fault.DatabaseError, fault.ToolFailed:
		return fault.ClassToolError
	default:
		return fault.ClassToolError
	}
}
