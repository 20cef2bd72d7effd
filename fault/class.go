package fault

// Classes of the ends of attempts: what was wrong with an attempt as far as it decides whether there is another one. They are
// in the log (step.retrying, step.failed).
const (
	// ClassTimeout is that of a call which took longer than it may.
	ClassTimeout = "timeout"
	// ClassTransport is that of a call whose service could not be reached, or broke off.
	ClassTransport = "transport"
	// ClassToolError is that of a call whose tool has failed.
	ClassToolError = "tool_error"
	// ClassUnexpected is that of a call whose result is not as the plan expects (`expect`).
	ClassUnexpected = "unexpected"
	// ClassRateLimited is that of a call whose service wants fewer of them.
	ClassRateLimited = "rate_limited"
	// ClassHeartbeatLost and ClassWorkerLost are those of a call of which nothing was heard for its lease.
	ClassHeartbeatLost = "heartbeat_lost"
	ClassWorkerLost    = "worker_lost"
	// ClassDenied is that of a call that the policy or a person refuses.
	ClassDenied = "denied"
	// ClassExpired is that of a call whose approval or question nobody has answered in time.
	ClassExpired = "expired"
	// ClassInvalidArgs is that of a call whose arguments no tool takes.
	ClassInvalidArgs = "invalid_args"
	// ClassToolNotFound is that of a call whose worker does not have the tool.
	ClassToolNotFound = "tool_not_found"
	// ClassBudget is that of a call for which the limits of the task leave nothing.
	ClassBudget = "budget"
	// ClassChild is that of a call whose child task has failed (TASK_SPAWN).
	ClassChild = "child"

	// ClassExpression is that of a step whose expression has failed. Plans cannot name it, nor those that follow.
	ClassExpression = "expression"
	// ClassShutdown ends an attempt whose worker stops in good order, ClassHandoff one that an agent leaves to others, and
	// ClassCancelled one that was cancelled. They say nothing about the tool.
	ClassShutdown  = "shutdown"
	ClassHandoff   = "handoff"
	ClassCancelled = "cancelled"
)
