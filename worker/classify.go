package worker

import (
	"errors"

	"github.com/orch-dev/orch/fault"
)

// The retry classes of work.Outcome.
const (
	classTimeout      = "timeout"
	classTransport    = "transport"
	classToolError    = "tool_error"
	classRateLimited  = "rate_limited"
	classDenied       = "denied"
	classInvalidArgs  = "invalid_args"
	classToolNotFound = "tool_not_found"
	classCancelled    = "cancelled"
	classShutdown     = "shutdown"
)

// The causes that decide a class where the code alone does not. No tool can return them.
var (
	errStopping = errors.New("the worker is stopping")
	errNoTool   = errors.New("the catalogue has no such tool")
	errNoReturn = errors.New("the tool has ended the goroutine of its call")
)

// classify returns the retry class of an error, "" for nil. Its list of codes is complete, so that a
// new code cannot get a class by accident.
func classify(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errStopping):
		return classShutdown
	case errors.Is(err, errNoTool):
		return classToolNotFound
	}
	switch fault.CodeOf(err) {
	case fault.Timeout:
		return classTimeout
	case fault.Cancelled:
		return classCancelled
	case fault.NetworkError, fault.Unavailable, fault.ToolUnavailable, fault.WorkerLost:
		return classTransport
	case fault.RateLimited, fault.QuotaExceeded:
		return classRateLimited
	case fault.Unauthorized, fault.Forbidden, fault.TokenExpired, fault.ApprovalRequired,
		fault.ApprovalRejected, fault.ApprovalExpired, fault.ToolDisabled, fault.OutsideRoot, fault.ReadOnly,
		fault.CommandNotAllowed, fault.SecretDetected, fault.ProtectedPath, fault.StateNotAllowed:
		return classDenied
	case fault.ParseError, fault.InvalidRequest, fault.InvalidParams, fault.ValidationError,
		fault.RequiredField, fault.InvalidFormat, fault.InvalidPlan:
		return classInvalidArgs
	case fault.MethodNotFound:
		return classToolNotFound
	case fault.Internal, fault.NotFound, fault.Conflict, fault.Gone, fault.PatchFailed, fault.NotUnique,
		fault.DataLoss, fault.InDoubt, fault.DiskFull, fault.FirebaseError, fault.GithubError,
		fault.ExecFailed, fault.DatabaseError, fault.ToolFailed:
		return classToolError
	default:
		return classToolError
	}
}
