package orchestrator

import (
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

// isPreview reports whether a plan only looks at what an undo would do.
func isPreview(name string, p *plan.Plan) bool {
	if name != api.UndoPreviewName || len(p.Verify)+len(p.Always) > 0 || len(p.Steps) != 1 {
		return false
	}
	s := p.Steps[0]
	args, ok := s.With.(map[string]any)
	return ok && s.Kind == plan.KindTool && s.Tool == "PROJECT_UNDO" && s.Verify == nil && args["dry_run"] == true
}
