package policy

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Ask is what a person has to allow before a call may run.
type Ask struct {
	// Rule names the rule that asks, for programs: outside_workspace, destructive, always, new_target,
	// database_write, protected_branch, or that of the policy file.
	Rule string
	// Reason says why, for people; Field is the input at issue and Instead a way without an approval.
	Reason, Field, Instead string
	// Type is the kind of the request (S0-160); it decides how long the approval waits (M-3).
	Type string
	// Risk is low, medium or high.
	Risk string
	// Scopes are opened for the whole task by the grant. None: the grant is good for this call
	// alone, with exactly these arguments.
	Scopes []string
	// Offers are scopes that whoever grants may open for the session of the call instead of for the call alone.
	Offers []string
}

// The types of requests for approval.
const (
	PreExecution         = "pre_execution"
	Checkpoint           = "checkpoint"
	DestructiveOperation = "destructive_operation"
)

// Error is the request as an error, for callers that cannot wait (S0-004).
func (a *Ask) Error() *fault.Error {
	e := fault.New(fault.ApprovalRequired, "a person has to approve this call: %s", a.Reason).WithReason(a.Rule).WithField(a.Field)
	if a.Instead != "" {
		return e.WithHint("%s", a.Instead)
	}
	return e
}

// ask applies the approval rule of the tool.
func (p *Policy) ask(c Call) *Ask {
	switch c.Spec.Approval {
	case tools.NoApproval:
		return nil
	case tools.OutsideWorkspace:
		return p.outside(c)
	case tools.IfDestructive:
		return p.ifDestructive(c)
	case tools.ByIntent:
		return p.byIntent(c)
	case tools.Always:
		return &Ask{Rule: "always", Reason: "every call of " + c.Spec.Name + " needs one", Type: DestructiveOperation, Risk: "high"}
	}
	return &Ask{Rule: "unknown", Reason: "the approval rule " + string(c.Spec.Approval) + " of " + c.Spec.Name + " is unknown", Type: DestructiveOperation, Risk: "high"}
}

// outside asks for paths that the call writes outside of the task's workspace (S0-034).
func (p *Policy) outside(c Call) *Ask {
	for _, field := range slices.Sorted(maps.Keys(c.Paths)) {
		name := filepath.Clean(c.Paths[field])
		if access(c.Spec, field) == tools.ReadPath || c.owns(name) || c.allowed(func(a Allow) bool { return p.deliverable(name, a.Paths) }) {
			continue
		}
		return p.outsideAsk(c, field, name, name+" lies outside the task's workspace and is no deliverable of its plan")
	}
	if c.Spec.InProject && len(c.Project) > 0 && !c.owns(c.Start) {
		return p.outsideAsk(c, "", c.Start, "it writes in "+c.Start)
	}
	return nil
}

func (p *Policy) deliverable(name string, deliverables []string) bool {
	return slices.ContainsFunc(deliverables, func(d string) bool {
		if !filepath.IsAbs(d) {
			d = filepath.Join(p.root, d)
		}
		return shell.Within(name, filepath.Clean(d))
	})
}

// ifDestructive asks for commands that are classified as destructive (S0-083).
func (p *Policy) ifDestructive(c Call) *Ask {
	class, _ := p.class(c)
	if !class.Destructive || c.pinned() {
		return nil
	}
	if p.onlyInProject(c) {
		return p.outsideAsk(c, c.Spec.Command, c.Start, "the command writes in the project: "+class.Reason)
	}
	return &Ask{
		Rule: "destructive", Field: c.Spec.Command, Type: DestructiveOperation, Risk: "high",
		Reason:  "the command counts as destructive: " + class.Reason + c.changed(),
		Instead: "use a command that is not destructive and writes only inside the task's workspace",
		Offers:  c.programOffer(),
	}
}

// byIntent asks for what the call would do. Whatever needs an approval of its own outweighs what would be
// opened for the whole task.
func (p *Policy) byIntent(c Call) *Ask {
	if ask := p.ifDestructive(c); ask != nil {
		return ask
	}
	if ask := p.outside(c); ask != nil {
		return ask
	}
	for _, target := range c.Intent.Targets {
		if target.Kind == tools.Branch && p.protectedBranch(target.Name) {
			return &Ask{Rule: "protected_branch", Reason: "the branch " + target.Name + " is protected", Type: PreExecution, Risk: "high"}
		}
	}
	if c.Spec.RateClass() == tools.Database && c.Intent.Effect == tools.Destructive {
		return &Ask{Rule: "destructive", Reason: "the statement is destructive: " + c.Intent.Reason, Type: DestructiveOperation, Risk: "high"}
	}
	return p.newScopes(c)
}

