package tools

import (
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// Sandbox is the usual confinement of a child process: it reads the root, writes in the workspace of the
// task and at the further places, and has a loopback network of its own, so that tests can start servers.
// A call that somebody has approved writes in the root.
func (e *Env) Sandbox(write ...string) proc.Sandbox {
	s := proc.Sandbox{Read: []string{e.Root.Name()}, Write: append([]string{e.Workspace}, write...), Loopback: true}
	if e.Approval != "" {
		s.Write = append(s.Write, e.Root.Name())
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
