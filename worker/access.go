package worker

import (
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathindex"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/policy"
)

// MaxDenied limits the files and folders that are hidden from one program because they match rules of the policy file.
const MaxDenied = 4096

// access determines which files a call and the programs that it starts can access.
type access struct {
	*core

	// names indexes the files below the root for rules about paths.
	names *pathindex.Index
}

// confine hides the workspaces of other identities from a call, and confines the programs that it starts.
func (r *access) confine(a *attempt) {
	root := r.cfg.Root
	if !r.forOperator(a) {
		root = root.Without(func(rel string) bool { return r.workspaces.Foreign(rel, a.Requester, a.Context()) })
	}
	a.root, a.env.Root = root, root
	if r.cfg.Exec != nil {
		a.env.Exec = r.cfg.Exec.Within(func() (proc.Bounds, error) { return r.bounds(a) })
	}
}

// hidePaths hides from the tool the files that the policy file forbids to the call. Paths in the arguments were checked
// earlier: a forbidden one is refused instead of reported as missing. The contents of git repositories are hidden as well, as
// for programs.
func (r *access) hidePaths(a *attempt) {
	hidden := r.rules.HiddenPaths(&a.policyCall)
	if !hidden.Empty() {
		a.env.Root = a.root.Without(func(rel string) bool {
			path := r.cfg.Root.Abs(rel)
			return hidden.Hides(path) || r.names.Stored(path)
		})
	}
}

// forOperator reports whether a call is made for the operator, who sees the workspaces of all.
func (r *access) forOperator(a *attempt) bool {
	return r.cfg.Operator != "" && a.Requester == r.cfg.Operator
}

// seesAll reports whether a call is made for an identity that sees the tasks of all: the operator, or one of whom the node says so.
func (r *access) seesAll(a *attempt) bool { return r.forOperator(a) || a.SeesAll }

// bounds returns which files the programs of a call can access now.
func (r *access) bounds(a *attempt) (proc.Bounds, error) {
	hidden := r.rules.HiddenPaths(&a.policyCall)
	b := proc.Bounds{Show: r.shown(a, hidden), Env: map[string]string{}}
	if at := a.env.TraceParent(); at != "" {
		b.Env["TRACEPARENT"] = at
	}
	if a.env.TraceState != "" {
		b.Env["TRACESTATE"] = a.env.TraceState
	}
	if !r.forOperator(a) || !hidden.Empty() {
		b.Hidden = []string{r.workspaces.Name()}
	}
	var err error
	if b.Denied, err = r.denied(hidden); err != nil {
		return proc.Bounds{}, err
	}
	if a.env.Workspace == "" {
		return b, nil // without a workspace, programs write nothing and need no cache
	}
	cache, err := r.workspaces.Cache(cacheOwner(a), r.cfg.Clock())
	if err != nil {
		return proc.Bounds{}, err
	}
	b.Own = []string{cache}
	b.Env["GOCACHE"], b.Env["GOMODCACHE"] = filepath.Join(cache, "go-build"), filepath.Join(cache, "go-mod")
	return b, nil
}

// cacheOwner returns the owner of the cache of a call: the identity that made the call, or the task if that is not known.
func cacheOwner(a *attempt) string {
	if a.Requester != "" {
		return a.Requester
	}
	return "task:" + string(a.Task)
}

// shown returns the workspaces that the programs of a call may read: the workspace of its task, and those of the newest tasks
// of the same identity. The latter are left out if the policy hides paths from the call or the client confines it to its roots.
func (r *access) shown(a *attempt, hidden policy.HiddenPaths) []string {
	var shown []string
	if a.env.Workspace != "" {
		shown = append(shown, a.env.Workspace)
	}
	if !hidden.Empty() || r.forOperator(a) || len(a.policyCall.Roots) > 0 {
		return shown
	}
	for _, task := range r.workspaces.Recent(a.Requester) {
		if task != a.Context() {
			shown = append(shown, r.workspaces.Path(task))
		}
	}
	return shown
}

// denied returns the files and folders to hide from programs. Those that a pattern names literally need not exist; files that
// match other patterns are searched for. The contents of git repositories are hidden as well, because they contain committed
// versions of the files.
func (r *access) denied(hidden policy.HiddenPaths) ([]string, error) {
	if hidden.Empty() {
		return nil, nil
	}
	places := hidden.Paths()
	for _, pattern := range hidden.OutsidePatterns() {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the pattern "+pattern+" cannot be searched for")
		}
		places = append(places, found...)
	}
	found, err := r.names.Find(hidden.Key(), hidden.Matches)
	if err != nil {
		return nil, err
	}
	places = slices.Concat(places, found.Names, found.Stores)
	slices.Sort(places)
	places = slices.Compact(places)
	if len(places) > MaxDenied {
		return nil, fault.New(fault.Forbidden, "the policy file forbids the call %d files and folders; at most %d can be hidden from a program", len(places), MaxDenied).
			WithReason("LIMIT_EXCEEDED").WithHint("let the rule name a folder that holds them, with /** behind it")
	}
	return places, nil
}
