package tools

import (
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// Sandbox is the usual confinement of a child process: it reads the root, writes in the workspace of the
// task and at the further places, and has a loopback network of its own, so that tests can start servers.
// A call that somebody has approved writes in the root.
func (e *Env) Sandbox(write ...string) proc.Sandbox {
	s := proc.Sandbox{Read: e.Reach(), Write: append([]string{e.Workspace}, write...), Loopback: true}
	if e.Approval != "" {
		s.Write = append(s.Write, e.Reach()...)
	}
	return s
}

// Own returns where the absolute path of something in the workspace lies below the root, for what a tool itself
// writes, reads and removes there. The programs of the task write in the workspace as well: PROTECTED_PATH when a
// link on the way leads elsewhere. The last element is not followed.
func (e *Env) Own(path string) (string, error) {
	rel, err := e.Root.ResolveEntry(path)
	if err == nil && e.Root.Abs(rel) != path {
		err = fault.New(fault.ProtectedPath, "%s leads out of where the task works, by a link", path)
	}
	return rel, err
}

// Reach is what the programs of the task read: the root, or what the client of the task leaves of it (S2-050) with
// the workspace.
func (e *Env) Reach() []string {
	if e.Client == nil || len(e.Client.Roots) == 0 {
		return []string{e.Root.Name()}
	}
	roots := []string{e.Workspace}
	for _, root := range e.Client.Roots {
		switch {
		case below(root, e.Root.Name()):
			roots = append(roots, root)
		case below(e.Root.Name(), root):
			roots = append(roots, e.Root.Name())
		}
	}
	return roots
}

// below reports whether a path is a directory or lies below it.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
