package policy

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Ask is a request for the approval that a call needs before it may run.
type Ask struct {
	// Rule is the machine-readable name of the rule that requires the approval: outside_workspace, destructive, effect, always,
	// new_target, database_write, protected_branch, or a rule of the policy file.
	Rule string `json:"rule"`
	// Reason explains the request to people. Field is the input that caused the request. Instead suggests a way that
	// needs no approval.
	Reason  string `json:"reason"`
	Field   string `json:"field,omitempty"`
	Instead string `json:"instead,omitempty"`
	// Type is the kind of the request (S0-160); it decides how long the approval waits (M-3).
	Type string `json:"type"`
	// Risk is low, medium or high.
	Risk string `json:"risk"`
	// Scopes are the permissions that the grant gives to the whole task. If empty, the grant is valid only
	// for this call with exactly these arguments.
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that the approver may grant to the whole session instead of granting only this call.
	Offers []string `json:"offers,omitempty"`
}

// The types of requests for approval.
const (
	PreExecution         = "pre_execution"
	Checkpoint           = "checkpoint"
	DestructiveOperation = "destructive_operation"
)

// Error returns the request as an error, for callers that cannot wait (S0-004).
func (a *Ask) Error() *fault.Error {
	e := fault.New(fault.ApprovalRequired, "a person has to approve this call: %s", a.Reason).WithReason(a.Rule).WithField(a.Field)
	if a.Instead != "" {
		return e.WithHint("%s", a.Instead)
	}
	return e
}

// askFor applies the approval rule of the tool. It returns nil if the call needs no approval. The same is true of the
// functions that it calls.
func (p *Policy) askFor(c *Call) *Ask {
	switch c.Spec.Approval {
	case tools.NoApproval:
		return nil
	case tools.OutsideWorkspace:
		return p.askOutside(c)
	case tools.IfDestructive:
		return p.askIfDestructive(c)
	case tools.ByIntent:
		return p.askByIntent(c)
	case tools.ByEffect:
		return p.askByEffect(c)
	case tools.Always:
		return &Ask{Rule: "always", Reason: "every call of " + c.Spec.Name + " needs one", Type: DestructiveOperation, Risk: "high"}
	}
	return &Ask{Rule: "unknown", Reason: "the approval rule " + string(c.Spec.Approval) + " of " + c.Spec.Name + " is unknown", Type: DestructiveOperation, Risk: "high"}
}

