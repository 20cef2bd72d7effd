package main

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools/toolinfo"
)

// planLoader reads plans and their inputs from the command line and from files, and checks them.
type planLoader struct {
	*env

	tools *toolset
}

// loadPlan reads and checks a plan file. Warnings go to stderr.
func (l *planLoader) loadPlan(ctx context.Context, name string) (*plan.Plan, error) {
	return l.parsePlan(ctx, name, func(p plan.Problem) { l.note("warning: %s", p) })
}

// parsePlan reads and checks a plan file. It calls warn for parts that are valid but probably not intended.
func (l *planLoader) parsePlan(ctx context.Context, name string, warn func(plan.Problem)) (*plan.Plan, error) {
	src, err := l.read(name, plan.MaxSource)
	if err != nil {
		return nil, err
	}
	if name == stdinName {
		name = "stdin"
	}
	options := l.planOptions(ctx)
	options.Warn = warn
	return plan.Parse(name, src, options)
}

// planOf returns the plan of a definition in a file: the path of another file, relative to it, or the plan itself.
func (l *planLoader) planOf(ctx context.Context, file string, raw json.RawMessage) (*plan.Plan, error) {
	var path string
	if json.Unmarshal(raw, &path) != nil {
		return plan.Parse(file, raw, l.planOptions(ctx))
	}
	if !filepath.IsAbs(path) && file != stdinName {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return l.loadPlan(ctx, path)
}

// planOptions returns the options for checking a plan: access to files, and the tools.
func (l *planLoader) planOptions(ctx context.Context) plan.Options {
	return plan.Options{
		ReadFile: func(path string) ([]byte, error) { return l.read(path, plan.MaxSource) },
		ToolNames: func() []string {
			catalogue, err := l.tools.catalogue(ctx)
			if err != nil {
				return nil
			}
			return catalogue.Names()
		},
		Tool: func(name string) (plan.ToolInfo, bool) {
			t, ok := l.tools.lookUp(ctx, name)
			if !ok {
				return plan.ToolInfo{}, false
			}
			return toolinfo.Of(t), true
		},
	}
}
