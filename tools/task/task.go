// Package task is the family of tools that write about their own task: to its log and its checkpoints
// (seed 000). They touch no files; what they say becomes an event in the same commit as their result,
// so a second run after a crash leaves no second trace, and they count as idempotent.
package task

import "github.com/orch-dev/orch/tools"

// Tools returns the family.
func Tools() []tools.Tool {
	return []tools.Tool{logWrite, checkpointCreate, checkpointRestore, approvalRequest, approvalCheck}
}
