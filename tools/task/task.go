// Package task is the family of tools that write to the log and the checkpoints of their own task (S0 rules), and ask people. They
// access no files. Each call adds its event in the same commit as its result. So a repeated run after a crash leaves no
// duplicate, and the tools are idempotent.
package task

import "github.com/orch-dev/orch/tools"

// Tools returns the tools of the family.
func Tools() []tools.Tool {
	return []tools.Tool{logWrite, checkpointCreate, checkpointRestore, approvalRequest, approvalCheck, questionAsk}
}
