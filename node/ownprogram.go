package node

import (
	"path/filepath"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/worker"
)

// program resolves the name of a user's own program, which a plan lists under allow.programs.
func (h *executor) program(name string) (events.Program, error) {
	return worker.OwnProgram(h.root, filepath.Join(h.root.Name(), workingDir), name)
}
