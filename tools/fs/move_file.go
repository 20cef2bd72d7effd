package fs

import (
	"context"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type moveFileIn struct {
	Source      string `json:"source" jsonschema:"Absolute path to the source file; a link stands for what it points to"`
	Destination string `json:"destination" jsonschema:"Absolute path to the destination, not to the directory to put it in"`
}

type moveFileOut struct {
	Source      string `json:"source" jsonschema:"Real path that the file had"`
	Destination string `json:"destination" jsonschema:"Real path of the file"`
	Replaced    bool   `json:"replaced" jsonschema:"A file, or an empty directory, was there before"`
}

// moveFile is move_file (S4-045, S4-046, A-97). Both paths are confined before any other check.
var moveFile = defineWithSourceNames(tools.Spec{
	Name:       "move_file",
	Title:      "Move a file or directory",
	Purpose:    "Move or rename a file within the root. Both source and destination are independently validated.",
	Conditions: []string{"Task state: IN_PROGRESS", "Outside of the task's workspace a person approves"},
	Effect:     tools.Write,
	Gate:       tools.InProgress,
	Approval:   tools.OutsideWorkspace,
	Paths:      []tools.Path{{Field: "source", Access: tools.WritePath, Tree: true, Into: "destination"}, {Field: "destination", Access: tools.WritePath}},
	Errors:     []string{"OutsideRoot", "NotFound", "PermissionDenied", "ReadOnly", "INVALID_PATH", "CONFLICT", "VALIDATION_ERROR"},
}, func(_ context.Context, env *tools.Env, in moveFileIn) (moveFileOut, error) {
	from, err := resolve(env, "source", in.Source)
	if err != nil {
		return moveFileOut{}, err
	}
	to, err := resolve(env, "destination", in.Destination)
	if err != nil {
		return moveFileOut{}, err
	}
	if _, err := env.Root.Lstat(from); err != nil {
		return moveFileOut{}, withField("source", err)
	}
	if from == to {
		return moveFileOut{}, fault.New(fault.ValidationError, "is the same file as source").WithField("destination")
	}
	if err := parentExists(env, "destination", to); err != nil {
		return moveFileOut{}, err
	}
	replaced, err := env.Root.Move(from, to)
	if err != nil {
		return moveFileOut{}, withField("destination", err)
	}
	return moveFileOut{Source: env.Root.Abs(from), Destination: env.Root.Abs(to), Replaced: replaced}, nil
})

// parentExists returns INVALID_PATH unless the directory of rel exists.
func parentExists(env *tools.Env, field, rel string) error {
	dir := filepath.Dir(rel)
	err := isDir(env, field, dir)
	if fault.Has(err, fault.NotFound) {
		return invalidPath(field, "the directory %s does not exist", env.Root.Abs(dir))
	}
	return withField(field, err)
}
