package fs

import (
	"context"
	"path/filepath"

	"github.com/orch-dev/orch/tools"
)

type writeFileIn struct {
	Path    string `json:"path" jsonschema:"Absolute path to the file"`
	Content string `json:"content" jsonschema:"Content to write; may be empty" maxLength:"16777216"`
}

type writeFileOut struct {
	Path         string `json:"path" jsonschema:"Real path of the file"`
	BytesWritten int    `json:"bytes_written" jsonschema:"Size of the file in bytes"`
	Created      bool   `json:"created" jsonschema:"The file did not exist before"`
}

// writeFile is write_file (S4-035 to S4-037). Unlike FILE_WRITE it also creates missing directories.
var writeFile = defineWithSourceNames(tools.Spec{
	Name:       "write_file",
	Title:      "Write a file and its directories",
	Purpose:    "Write content to a file, creating it if it does not exist or overwriting it entirely if it does. Parent directories are created automatically.",
	Conditions: []string{"Task state: IN_PROGRESS", "Outside of the task's workspace a person approves", "No secrets in content"},
	Effect:     tools.Idempotent,
	Gate:       tools.InProgress,
	Approval:   tools.OutsideWorkspace,
	Paths:      []tools.Path{{Field: "path", Access: tools.WritePath}},
	Content:    []string{"content"},
	Errors:     []string{"OutsideRoot", "PermissionDenied", "ReadOnly", "INVALID_PATH", "SECRET_DETECTED", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in writeFileIn) (writeFileOut, error) {
	rel, err := resolve(env, "path", in.Path)
	if err != nil {
		return writeFileOut{}, err
	}
	data := []byte(in.Content)
	created, err := writeWithParents(env, rel, data)
	if err != nil {
		return writeFileOut{}, withField("path", err)
	}
	recordRead(env, rel, digest(data))
	return writeFileOut{Path: env.Root.Abs(rel), BytesWritten: len(data), Created: created}, nil
})

// writeWithParents writes a file and creates the directories that it needs.
func writeWithParents(env *tools.Env, rel string, data []byte) (bool, error) {
	if err := env.Root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return false, err
	}
	return env.Root.WriteAtomic(rel, data, 0o644)
}
