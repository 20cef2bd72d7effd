package worker

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// checkTree searches for protected paths in directories that the call would delete or move as a whole (A-27, S0-072). A file
// that must not be deleted by its name must not be deleted together with its directory either.
func (x *executor) checkTree(ctx context.Context, a *attempt) error {
	for _, p := range a.spec.Paths {
		if path := a.paths[p.Field]; p.Tree && path != "" {
			if err := x.checkDescendants(ctx, a, p, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDescendants checks the paths below a directory, and, if p.Into names a target, the paths that they would get there.
func (x *executor) checkDescendants(ctx context.Context, a *attempt, p tools.Path, path string) error {
	if err := x.rules.CheckDescendant(&a.policyCall, p.Field, path); err != nil {
		return nil //nolint:nilerr // the policy reports it for the path itself
	}
	rel, err := x.cfg.Root.ResolveEntry(path)
	if err != nil {
		return fault.From(err).WithField(p.Field)
	}
	if info, err := x.cfg.Root.Lstat(rel); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // a missing directory contains nothing; the tool reports it
	}
	return x.cfg.Root.Walk(ctx, rel, func(at string, _ fs.DirEntry) error {
		err := x.rules.CheckDescendant(&a.policyCall, p.Field, x.cfg.Root.Abs(at))
		if into := a.paths[p.Into]; err == nil && into != "" {
			err = x.rules.CheckDescendant(&a.policyCall, p.Into, filepath.Join(into, at[len(rel):]))
		}
		return err
	})
}
