package worker

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/undo"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/tools"
)

const (
	// maxChanged limits the changed files of one call in the log.
	maxChanged = 1000
	// saveTime limits how much longer a call may take to save the files that it changes.
	saveTime = time.Minute
)

// undoKeeper saves the files that calls of sessions change, so that the changes can be undone.
type undoKeeper struct {
	*core

	access *access
	// store is nil if the worker runs no programs.
	store *undo.Store
}

func newUndoStore(co *core, tree *workspace.Tree) *undo.Store {
	if co.cfg.Exec == nil {
		return nil
	}
	store := undo.New(co.cfg.Root, co.cfg.Exec, tree.Name(), tools.UndoFolder)
	store.Lives = tree.Has
	store.Redact = func(content []byte) []byte {
		clean, _ := co.rules.Redact(content)
		return clean
	}
	return store
}

// saveProject saves the files that a call may change in the project of its session. The returned function must be called when
// the call has ended; it records the changes. A failure to save does not stop the call.
func (u *undoKeeper) saveProject(ctx context.Context, a *attempt) (ended func()) {
	paths, ok := u.changedPaths(a)
	if !ok {
		return func() {}
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	change, err := u.store.Begin(ctx, string(a.Session), string(a.Task)+"/"+a.Step, paths)
	if err != nil {
		stop()
		u.logNotSaved(ctx, a, err)
		return func() {}
	}
	return func() {
		defer stop()
		changed, err := change.End(ctx)
		if err != nil {
			u.logNotSaved(ctx, a, err)
		}
		for _, c := range changed[:min(len(changed), maxChanged)] {
			a.record(events.FileChanged, &events.Changed{Path: u.cfg.Root.Abs(c.Path), How: c.How})
		}
	}
}

// logNotSaved logs that the changes of a call cannot be undone.
func (u *undoKeeper) logNotSaved(ctx context.Context, a *attempt, err error) {
	level := slog.LevelWarn
	if errors.Is(err, undo.ErrTooLarge) {
		level = slog.LevelInfo
	}
	u.cfg.Logger.LogAttrs(ctx, level, "what a call changes cannot be undone", a.logAttrs(err)...)
}

// changedPaths returns the paths, relative to the root, that a call of a session may change outside its workspace. ok is false
// if the call needs no undo. Without paths, ok is true for a program that may change any file.
func (u *undoKeeper) changedPaths(a *attempt) (paths []string, ok bool) {
	if a.Session == "" || u.store == nil || u.rules.Effect(&a.policyCall) == tools.Read || a.spec.NoWorkspace {
		return nil, false
	}
	for _, p := range a.spec.Paths {
		for field, path := range a.paths {
			if name, _, _ := strings.Cut(field, "["); name != p.Field || p.Access == tools.ReadPath || below(path, a.env.Workspace) {
				continue
			}
			if rel, err := filepath.Rel(u.cfg.Root.Name(), path); err == nil && filepath.IsLocal(rel) {
				paths = append(paths, rel)
			}
		}
	}
	slices.Sort(paths)
	program := len(a.spec.Paths) == 0 || a.spec.Command != "" || a.spec.InProject
	return paths, len(paths) > 0 || program && (len(a.env.Writable) > 0 || a.env.Approval != "")
}

// undo reverts the changes of a session. Only an identity with access to the session, or one that sees the tasks of all, may do that; for
// any other identity it returns NOT_FOUND.
func (u *undoKeeper) undo(ctx context.Context, a *attempt, what tools.Undo) (tools.Undone, error) {
	if what.Session == "" {
		what.Session = a.Session
	}
	switch {
	case what.Session == "":
		return tools.Undone{}, fault.New(fault.RequiredField, "is missing: the call belongs to no session").WithField("session")
	case u.store == nil:
		return tools.Undone{}, fault.New(fault.ToolUnavailable, "this worker runs no programs, and keeps nothing")
	case !u.access.seesAll(a) && !u.workspaces.HasAccess(a.Requester, what.Session):
		return tools.Undone{}, fault.New(fault.NotFound, "there is no session %s", what.Session).WithField("session")
	}
	if err := u.checkUndo(a, what); err != nil {
		return tools.Undone{}, err
	}
	r, err := u.store.Undo(ctx, a.env.Root, undo.Request{
		Session: string(what.Session), Task: string(what.Task), By: string(a.Task) + "/" + a.Step, Force: what.Force, Dry: what.DryRun,
	})
	return tools.Undone{
		Restored: u.absolute(r.Restored), Removed: u.absolute(r.Removed), Conflicts: u.absolute(r.Conflicts), Later: u.later(a, r.Later),
	}, err
}

// later describes the files that were changed after the calls to undo. It has no diff of a file that the call may not read.
func (u *undoKeeper) later(a *attempt, found []undo.Later) (all []tools.ChangedLater) {
	for _, l := range found {
		c := tools.ChangedLater{Path: u.cfg.Root.Abs(l.Path), Lost: l.Lost, By: make([]tools.ChangedBy, len(l.By))}
		for i, by := range l.By {
			c.By[i] = u.by(a, by)
		}
		if u.mayRead(a, c.Path) {
			c.Diff = l.Diff
		}
		all = append(all, c)
	}
	return all
}

// by names the call that has changed a file, unless it belongs to a session that the caller has no access to.
func (u *undoKeeper) by(a *attempt, by undo.By) tools.ChangedBy {
	task, step, _ := strings.Cut(by.Call, "/")
	out := tools.ChangedBy{Task: events.TaskID(task), Step: step}
	switch {
	case by.Session == "":
		out = tools.ChangedBy{Who: "somebody outside of sessions"}
	case !u.access.seesAll(a) && !u.workspaces.HasAccess(a.Requester, events.TaskID(by.Session)):
		out = tools.ChangedBy{Who: "a session of somebody else"}
	}
	if at := by.At.UTC(); !by.At.IsZero() {
		out.At = &at
	}
	return out
}

// mayRead reports whether a call may read the content of a file: its client has the file below its roots, and no rule denies it.
func (u *undoKeeper) mayRead(a *attempt, path string) bool {
	roots := a.policyCall.Roots
	inRoots := len(roots) == 0 || slices.ContainsFunc(roots, func(root string) bool { return below(path, root) })
	return inRoots && u.rules.CheckDescendant(&a.policyCall, "", path) == nil
}

// checkUndo refuses an undo that nobody has approved. The approval rule of the tool asks for one by the arguments; files are written
// only if the call was judged as more than a read, and has its approval.
func (u *undoKeeper) checkUndo(a *attempt, what tools.Undo) error {
	if what.DryRun || a.env.Approval != "" && u.rules.Effect(&a.policyCall) != tools.Read {
		return nil
	}
	return fault.New(fault.ApprovalRequired, "an undo writes files, and this call was judged as one that only reads")
}

func (u *undoKeeper) absolute(paths []string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = u.cfg.Root.Abs(path)
	}
	return all
}
