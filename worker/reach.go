package worker

import (
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/policy"
)

// MaxDenied bounds the files and folders that are kept from one program because rules of the policy file fit them.
const MaxDenied = 4096

// fence gives a call a root without the workspaces of others, and lets it start programs only within its bounds.
func (w *Worker) fence(a *attempt) {
	root := w.cfg.Root
	if !w.operates(a) {
		root = root.Without(func(rel string) bool { return w.workspaces.Foreign(rel, a.Requester, a.Context()) })
	}
	a.root, a.env.Root = root, root
	if w.cfg.Exec != nil {
		a.env.Exec = w.cfg.Exec.Within(func() (proc.Bounds, error) { return w.bounds(a) })
	}
}

// veil takes away from what the tool reaches what the policy file closes to the call. Before, paths of the call are
// judged, so that one that is named is refused and not missing. The contents of repositories go with it, as for programs.
func (w *Worker) veil(a *attempt) {
	veil := w.rules.Veil(a.asked)
	if !veil.Empty() {
		a.env.Root = a.root.Without(func(rel string) bool {
			path := w.cfg.Root.Abs(rel)
			return veil.Hides(path) || w.names.Stored(path)
		})
	}
}

// operates reports whether a call is made for the operator, who sees the workspaces of all.
func (w *Worker) operates(a *attempt) bool {
	return w.cfg.Operator != "" && a.Requester == w.cfg.Operator
}

// bounds says what the programs of a call reach, as it stands now.
func (w *Worker) bounds(a *attempt) (proc.Bounds, error) {
	veil := w.rules.Veil(a.asked)
	b := proc.Bounds{Show: w.shown(a, veil)}
	if !w.operates(a) || !veil.Empty() {
		b.Hidden = []string{w.workspaces.Name()}
	}
	var err error
	if b.Denied, err = w.denied(veil); err != nil {
		return proc.Bounds{}, err
	}
	if a.env.Workspace == "" {
		return b, nil // before there is one, nothing is written
	}
	cache, err := w.workspaces.Cache(cacheOwner(a), w.cfg.Clock())
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
func (w *Worker) shown(a *attempt, veil policy.Veil) []string {
	var shown []string
	if a.env.Workspace != "" {
		shown = append(shown, a.env.Workspace)
	}
	if !veil.Empty() || w.operates(a) || len(a.asked.Roots) > 0 {
		return shown
	}
	for _, task := range w.workspaces.Recent(a.Requester) {
		if task != a.Context() {
			shown = append(shown, w.workspaces.Path(task))
		}
	}
	return shown
}

// denied returns the files and folders that a veil takes away from programs. Those that a pattern names without a sign
// of patterns need not exist; what else fits is looked for. The contents of repositories are taken away with any: they
// hold what was committed of the files.
func (w *Worker) denied(veil policy.Veil) ([]string, error) {
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
	found, err := w.names.Find(veil.Key(), veil.Fits)
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
