package fs

import (
	"context"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/patch"
	"github.com/orch-dev/orch/tools"
)

type patchApplyIn struct {
	Path  string `json:"path" jsonschema:"Absolute path to the target file"`
	Patch string `json:"patch" jsonschema:"Unified diff of this one file. May be wrapped in a Markdown code fence. Every hunk must match at the line that it names" maxLength:"4194304"`
}

type patchApplyOut struct {
	Path         string `json:"path" jsonschema:"Real path of the file"`
	Created      bool   `json:"created" jsonschema:"The file did not exist before"`
	Hunks        int    `json:"hunks" jsonschema:"Number of hunks applied"`
	BytesWritten int    `json:"bytes_written" jsonschema:"Size of the file in bytes"`
}

// patchApply is patch_apply (S4-020 to S4-027, A-96). It applies all hunks or none, in one atomic write.
var patchApply = defineWithSourceNames(tools.Spec{
	Name:       "patch_apply",
	Title:      "Apply a patch to a file",
	Purpose:    "Apply a unified diff to an existing file, or create a new file from a /dev/null source header.",
	Conditions: []string{"Task state: IN_PROGRESS", "Outside of the task's workspace a person approves", "No secrets in the patch"},
	Effect:     tools.Write,
	Gate:       tools.InProgress,
	Approval:   tools.OutsideWorkspace,
	Paths:      []tools.Path{{Field: "path", Access: tools.WritePath}},
	Content:    []string{"patch"},
	NeedsReads: true,
	Errors:     []string{"OutsideRoot", "NotFound", "PatchFailed", "PermissionDenied", "ReadOnly", "INVALID_PATH", "SECRET_DETECTED", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in patchApplyIn) (patchApplyOut, error) {
	rel, err := resolve(env, "path", in.Path)
	if err != nil {
		return patchApplyOut{}, err
	}
	old, missing := readWritable(env, rel)
	diff, err := patch.Parse(in.Patch)
	if err == nil {
		err = diff.Names(filepath.Clean(in.Path), env.Root.Abs(rel))
	}
	if missing != nil && !patch.Creates(in.Patch) { // takes precedence over errors of the patch (S4-011)
		return patchApplyOut{}, withField("path", missing)
	}
	if err != nil {
		return patchApplyOut{}, err
	}
	return patchFile(env, rel, diff, old)
})

// readWritable returns the content of a file. It fails when the file does not exist or is not writable.
func readWritable(env *tools.Env, rel string) ([]byte, error) {
	f, err := env.Root.OpenAppend(rel)
	if err != nil {
		return nil, err
	}
	f.Close()
	return env.Root.ReadFile(rel, maxFile)
}

// patchFile applies diff to the content of a file and writes the result.
func patchFile(env *tools.Env, rel string, diff *patch.Diff, old []byte) (patchApplyOut, error) {
	data, err := diff.Apply(old)
	if err != nil {
		return patchApplyOut{}, err
	}
	if len(data) > maxFile {
		return patchApplyOut{}, fault.New(fault.ValidationError, "the file would be larger than %d bytes", maxFile).
			WithReason("SIZE_LIMIT_EXCEEDED").WithField("patch")
	}
	created, err := writeWithParents(env, rel, data)
	if err != nil {
		return patchApplyOut{}, withField("path", err)
	}
	path := env.Root.Abs(rel)
	if diff.Create() || env.Reads[path] == digest(old) { // the task knows the whole content
		recordRead(env, rel, digest(data))
	}
	return patchApplyOut{Path: path, Created: created, Hunks: diff.Hunks(), BytesWritten: len(data)}, nil
}
