package fs

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type createDirectoryIn struct {
	Path string `json:"path" jsonschema:"Absolute path to the directory to create"`
}

type createDirectoryOut struct {
	Path    string `json:"path" jsonschema:"Real path of the directory"`
	Created bool   `json:"created" jsonschema:"The directory did not exist before"`
}

// createDirectory is create_directory (S4-040). An existing directory is a success.
var createDirectory = defineWithSourceNames(tools.Spec{
	Name:       "create_directory",
	Title:      "Create a directory and its parents",
	Purpose:    "Create a directory and any missing parent directories.",
	Conditions: []string{"Task state: IN_PROGRESS", "Outside of the task's workspace a person approves"},
	Effect:     tools.Idempotent,
	Gate:       tools.InProgress,
	Approval:   tools.OutsideWorkspace,
	Paths:      []tools.Path{{Field: "path", Access: tools.WritePath}},
	Errors:     []string{"OutsideRoot", "PermissionDenied", "ReadOnly", "INVALID_PATH", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in createDirectoryIn) (createDirectoryOut, error) {
	rel, err := resolve(env, "path", in.Path)
	if err != nil {
		return createDirectoryOut{}, err
	}
	_, before := env.Root.Lstat(rel)
	if err := env.Root.MkdirAll(rel, 0o755); err != nil {
		return createDirectoryOut{}, withField("path", err)
	}
	return createDirectoryOut{Path: env.Root.Abs(rel), Created: fault.Has(before, fault.NotFound)}, nil
})
