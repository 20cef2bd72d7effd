package fs

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type directoryCreateIn struct {
	DirectoryPath string `json:"directory_path" jsonschema:"Absolute path to directory"`
}

type directoryCreateOut struct {
	DirectoryPath string `json:"directory_path" jsonschema:"Real path of the directory"`
	Created       bool   `json:"created" jsonschema:"The directory did not exist before; always true"`
}

// directoryCreate is DIRECTORY_CREATE (S0-060, S0-061). The parent must exist, the directory must not.
var directoryCreate = tools.Define(tools.Spec{
	Name:       "DIRECTORY_CREATE",
	Title:      "Create a directory",
	Purpose:    "Create new directory",
	Conditions: []string{"Task state: IN_PROGRESS", "Parent directory exists"},
	Effect:     tools.Write,
	Gate:       tools.InProgress,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "directory_path", Access: tools.WritePath}},
	Errors:     []string{"NOT_FOUND", "CONFLICT", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT"},
}, func(_ context.Context, env *tools.Env, in directoryCreateIn) (directoryCreateOut, error) {
	rel, err := resolve(env, "directory_path", in.DirectoryPath)
	if err != nil {
		return directoryCreateOut{}, err
	}
	switch err := env.Root.Mkdir(rel, 0o755); {
	case fault.Has(err, fault.NotFound):
		return directoryCreateOut{}, fault.New(fault.NotFound, "the parent directory does not exist").WithField("directory_path")
	case err != nil:
		return directoryCreateOut{}, err
	}
	return directoryCreateOut{DirectoryPath: env.Root.Abs(rel), Created: true}, nil
})
