package worker

import "github.com/orch-dev/orch/internal/workspace"

// core is shared by all parts of a worker.
type core struct {
	owner      *suspensionGuard
	rules      Policy
	cfg        Config
	workspaces *workspace.Tree
	attempts   *attemptTable
}
