package node

import (
	"path/filepath"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/worker"
)

// program returns a user's own program, for a plan that names it under allow.programs.
func (h *executor) program(name string) (events.Program, error) {
	return worker.OwnProgram(h.root, filepath.Join(h.root.Name(), workingDir), name)
}
