package worker

import (
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathindex"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/policy"
)

// MaxDenied bounds the files and folders that are kept from one program because rules of the policy file fit them.
const MaxDenied = 4096

// reach says which files calls and their programs reach.
type reach struct {
	*core

	// names knows the files below the root for rules about paths.
	names *pathindex.Index
}

// fence gives a call a root without the workspaces of others, and lets it start programs only within its bounds.
func (r *reach) fence(a *attempt) {
	root := r.cfg.Root
	if !r.operates(a) {
		root = root.Without(func(rel string) bool { return r.workspaces.Foreign(rel, a.Requester, a.Context()) })
	}
	a.root, a.env.Root = root, root
	if r.cfg.Exec != nil {
		a.env.Exec = r.cfg.Exec.Within(func() (proc.Bounds, error) { return r.bounds(a) })
	}
}

// veil takes away from what the tool reaches what the policy file closes to the call. Before, paths of the call are
// judged, so that one that is named is refused and not missing. The contents of repositories go with it, as for programs.
func (r *reach) veil(a *attempt) {
	veil := r.rules.Veil(a.asked)
	if !veil.Empty() {
		a.env.Root = a.root.Without(func(rel string) bool {
			path := r.cfg.Root.Abs(rel)
			return veil.Hides(path) || r.names.Stored(path)
		})
	}
}

// operates reports whether a call is made for the operator, who sees the workspaces of all.
func (r *reach) operates(a *attempt) bool {
	return r.cfg.Operator != "" && a.Requester == r.cfg.Operator
}

// bounds says what the programs of a call reach, as it stands now.
func (r *reach) bounds(a *attempt) (proc.Bounds, error) {
	veil := r.rules.Veil(a.asked)
	b := proc.Bounds{Show: r.shown(a, veil)}
	if !r.operates(a) || !veil.Empty() {
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

// cacheOwner is who has the cache of a call: an identity, or the task when nobody is known to have made the call.
func cacheOwner(a *attempt) string {
	if a.Requester != "" {
		return a.Requester
	}
	return "task:" + string(a.Task)
}

// shown returns the folders below those of all tasks that the programs of a call read: that of its task, and those of the
// newest tasks of the same identity, unless something may be closed in them or the client keeps the call to its roots.
func (r *reach) shown(a *attempt, veil policy.Veil) []string {
	var shown []string
	if a.env.Workspace != "" {
		shown = append(shown, a.env.Workspace)
	}
	if !veil.Empty() || r.operates(a) || len(a.asked.Roots) > 0 {
		return shown
	}
	for _, task := range r.workspaces.Recent(a.Requester) {
		if task != a.Context() {
			shown = append(shown, r.workspaces.Path(task))
		}
	}
	return shown
}

// denied returns the files and folders that a veil takes away from programs. Those that a pattern names without a sign
// of patterns need not exist; what else fits is looked for. The contents of repositories are taken away with any: they
// hold what was committed of the files.
func (r *reach) denied(veil policy.Veil) ([]string, error) {
	if veil.Empty() {
		return nil, nil
	}
	places := veil.Places()
	for _, pattern := range veil.Outside() {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the pattern "+pattern+" cannot be looked for")
		}
		places = append(places, found...)
	}
	found, err := r.names.Find(veil.Key(), veil.Fits)
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
