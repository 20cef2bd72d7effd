package fs

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type fileEditIn struct {
	FilePath   string `json:"file_path" jsonschema:"Absolute path to file"`
	OldString  string `json:"old_string" jsonschema:"Exact text to replace" minLength:"1"`
	NewString  string `json:"new_string" jsonschema:"Replacement text; may be empty" maxLength:"16777216"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace all occurrences" default:"false"`
}

type fileEditOut struct {
	FilePath     string `json:"file_path" jsonschema:"Real path of the file"`
	Replacements int    `json:"replacements" jsonschema:"Number of occurrences replaced"`
}

// fileEdit is FILE_EDIT (S0-040 to S0-046, A-25).
var fileEdit = tools.Define(tools.Spec{
	Name:    "FILE_EDIT",
	Title:   "Edit a file",
	Purpose: "Replace exact string in existing file",
	Conditions: []string{
		"Task state: IN_PROGRESS",
		"File must be read first in current session",
		"old_string must be unique in file",
	},
	Effect:     tools.Write,
	Gate:       tools.InProgress,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "file_path", Access: tools.WritePath}},
	Content:    []string{"new_string"},
	NeedsReads: true,
	Errors:     []string{"NOT_FOUND", "NOT_UNIQUE", "NOT_READ", "CONFLICT", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT", "SECRET_DETECTED"},
}, func(_ context.Context, env *tools.Env, in fileEditIn) (fileEditOut, error) {
	if in.OldString == in.NewString {
		return fileEditOut{}, fault.New(fault.ValidationError, "is the same as old_string").WithField("new_string")
	}
	rel, err := resolve(env, "file_path", in.FilePath)
	if err != nil {
		return fileEditOut{}, err
	}
	text, err := readUnchanged(env, rel)
	if err != nil {
		return fileEditOut{}, err
	}
	n := strings.Count(text, in.OldString)
	if err := checkOccurrences(n, in.ReplaceAll); err != nil {
		return fileEditOut{}, err
	}
	data := []byte(strings.ReplaceAll(text, in.OldString, in.NewString))
	if _, err := env.Root.WriteAtomic(rel, data, 0o644); err != nil {
		return fileEditOut{}, err
	}
	recordRead(env, rel, digest(data))
	return fileEditOut{FilePath: env.Root.Abs(rel), Replacements: n}, nil
})

// readUnchanged returns the content of a file that the task has read and that has not changed since.
func readUnchanged(env *tools.Env, rel string) (string, error) {
	data, err := env.Root.ReadFile(rel, maxFile)
	if err != nil {
		return "", err
	}
	switch env.Reads[env.Root.Abs(rel)] {
	case digest(data):
		return string(data), nil
	case "":
		return "", fault.New(fault.StateNotAllowed, "the task has not read this file yet").
			WithReason("NOT_READ").WithField("file_path").WithHint("call FILE_READ first")
	default:
		return "", fault.New(fault.Conflict, "the file has changed since the task read it").
			WithField("file_path").WithHint("call FILE_READ again")
	}
}

// checkOccurrences checks the number of occurrences of old_string.
func checkOccurrences(n int, all bool) error {
	switch {
	case n == 0:
		return fault.New(fault.NotFound, "the file does not contain this text").
			WithReason("TEXT_NOT_FOUND").WithField("old_string").WithHint("white space and line ends must match exactly")
	case n > 1 && !all:
		return fault.New(fault.NotUnique, "the file contains this text %d times", n).
			WithField("old_string").WithHint("give more of the surrounding text, or set replace_all")
	default:
		return nil
	}
}