// askOutside asks for an approval of paths that the call writes outside of the task's workspace (S0-034).
func (p *Policy) askOutside(c *Call) *Ask {
	for _, field := range c.pathFields() {
		name := filepath.Clean(c.Paths[field])
		if access(c.Spec, field) == tools.ReadPath || c.mayWrite(name) || c.allowed(func(a Allow) bool { return p.deliverable(name, a.Paths) }) {
			continue
		}
		return p.newOutsideAsk(c, field, name, name+" lies outside the task's workspace and is not a deliverable of its plan")
	}
	if c.Spec.InProject && len(c.Project) > 0 && !c.mayWrite(c.Start) {
		return p.newOutsideAsk(c, "", c.Start, "it writes in "+c.Start)
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

// askIfDestructive asks for an approval of commands that are classified as destructive (S0-083).
func (p *Policy) askIfDestructive(c *Call) *Ask {
	class, _ := p.class(c)
	if !class.Destructive || c.programAllowed() {
		return nil
	}
	if p.onlyInProject(c) {
		return p.newOutsideAsk(c, c.Spec.Command, c.Start, "the command writes in the project: "+class.Reason)
	}
	return &Ask{
		Rule: "destructive", Field: c.Spec.Command, Type: DestructiveOperation, Risk: "high",
		Reason:  "the command counts as destructive: " + class.Reason + c.programChanged(),
		Instead: "use a command that is not destructive and writes only inside the task's workspace",
		Offers:  c.programOffer(),
	}
}

// askByIntent asks for an approval of the intent of the call. A request for this call alone takes precedence over a
// request that grants scopes to the whole task.
func (p *Policy) askByIntent(c *Call) *Ask {
	if ask := p.askIfDestructive(c); ask != nil {
		return ask
	}
	if ask := p.askOutside(c); ask != nil {
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
	return p.askForScopes(c)
}

// askByEffect asks for an approval of a call that does more than read.
func (p *Policy) askByEffect(c *Call) *Ask {
	effect := p.Effect(c)
	if effect == tools.Read {
		return nil
	}
	reason := "the effect of the call is " + string(effect)
	if c.Intent.Reason != "" {
		reason += ": " + c.Intent.Reason
	}
	return &Ask{Rule: "effect", Reason: reason, Type: DestructiveOperation, Risk: "high"}
}

// askForScopes asks for an approval of targets that the plan does not name, and of changes of a database.
// A grant is valid for the rest of the task, so that each is approved only once.
func (p *Policy) askForScopes(c *Call) *Ask {
	ask := &Ask{Rule: "new_target", Type: PreExecution, Risk: "medium"}
	var names, changed []string
	for _, target := range c.Intent.Targets {
		if !p.targetAllowed(c, target) {
			ask.Scopes = append(ask.Scopes, scopeOf(target))
			names = append(names, scopeOf(target)+targetNote(target))
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
	if len(changed) > 0 { // a plan cannot allow that
		reasons = append(reasons, "the task changes "+strings.Join(changed, " and ")+" for the first time")
	}
	ask.Reason = strings.Join(reasons, ", and ")
	return ask
}

// AllowsTarget reports whether a permitted call may use a target. It may use every target of its intent. It may use
// another target if the project or the plan names it or somebody has granted it, and if no rule of the policy file
// denies it. It may not use a branch that is not in its intent.
func (p *Policy) AllowsTarget(c *Call, t tools.Target) bool {
	return slices.Contains(c.Intent.Targets, t) || p.targetAllowed(c, t) && p.rulesAllow(c, t)
}

func (p *Policy) targetAllowed(c *Call, t tools.Target) bool {
	if t.Known || slices.Contains(c.Scopes, scopeOf(t)) {
		return true
	}
	if t.Kind == tools.Branch {
		return slices.Contains(c.Intent.Targets, t) // protected branches are checked separately
	}
	return c.allowed(func(a Allow) bool { return a.names(t) })
}

// allowed reports whether permits returns true for the allow list of the task, and for the allow list of every ancestor
// that spawned the task.
func (c *Call) allowed(permits func(Allow) bool) bool {
	return permits(c.Allow) && !slices.ContainsFunc(c.Within, func(ancestor Allow) bool { return !permits(ancestor) })
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

// versioned returns the name of a target with its version, if it has one.
func versioned(t tools.Target) string {
	if t.Version == "" {
		return t.Name
	}
	return t.Name + "@" + t.Version
}

// targetNote returns remarks about a requested target, for people.
func targetNote(t tools.Target) string {
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

// checkForced refuses a call that would discard history of a protected branch (S0-108).
func (p *Policy) checkForced(c *Call) error {
	for _, target := range c.Intent.Targets {
		if target.Kind == tools.Branch && target.Force && p.protectedBranch(target.Name) {
			return fault.New(fault.Forbidden, "the protected branch %s is never pushed to by force", target.Name).
				WithReason("PROTECTED_BRANCH").WithField("force").WithHint("push to another branch, or without force")
		}
	}
	return nil
}

// protectedBranch reports whether the branch, without the name of its remote, is protected.
func (p *Policy) protectedBranch(name string) bool {
	_, branch, _ := strings.Cut(name, "/")
	return slices.ContainsFunc(p.branches, func(pattern string) bool {
		ok, err := path.Match(pattern, branch)
		return ok && err == nil
	})
}

// ReasonRate is the reason of the RATE_LIMITED of checkRate.
const ReasonRate = "CALLS_PER_MINUTE"

// checkRate returns RATE_LIMITED when the task has reached its limit of calls per minute (S0-113).
func (p *Policy) checkRate(c *Call) error {
	class := c.Spec.RateClass()
	limit := p.limits[class]
	if limit == 0 || c.Recent < limit {
		return nil
	}
	return fault.New(fault.RateLimited, "the task has made %d calls of class %s in a minute, its limit", c.Recent, class).
		WithReason(ReasonRate).WithHint("retry after %s", c.RetryAfter.Round(1e9)).WithRetryAt(time.Now().Add(c.RetryAfter))
}
