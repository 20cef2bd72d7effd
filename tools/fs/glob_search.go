package fs

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type globSearchIn struct {
	Pattern string `json:"pattern" jsonschema:"Glob pattern relative to path (e.g. **/*.js)" minLength:"1" maxLength:"4096"`
	Path    string `json:"path,omitempty" jsonschema:"Absolute path of the directory to search in; default: the project of a session, else the workspace of the task"`
}

type globSearchOut struct {
	Files     []string `json:"files" jsonschema:"Absolute paths of the matching files, newest first"`
	Truncated bool     `json:"truncated" jsonschema:"There are more than 10000; these are the newest"`
}

// globSearch is GLOB_SEARCH (S0-090, A-32). It searches .git only when the pattern or the path names it.
var globSearch = tools.Define(tools.Spec{
	Name:       "GLOB_SEARCH",
	Title:      "Find files by name",
	Purpose:    "Search files by pattern matching",
	Conditions: []string{"Any task state", "No approval required"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "path", Access: tools.ReadPath}},
	Errors:     []string{"NOT_FOUND", "INVALID_PATH", "INVALID_FORMAT", "OUTSIDE_ROOT"},
}, func(ctx context.Context, env *tools.Env, in globSearchIn) (globSearchOut, error) {
	g, err := newGlob(in.Pattern)
	if err != nil {
		return globSearchOut{}, err
	}
	rel, err := resolveOptional(env, "path", in.Path)
	if err != nil {
		return globSearchOut{}, err
	}
	switch err := isDir(env, "path", rel); {
	case fault.Has(err, fault.NotFound):
		return globSearchOut{}, invalidPath("path", "%s does not exist", env.Root.Abs(rel))
	case err != nil:
		return globSearchOut{}, err
	}
	found, err := g.find(ctx, env, rel)
	if err != nil {
		return globSearchOut{}, err
	}
	out := globSearchOut{Files: make([]string, 0, len(found.files)), Truncated: found.truncated}
	for _, f := range found.files {
		out.Files = append(out.Files, env.Root.Abs(f.rel))
	}
	return out, nil
})

// glob is a pattern, split into base, a directory without wildcards, and the rest.
type glob struct {
	base, rest string
	// depth is the number of directory levels that rest can match, -1 for any.
	depth int
	// git is true when rest names the directory .git.
	git bool
}

func newGlob(pattern string) (*glob, error) {
	if !doublestar.ValidatePattern(pattern) {
		return nil, fault.New(fault.InvalidFormat, "is not a valid glob pattern").WithField("pattern")
	}
	base, rest := doublestar.SplitPattern(path.Clean(pattern))
	if !filepath.IsLocal(base) {
		return nil, fault.New(fault.InvalidFormat, "must not begin with / or leave the directory").
			WithField("pattern").WithHint("name the directory in path")
	}
	g := &glob{base: base, rest: rest, depth: strings.Count(rest, "/")}
	if strings.Contains(rest, "**") {
		g.depth = -1
	}
	g.git = slices.Contains(strings.Split(rest, "/"), ".git")
	return g, nil
}

// find returns the matching files below the directory dir.
func (g *glob) find(ctx context.Context, env *tools.Env, dir string) (*newestFiles, error) {
	found, start := &newestFiles{}, path.Join(dir, g.base)
	switch err := isDir(env, "pattern", start); {
	case fault.Has(err, fault.NotFound), fault.Has(err, fault.InvalidFormat):
		return found, nil // the fixed part of the pattern names no directory
	case err != nil:
		return nil, err
	}
	err := env.Root.Walk(ctx, start, func(at string, d fs.DirEntry) error {
		name := relativeTo(start, at)
		switch {
		case d.IsDir() && (leavesOut(env, at, g.git) || g.depth >= 0 && strings.Count(name, "/") >= g.depth):
			return fs.SkipDir
		case !d.IsDir() && doublestar.MatchUnvalidated(g.rest, name):
			found.add(env, at, d)
		}
		return nil
	})
	found.truncate(maxEntries)
	return found, err
}
