package orchestrator

import (
	"time"

	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// scopes returns the scopes that are granted to the task as a whole.
func scopes(t *statemachine.Task) []string {
	var open []string
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted {
			open = append(open, a.Scopes...)
		}
	}
	return open
}

// accessOf returns what the task may reach without further approval, or nil.
func accessOf(e *entry) *work.Access {
	open := &work.Access{Scopes: scopes(e.task)}
	if allow := allowOf(e); allow != nil {
		open.Paths, open.Endpoints, open.Connections, open.Packages = allow.Paths, allow.Endpoints, allow.Connections, allow.Packages
		open.Programs = allow.Programs
		open.Within = e.task.Submitted.Within
	} else if len(open.Scopes) == 0 {
		return nil
	}
	return open
}

// recent returns how many calls of a rate class the task started in the last minute, and the time until the oldest of them is a
// minute old. Classes without a limit are not counted.
func (rd *reader) recent(t *statemachine.Task, class tools.Rate) (n int, after time.Duration) {
	if !rd.cfg.Hooks.Limited(class) {
		return 0, 0
	}
	since := rd.now().Add(-time.Minute)
	oldest := rd.now()
	for _, s := range t.Steps {
		if s.Tool == "" || !s.CalledAt.After(since) || rd.rules.ClassOf(s.Tool) != class {
			continue
		}
		if n++; s.CalledAt.Before(oldest) {
			oldest = s.CalledAt
		}
	}
	return n, oldest.Sub(since)
}
