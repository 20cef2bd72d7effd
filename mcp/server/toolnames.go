package server

// The tools of the face itself, for hosts that do not support tasks: they create tasks and query them.
const (
	toolSubmit    = "orch_submit"
	toolStatus    = "orch_status"
	toolResult    = "orch_result"
	toolList      = "orch_list"
	toolCancel    = "orch_cancel"
	toolApprovals = "orch_approvals"
)
