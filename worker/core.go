package worker

import "github.com/orch-dev/orch/internal/workspace"

// core is what every part of a worker works with.
type core struct {
	owner      *vigil
	rules      Policy
	cfg        Config
	workspaces *workspace.Tree
	attempts   *attemptTable
}
