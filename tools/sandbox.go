package tools

import "github.com/orch-dev/orch/internal/proc"

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
