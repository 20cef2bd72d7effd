package node

import (
	"errors"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/workspace"
)

// Outputs reads the output files of tasks, for an MCP server in a process without a node.
type Outputs struct {
	*workspace.Tree
	root *pathguard.Root
}

// OpenOutputs opens the outputs of the tasks of a root.
func OpenOutputs(cfg Config) (*Outputs, error) {
	root, err := pathguard.Open(cfg.Root, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	tree, err := workspace.New(root, workingDir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Outputs{Tree: tree, root: root}, nil
}

// Close closes the root.
func (o *Outputs) Close() error { return o.root.Close() }
