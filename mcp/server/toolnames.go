package server

// The tools of the face itself, for hosts without tasks: they make tasks and ask about them.
const (
	toolSubmit    = "orch_submit"
	toolStatus    = "orch_status"
	toolResult    = "orch_result"
	toolList      = "orch_list"
	toolCancel    = "orch_cancel"
	toolApprovals = "orch_approvals"
)
