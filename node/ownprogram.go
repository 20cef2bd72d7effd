package node

import (
	"path/filepath"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/worker"
)

// program resolves the name of a user's own program, which a plan lists under allow.programs.
func (h *executor) program(root, name string) (events.Program, error) {
	if root == h.root.Name() {
		return worker.OwnProgram(h.root, filepath.Join(root, workingDir), name)
	}
	other, err := pathguard.Open(root)
	if err != nil {
		return events.Program{}, err
	}
	defer func() { _ = other.Close() }()
	return worker.OwnProgram(other, filepath.Join(root, workingDir), name)
}
