package fault

// The classes of failed attempts. The class decides whether an attempt is retried. It is recorded in the log
// (step.retrying, step.failed).
const (
	// ClassTimeout: the call exceeded its time limit.
	ClassTimeout = "timeout"
	// ClassTransport: the service could not be reached, or the connection broke.
	ClassTransport = "transport"
	// ClassToolError: the tool failed.
	ClassToolError = "tool_error"
	// ClassUnexpected: the result does not satisfy `expect` of the plan.
	ClassUnexpected = "unexpected"
	// ClassRateLimited: the service limits the rate of calls.
	ClassRateLimited = "rate_limited"
	// ClassHeartbeatLost and ClassWorkerLost: the lease of the call expired without a heartbeat.
	ClassHeartbeatLost = "heartbeat_lost"
	ClassWorkerLost    = "worker_lost"
	// ClassDenied: the policy or a person refused the call.
	ClassDenied = "denied"
	// ClassExpired: nobody decided the approval or answered the question in time.
	ClassExpired = "expired"
	// ClassInvalidArgs: the tool rejected the arguments.
	ClassInvalidArgs = "invalid_args"
	// ClassToolNotFound: the worker does not have the tool.
	ClassToolNotFound = "tool_not_found"
	// ClassBudget: the limits of the task are exhausted.
	ClassBudget = "budget"
	// ClassChild: the child task failed (TASK_SPAWN).
	ClassChild = "child"

	// ClassExpression: an expression of the step failed. Plans cannot name this class or the following ones.
	ClassExpression = "expression"
	// ClassShutdown: the worker shut down cleanly. ClassHandoff: the agent handed the call over. ClassCancelled: the
	// call was cancelled. None of them is a failure of the tool.
	ClassShutdown  = "shutdown"
	ClassHandoff   = "handoff"
	ClassCancelled = "cancelled"
)
