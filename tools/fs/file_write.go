package fs

import (
	"context"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type fileWriteIn struct {
	FilePath string `json:"file_path" jsonschema:"Absolute path to file"`
	Content  string `json:"content" jsonschema:"File contents to write; may be empty" maxLength:"16777216"`
}

type fileWriteOut struct {
	FilePath     string `json:"file_path" jsonschema:"Real path of the file"`
	BytesWritten int    `json:"bytes_written" jsonschema:"Size of the file in bytes"`
	Created      bool   `json:"created" jsonschema:"The file did not exist before"`
}

// fileWrite is FILE_WRITE (S0-030 to S0-038). Writing the same bytes again changes nothing.
var fileWrite = tools.Define(tools.Spec{
	Name:    "FILE_WRITE",
	Title:   "Write a file",
	Purpose: "Write or overwrite file contents",
	Conditions: []string{
		"Task state: IN_PROGRESS",
		"Target location: within Working/TASK_{ID}/ or approved deliverable path",
		"No secrets in content",
	},
	Effect:   tools.Idempotent,
	Gate:     tools.InProgress,
	Approval: tools.OutsideWorkspace,
	Paths:    []tools.Path{{Field: "file_path", Access: tools.WritePath}},
	Content:  []string{"content"},
	Errors:   []string{"PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT", "SECRET_DETECTED", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in fileWriteIn) (fileWriteOut, error) {
	rel, err := resolve(env, "file_path", in.FilePath)
	if err != nil {
		return fileWriteOut{}, err
	}
	data := []byte(in.Content)
	created, err := env.Root.WriteAtomic(rel, data, 0o644)
	if fault.Has(err, fault.NotFound) {
		return fileWriteOut{}, invalidPath("file_path", "the directory %s does not exist", filepath.Dir(env.Root.Abs(rel)))
	}
	if err != nil {
		return fileWriteOut{}, err
	}
	recordRead(env, rel, digest(data))
	return fileWriteOut{FilePath: env.Root.Abs(rel), BytesWritten: len(data), Created: created}, nil
})
