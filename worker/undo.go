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
	// maxChanged bounds the changed files of one call that stand in the log.
	maxChanged = 1000
	// keepTime bounds how long a call may take longer because what it changes is kept.
	keepTime = time.Minute
)

func newKept(cfg Config, tree *workspace.Tree) *undo.Store {
	if cfg.Exec == nil {
		return nil
	}
	kept := undo.New(cfg.Root, cfg.Exec, tree.Name(), tools.UndoFolder)
	kept.Lives = tree.Has
	return kept
}

// keepProject keeps what a call may change in the project of its session, and returns what notes the changes when the call
// has ended. What cannot be kept stops no call.
func (w *Worker) keepProject(ctx context.Context, a *attempt) (ended func()) {
	paths, ok := w.toKeep(a)
	if !ok {
		return func() {}
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	change, err := w.kept.Begin(ctx, string(a.Session), string(a.Task)+"/"+a.Step, paths)
	if err != nil {
		stop()
		w.notKept(ctx, a, err)
		return func() {}
	}
	return func() {
		defer stop()
		changed, err := change.End(ctx)
		if err != nil {
			w.notKept(ctx, a, err)
		}
		for _, c := range changed[:min(len(changed), maxChanged)] {
			a.record(events.FileChanged, &events.Changed{Path: w.cfg.Root.Abs(c.Path), How: c.How})
		}
	}
}

func (w *Worker) notKept(ctx context.Context, a *attempt, err error) {
	level := slog.LevelWarn
	if errors.Is(err, undo.ErrTooLarge) {
		level = slog.LevelInfo
	}
	w.cfg.Logger.LogAttrs(ctx, level, "what a call changes cannot be undone", a.about(err)...)
}

// toKeep are the paths, relative to the root, that a call of a session may change outside of its workspace; none, with true, for
// a program that may change any.
func (w *Worker) toKeep(a *attempt) (paths []string, ok bool) {
	if a.Session == "" || w.kept == nil || w.rules.Effect(a.asked) == tools.Read || a.spec.NoWorkspace {
		return nil, false
	}
	for _, p := range a.spec.Paths {
		for field, path := range a.paths {
			if name, _, _ := strings.Cut(field, "["); name != p.Field || p.Access == tools.ReadPath || below(path, a.env.Workspace) {
				continue
			}
			if rel, err := filepath.Rel(w.cfg.Root.Name(), path); err == nil && filepath.IsLocal(rel) {
				paths = append(paths, rel)
			}
		}
	}
	slices.Sort(paths)
	program := len(a.spec.Paths) == 0 || a.spec.Command != "" || a.spec.InProject
	return paths, len(paths) > 0 || program && (len(a.env.Writable) > 0 || a.env.Approval != "")
}

// undo puts back what a session has changed, for the identity that it belongs to.
func (w *Worker) undo(ctx context.Context, a *attempt, u tools.Undo) (tools.Undone, error) {
	if u.Session == "" {
		u.Session = a.Session
	}
	switch {
	case u.Session == "":
		return tools.Undone{}, fault.New(fault.RequiredField, "is missing: the call belongs to no session").WithField("session")
	case w.kept == nil:
		return tools.Undone{}, fault.New(fault.ToolUnavailable, "this worker runs no programs, and keeps nothing")
	case !w.operates(a) && !w.workspaces.Owns(a.Requester, u.Session):
		return tools.Undone{}, fault.New(fault.NotFound, "there is no session %s", u.Session).WithField("session")
	}
	r, err := w.kept.Undo(ctx, a.env.Root, string(u.Session), string(u.Task), u.Force, u.DryRun)
	return tools.Undone{Restored: w.absolute(r.Restored), Removed: w.absolute(r.Removed), Conflicts: w.absolute(r.Conflicts)}, err
}

func (w *Worker) absolute(paths []string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = w.cfg.Root.Abs(path)
	}
	return all
}