// newScopes asks once per task for targets that the plan does not name, and for changes of a
// database.
func (p *Policy) newScopes(c Call) *Ask {
	ask := &Ask{Rule: "new_target", Type: PreExecution, Risk: "medium"}
	var names, changed []string
	for _, target := range c.Intent.Targets {
		if !p.opens(c, target) {
			ask.Scopes = append(ask.Scopes, scopeOf(target))
			names = append(names, scopeOf(target)+remark(target))
		}
		if write := "write " + target.Name; target.Kind == tools.Connection && c.Intent.Effect != tools.Read && !slices.Contains(c.Scopes, write) {
			ask.Rule, ask.Type = "database_write", Checkpoint
			ask.Scopes = append(ask.Scopes, write)
			changed = append(changed, target.Name)
		}
	}
	if len(ask.Scopes) == 0 {
		return nil
	}
	var reasons []string
	if len(names) > 0 {
		reasons = append(reasons, "the plan of the task does not name "+strings.Join(names, " and "))
		ask.Instead = "name it under `allow` in the plan"
	}
	if len(changed) > 0 { // no plan opens that
		reasons = append(reasons, "the task changes "+strings.Join(changed, " and ")+" for the first time")
	}
	ask.Reason = strings.Join(reasons, ", and ")
	return ask
}

// Opens reports whether a target is open to a call that may run: the call was judged with it, or the project or the
// plan names it or somebody has granted it, and the policy file has nothing against it. A branch is only open when it
// is the one that the call has named.
func (p *Policy) Opens(c Call, t tools.Target) bool {
	return slices.Contains(c.Intent.Targets, t) || p.opens(c, t) && p.lets(c, t)
}

func (p *Policy) opens(c Call, t tools.Target) bool {
	if t.Known || slices.Contains(c.Scopes, scopeOf(t)) {
		return true
	}
	if t.Kind == tools.Branch {
		return slices.Contains(c.Intent.Targets, t) // protected ones are judged apart
	}
	return c.allowed(func(a Allow) bool { return a.names(t) })
}

// allowed reports whether the plan of the task opens something, and that of every task above which has
// spawned it.
func (c Call) allowed(opens func(Allow) bool) bool {
	return opens(c.Allow) && !slices.ContainsFunc(c.Within, func(above Allow) bool { return !opens(above) })
}

func (a Allow) names(t tools.Target) bool {
	switch t.Kind {
	case tools.Endpoint:
		return slices.ContainsFunc(a.Endpoints, func(allowed string) bool { return sameEndpoint(allowed, t.Name) })
	case tools.Connection:
		return slices.ContainsFunc(a.Connections, func(allowed string) bool { return sameConnection(allowed, t.Name) })
	case tools.Package:
		return slices.Contains(a.Packages, versioned(t)) || t.Pinned == "" && slices.Contains(a.Packages, t.Name)
	default:
		return false
	}
}

func scopeOf(t tools.Target) string { return string(t.Kind) + " " + versioned(t) }

// versioned is the name of a target with its version, if it has one.
func versioned(t tools.Target) string {
	if t.Version == "" {
		return t.Name
	}
	return t.Name + "@" + t.Version
}

// remark is what people should know of a target that is asked for.
func remark(t tools.Target) string {
	var words []string
	if t.Kind == tools.Package && t.Version == "" {
		words = append(words, "its latest version")
	}
	if t.Pinned != "" {
		words = append(words, "the project pins "+t.Pinned)
	}
	if t.Note != "" {
		words = append(words, t.Note)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}

// notForced refuses what throws away the history of a protected branch (S0-108).
func (p *Policy) notForced(c Call) error {
	for _, target := range c.Intent.Targets {
		if target.Kind == tools.Branch && target.Force && p.protectedBranch(target.Name) {
			return fault.New(fault.Forbidden, "the protected branch %s is never pushed to by force", target.Name).
				WithReason("PROTECTED_BRANCH").WithField("force").WithHint("push to another branch, or without force")
		}
	}
	return nil
}

// protectedBranch judges a branch by its name without the remote.
func (p *Policy) protectedBranch(name string) bool {
	_, branch, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(p.branches, func(pattern string) bool {
		ok, err := path.Match(pattern, branch)
		return ok && err == nil
	})
}

// unhurried applies the limit of calls per task and minute (S0-113).
func (p *Policy) unhurried(c Call) error {
	class := c.Spec.RateClass()
	limit := p.limits[class]
	if limit == 0 || c.Recent < limit {
		return nil
	}
	return fault.New(fault.RateLimited, "the task has made %d calls of class %s in a minute, its limit", c.Recent, class).
		WithHint("retry after %s", c.RetryAfter.Round(1e9)).WithRetryAt(time.Now().Add(c.RetryAfter))
}
