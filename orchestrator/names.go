package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// Lists, notices, destinations and the dead letter leave out internal tasks, whose names begin with api.OwnPrefix. So no other task may
// have such a name: it would be hidden.

// checkName returns VALIDATION_ERROR if a task that is not internal has the name of an internal one.
func checkName(name string, p *plan.Plan, r api.SubmitRequest, extra *submitExtra) error {
	if !isInternalName(name) || r.Internal || extra.continues() || isSession(p, r) || isPreview(name, p) {
		return nil
	}
	return fault.New(fault.ValidationError, "begins with %s, as the names of the node's own tasks do", api.OwnPrefix).
		WithField("name").WithHint("choose another name: lists would hide the task")
}

// isSession reports whether a request opens a session, whose task only waits.
func isSession(p *plan.Plan, r api.SubmitRequest) bool {
	return r.ID != "" && r.Session == r.ID && len(p.Verify)+len(p.Always) == 0 && len(p.Steps) == 1 && p.Steps[0].Kind == plan.KindWait
}

// isPreview reports whether a plan only asks for an undo, of which nothing but the preview needs no approval.
func isPreview(name string, p *plan.Plan) bool {
	return name == api.UndoPreviewName && len(p.Steps) == 1 && slices.Equal(p.Tools(), []string{"PROJECT_UNDO"})
}
