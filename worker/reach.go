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

// reach determines which files calls and their programs reach.
type reach struct {
	*core

	// names indexes the files below the root for rules about paths.
	names *pathindex.Index
}

// confine gives a call a root without the workspaces of others, and confines the programs that it starts.
func (r *reach) confine(a *attempt) {
	root := r.cfg.Root
	if !r.forOperator(a) {
		root = root.Without(func(rel string) bool { return r.workspaces.Foreign(rel, a.Requester, a.Context()) })
	}
	a.root, a.env.Root = root, root
	if r.cfg.Exec != nil {
		a.env.Exec = r.cfg.Exec.Within(func() (proc.Bounds, error) { return r.bounds(a) })
	}
}

// veil hides from the tool what the policy file closes to the call. The paths in the arguments are checked before, so that a
// closed one is refused instead of missing. The contents of git repositories are hidden too, as for programs.
func (r *reach) veil(a *attempt) {
	veil := r.rules.HiddenPaths(a.policyCall)
	if !veil.Empty() {
		a.env.Root = a.root.Without(func(rel string) bool {
			path := r.cfg.Root.Abs(rel)
			return veil.Hides(path) || r.names.Stored(path)
		})
	}
}

// forOperator reports whether a call is made for the operator, who sees the workspaces of all.
func (r *reach) forOperator(a *attempt) bool {
	return r.cfg.Operator != "" && a.Requester == r.cfg.Operator
}

// bounds returns what the programs of a call reach now.
func (r *reach) bounds(a *attempt) (proc.Bounds, error) {
	veil := r.rules.HiddenPaths(a.policyCall)
	b := proc.Bounds{Show: r.shown(a, veil)}
	if !r.forOperator(a) || !veil.Empty() {
		b.Hidden = []string{r.workspaces.Name()}
	}
	var err error
	if b.Denied, err = r.denied(veil); err != nil {
		return proc.Bounds{}, err
	}
	if a.env.Workspace == "" {
		return b, nil // before there is one, nothing is written
	}
	cache, err := r.workspaces.Cache(cacheOwner(a), r.cfg.Clock())
	if err != nil {
		return proc.Bounds{}, err
	}
	b.Own = []string{cache}
	b.Env = map[string]string{"GOCACHE": filepath.Join(cache, "go-build"), "GOMODCACHE": filepath.Join(cache, "go-mod")}
	return b, nil
}

// cacheOwner returns who owns the cache of a call: an identity, or the task if it is not known who made the call.
func cacheOwner(a *attempt) string {
	if a.Requester != "" {
		return a.Requester
	}
	return "task:" + string(a.Task)
}

// shown returns the workspaces that the programs of a call may read: that of its task, and those of the newest tasks of the
// same identity, unless something in them may be closed or the client confines the call to its roots.
func (r *reach) shown(a *attempt, veil policy.HiddenPaths) []string {
	var shown []string
	if a.env.Workspace != "" {
		shown = append(shown, a.env.Workspace)
	}
	if !veil.Empty() || r.forOperator(a) || len(a.policyCall.Roots) > 0 {
		return shown
	}
	for _, task := range r.workspaces.Recent(a.Requester) {
		if task != a.Context() {
			shown = append(shown, r.workspaces.Path(task))
		}
	}
	return shown
}

// denied returns the files and folders that a veil hides from programs. Those that a pattern names literally need not exist;
// other matches are searched for. If there are any, the contents of git repositories are hidden as well, because they contain
// committed versions of the files.
func (r *reach) denied(veil policy.HiddenPaths) ([]string, error) {
	if veil.Empty() {
		return nil, nil
	}
	places := veil.Paths()
	for _, pattern := range veil.OutsidePatterns() {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the pattern "+pattern+" cannot be looked for")
		}
		places = append(places, found...)
	}
	found, err := r.names.Find(veil.Key(), veil.Matches)
	if err != nil {
		return nil, err
	}
	places = slices.Concat(places, found.Names, found.Stores)
	slices.Sort(places)
	places = slices.Compact(places)
	if len(places) > MaxDenied {
		return nil, fault.New(fault.Forbidden, "the policy file closes %d files and folders to the call, and a program can be kept from %d", len(places), MaxDenied).
			WithReason("LIMIT_EXCEEDED").WithHint("let the rule name a folder that holds them, with /** behind it")
	}
	return places, nil
}
