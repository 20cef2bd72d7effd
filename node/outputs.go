package node

import (
	"context"
	"errors"
	"path"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/mcp/server"
)

// Outputs are the output files of tasks as MCP clients may read them: without secrets, like all files of tasks.
type Outputs struct {
	*workspace.Tree

	files api.Files
	root  *pathguard.Root
}

var _ server.Outputs = (*Outputs)(nil)

// OpenOutputs opens the outputs of the tasks of a root, for an MCP server in a process without a node. The node reads the files.
func OpenOutputs(cfg Config, files api.Files) (*Outputs, error) {
	root, err := pathguard.Open(cfg.Root, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	tree, err := workspace.New(root, workingDir)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Outputs{Tree: tree, files: files, root: root}, nil
}

// Close closes the root.
func (o *Outputs) Close() error { return o.root.Close() }

// ReadOutput implements server.Outputs. Files with secrets are PROTECTED_PATH, and FORBIDDEN if the policy file hides them.
func (o *Outputs) ReadOutput(ctx context.Context, task events.TaskID, name string) ([]byte, error) {
	if _, err := o.Tree.ReadOutput(ctx, task, name); err != nil { // also for a file that is too large
		return nil, err
	}
	var all []byte
	for r := (api.FileRequest{ID: task, Path: path.Join(workspace.Outputs, name)}); ; {
		part, err := o.files.File(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(append(all, part.Text...), part.Data...)
		if r.Offset = part.Next; r.Offset == 0 {
			return all, nil
		}
	}
}
