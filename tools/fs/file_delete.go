package fs

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type fileDeleteIn struct {
	FilePath string `json:"file_path" jsonschema:"Absolute path to file; a link itself is deleted, not what it points to"`
}

type fileDeleteOut struct {
	FilePath   string `json:"file_path" jsonschema:"Path of the file that was deleted"`
	ApprovalID string `json:"approval_id" jsonschema:"The approval that permitted it"`
}

// fileDelete is FILE_DELETE (S0-050 to S0-053, A-20).
var fileDelete = tools.DefineIntent(tools.Spec{
	Name:       "FILE_DELETE",
	Title:      "Delete a file",
	Purpose:    "Delete file from filesystem",
	Conditions: []string{"Task state: AWAITING_APPROVAL", "Explicit human approval granted", "Not a protected path"},
	Effect:     tools.Destructive,
	Gate:       tools.AwaitingApproval,
	Approval:   tools.Always,
	Paths:      []tools.Path{{Field: "file_path", Access: tools.DeletePath}},
	Errors:     []string{"NOT_FOUND", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT", "PROTECTED_PATH", "APPROVAL_REQUIRED"},
}, func(_ context.Context, env *tools.Env, in fileDeleteIn) (tools.Intent, error) {
	// Nobody is asked to approve the deletion of a file that does not exist.
	rel, err := env.Root.ResolveEntry(in.FilePath)
	if err == nil {
		_, err = env.Root.Lstat(rel)
	}
	return tools.Intent{}, withField("file_path", err)
}, func(_ context.Context, env *tools.Env, in fileDeleteIn) (fileDeleteOut, error) {
	rel, err := resolveEntry(env, "file_path", in.FilePath)
	if err != nil {
		return fileDeleteOut{}, err
	}
	if err := env.Root.RemoveFile(rel); err != nil {
		return fileDeleteOut{}, withField("file_path", err)
	}
	return fileDeleteOut{FilePath: env.Root.Abs(rel), ApprovalID: env.Approval}, nil
})

// resolveEntry confines the path of an input field, but does not follow a link in its last element.
func resolveEntry(env *tools.Env, field, path string) (string, error) {
	rel, err := env.Root.ResolveEntry(path)
	if err != nil {
		return "", fault.From(err).WithField(field)
	}
	return rel, env.StillAt(field, env.Root.Abs(rel))
}
