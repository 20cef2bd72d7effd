package server

// The server's own tools. They create and query tasks, for clients that do not support the methods tasks/*.
const (
	toolSubmit    = "orch_submit"
	toolStatus    = "orch_status"
	toolResult    = "orch_result"
	toolList      = "orch_list"
	toolCancel    = "orch_cancel"
	toolApprovals = "orch_approvals"
)

// toolSpawn is the tool of the catalogue that starts an agent.
const toolSpawn = "TASK_SPAWN"
