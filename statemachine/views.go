package statemachine

// View is the representation of a state in other protocols (table M-1).
type View struct {
	// MCP is the status of an MCP task: working, input_required, completed, failed, cancelled.
	MCP string
	// Queue is the status in the Sartor queue: pending, assigned, in_progress or blocked; "" when the queue does not
	// list the task.
	Queue string
	// Assigned is true when the queue lists the task only with includeAssigned.
	Assigned bool
}

// ViewOf returns row (state, kind of block) of table M-1.
func ViewOf(s State, block string) View {
	switch s {
	case NeedsAction:
		return View{MCP: "working", Queue: "pending"}
	case Assigned:
		return View{MCP: "working", Queue: "assigned", Assigned: true}
	case Planning, InProgress, Completed:
		return View{MCP: "working", Queue: "in_progress", Assigned: true}
	case AwaitingApproval:
		return View{MCP: "input_required", Queue: "blocked"}
	case Blocked:
		if block == "input" {
			return View{MCP: "input_required", Queue: "blocked"}
		}
		return View{MCP: "working", Queue: "blocked"}
	case Done:
		return View{MCP: "completed"}
	case Failed:
		return View{MCP: "failed"}
	case Cancelled:
		return View{MCP: "cancelled"}
	default:
		return View{}
	}
}
