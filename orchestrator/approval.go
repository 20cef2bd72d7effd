package orchestrator

import (
	"time"

	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// grantedScopes returns the scopes that were granted to the task as a whole.
func grantedScopes(t *statemachine.Task) []string {
	var scopes []string
	for _, a := range t.Approvals {
		if a.Status == statemachine.ApprovalGranted {
			scopes = append(scopes, a.Scopes...)
		}
	}
	return scopes
}

// accessOf returns the resources that the task may access without further approval, or nil for none.
func accessOf(e *entry) *work.Access {
	access := &work.Access{Scopes: grantedScopes(e.task)}
	if whole := e.owner.parts().wholeOf(e); whole != nil {
		access.Scopes = append(access.Scopes, grantedScopes(whole)...)
	}
	if allow := allowOf(e); allow != nil {
		access.Paths, access.Endpoints, access.Connections, access.Packages = allow.Paths, allow.Endpoints, allow.Connections, allow.Packages
		access.Programs = allow.Programs
		access.Within = e.task.Submitted.Within
	} else if len(access.Scopes) == 0 {
		return nil
	}
	return access
}

// recentCalls returns how many calls of a rate class the task started in the last minute, and the time until the oldest of them
// is a minute old. Both are 0 for a class without a limit.
func (rd *reader) recentCalls(t *statemachine.Task, class tools.Rate) (n int, after time.Duration) {
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
