package fs

import (
	"context"

	"github.com/orch-dev/orch/tools"
)

type appendIn struct {
	Path    string `json:"path" jsonschema:"Absolute path to the target file"`
	Content string `json:"content" jsonschema:"Content to append" maxLength:"16777216"`
}

type appendOut struct {
	Path          string `json:"path" jsonschema:"Real path of the file"`
	BytesAppended int    `json:"bytes_appended" jsonschema:"Number of bytes added"`
	Size          int64  `json:"size" jsonschema:"Size of the file afterwards, in bytes; others may write, too"`
}

// appendFile is append (S4-030, S4-031). The kernel appends each write atomically, after those of other writers.
var appendFile = defineWithSourceNames(tools.Spec{
	Name:       "append",
	Title:      "Append to a file",
	Purpose:    "Append content to the end of an existing file. Does not create the file if it is absent.",
	Conditions: []string{"Task state: IN_PROGRESS", "Outside of the task's workspace a person approves", "No secrets in content"},
	Effect:     tools.Write,
	Gate:       tools.InProgress,
	Approval:   tools.OutsideWorkspace,
	Paths:      []tools.Path{{Field: "path", Access: tools.WritePath}},
	Content:    []string{"content"},
	Errors:     []string{"NotFound", "OutsideRoot", "PermissionDenied", "ReadOnly", "INVALID_PATH", "SECRET_DETECTED", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in appendIn) (appendOut, error) {
	rel, err := resolve(env, "path", in.Path)
	if err != nil {
		return appendOut{}, err
	}
	size, err := env.Root.Append(rel, []byte(in.Content))
	if err != nil {
		return appendOut{}, withField("path", err)
	}
	return appendOut{Path: env.Root.Abs(rel), BytesAppended: len(in.Content), Size: size}, nil
})
