package fs

import (
	"context"

	"github.com/orch-dev/orch/tools"
)

type grepSearchIn struct {
	Pattern         string `json:"pattern" jsonschema:"Regex pattern to search, in RE2 syntax" minLength:"1" maxLength:"10000"`
	Path            string `json:"path,omitempty" jsonschema:"Absolute path of the file or directory to search; default: the project of a session, else the workspace of the task"`
	Glob            string `json:"glob,omitempty" jsonschema:"File filter pattern: of the name, or, with a slash, of the path below the directory" maxLength:"4096"`
	OutputMode      string `json:"output_mode,omitempty" jsonschema:"What to return" enum:"content,files_with_matches,count" default:"content"`
	CaseInsensitive bool   `json:"case_insensitive,omitempty" jsonschema:"Ignore case" default:"false"`
}

type grepSearchOut struct {
	Mode      string      `json:"mode" jsonschema:"The output mode" enum:"content,files_with_matches,count"`
	Matches   []grepMatch `json:"matches,omitzero" jsonschema:"Matching lines; mode content"`
	Files     []string    `json:"files,omitzero" jsonschema:"Absolute paths; mode files_with_matches"`
	Counts    []grepCount `json:"counts,omitzero" jsonschema:"Matching lines by file; mode count"`
	Total     int         `json:"total" jsonschema:"Number of matching lines, or of files in mode files_with_matches, including omitted ones"`
	Truncated bool        `json:"truncated" jsonschema:"The list ends at 10000 items or 256 KiB, or a line longer than 2000 characters was cut"`
}

type grepMatch struct {
	File string `json:"file" jsonschema:"Absolute path"`
	Line int    `json:"line" jsonschema:"Line number, from 1"`
	Text string `json:"text" jsonschema:"The line"`
}

type grepCount struct {
	File  string `json:"file" jsonschema:"Absolute path"`
	Count int    `json:"count" jsonschema:"Number of matching lines"`
}

// grepSearch is GREP_SEARCH (S0-095 to S0-097, A-33). It searches .git only when the path or the glob names it, and
// skips binary and unreadable files.
var grepSearch = tools.Define(tools.Spec{
	Name:       "GREP_SEARCH",
	Title:      "Search in files",
	Purpose:    "Search file contents with regex",
	Conditions: []string{"Any task state", "No approval required"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "path", Access: tools.ReadPath}},
	Errors:     []string{"INVALID_FORMAT", "NOT_FOUND", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT"},
}, func(ctx context.Context, env *tools.Env, in grepSearchIn) (grepSearchOut, error) {
	s, err := newSearch(env, in)
	if err != nil {
		return grepSearchOut{}, err
	}
	rel, err := resolveOptional(env, "path", in.Path)
	if err != nil {
		return grepSearchOut{}, err
	}
	if err := s.run(ctx, rel); err != nil {
		return grepSearchOut{}, err
	}
	return s.out, nil
})
