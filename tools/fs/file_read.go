package fs

import (
	"context"

	"github.com/orch-dev/orch/tools"
)

type fileReadIn struct {
	FilePath string `json:"file_path" jsonschema:"Absolute path to file"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"Line number to start reading; the first line is 1" default:"1" minimum:"1"`
	Limit    int64  `json:"limit,omitempty" jsonschema:"Number of lines to read" default:"2000" minimum:"1"`
}

type fileReadOut struct {
	FilePath   string `json:"file_path" jsonschema:"Real path of the file"`
	Content    string `json:"content" jsonschema:"The lines, each after its number and a tab"`
	StartLine  int64  `json:"start_line" jsonschema:"Number of the first line asked for"`
	LineCount  int64  `json:"line_count" jsonschema:"Number of lines in content"`
	TotalLines int64  `json:"total_lines" jsonschema:"Number of lines in the file"`
	Truncated  bool   `json:"truncated" jsonschema:"More lines follow, or a line longer than 2000 characters was cut"`
}

// fileRead is FILE_READ (S0-020 to S0-025, A-22).
var fileRead = tools.Define(tools.Spec{
	Name:       "FILE_READ",
	Title:      "Read a file",
	Purpose:    "Read file contents from filesystem",
	Conditions: []string{"Any task state", "No approval required"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "file_path", Access: tools.ReadPath}},
	// The path is absolute, so the call needs no workspace.
	NoWorkspace: true,
	Errors:      []string{"NOT_FOUND", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT"},
}, func(ctx context.Context, env *tools.Env, in fileReadIn) (fileReadOut, error) {
	rel, err := resolve(env, "file_path", in.FilePath)
	if err != nil {
		return fileReadOut{}, err
	}
	f, err := env.Root.Open(rel)
	if err != nil {
		return fileReadOut{}, err
	}
	defer f.Close()
	v := view{from: max(in.Offset, 1), limit: max(in.Limit, 1)}
	if err := v.scan(ctx, f); err != nil {
		return fileReadOut{}, err
	}
	recordRead(env, rel, v.sha256())
	return fileReadOut{
		FilePath: env.Root.Abs(rel), Content: v.text.String(), StartLine: v.from,
		LineCount: v.shown, TotalLines: v.lines, Truncated: v.truncated,
	}, nil
})
