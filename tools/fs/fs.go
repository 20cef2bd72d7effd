// Package fs is the family of tools for files and directories (S0 and S4 rules). They access the disk only through
// the root of their Env.
package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// The limits of the family.
const (
	// maxFile is the size in bytes of the largest file that FILE_EDIT changes.
	maxFile = 16 << 20
	// maxText limits the text in one result, in bytes.
	maxText = 256 << 10
	// maxEntries limits the number of entries, files or matches in one result.
	maxEntries = 10_000
)

// Tools returns the tools of the family.
func Tools() []tools.Tool {
	return []tools.Tool{
		fileRead, fileWrite, fileEdit, fileDelete, directoryCreate, directoryList, directoryDelete, globSearch, grepSearch,
		projectUndo, patchApply, appendFile, writeFile, createDirectory, moveFile,
	}
}

// resolve confines the path of an input field to the root; an error names the field.
func resolve(env *tools.Env, field, path string) (string, error) {
	rel, err := env.Root.Resolve(path)
	if err != nil {
		return "", fault.From(err).WithField(field)
	}
	return rel, env.StillAt(field, env.Root.Abs(rel))
}

// resolveOptional is resolve for a field that has a default.
func resolveOptional(env *tools.Env, field, path string) (string, error) {
	if path == "" {
		path = defaultDirectory(env)
	}
	return resolve(env, field, path)
}

// defaultDirectory returns the directory for a call that names none: the project of its session, else its workspace.
func defaultDirectory(env *tools.Env) string {
	if env.Session != "" {
		return env.Start()
	}
	return env.Workspace
}

// leavesOut reports whether a search leaves out a directory on its way: a .git that is not named, and the backups of orch.
func leavesOut(env *tools.Env, at string, gitNamed bool) bool {
	switch filepath.Base(at) {
	case ".git":
		return !gitNamed
	case tools.UndoFolder:
		return filepath.Dir(env.Root.Abs(at)) == filepath.Dir(env.Workspace)
	default:
		return false
	}
}

// isDir returns INVALID_PATH when rel exists but is not a directory.
func isDir(env *tools.Env, field, rel string) error {
	info, err := env.Root.Stat(rel)
	if err == nil && !info.IsDir() {
		err = invalidPath(field, "%s is not a directory", env.Root.Abs(rel))
	}
	return err
}

// invalidPath returns INVALID_FORMAT with the reason INVALID_PATH of the S0 rules.
func invalidPath(field, format string, args ...any) error {
	return fault.New(fault.InvalidFormat, format, args...).WithReason("INVALID_PATH").WithField(field)
}

// relativeTo returns the path at, which lies below dir, relative to dir.
func relativeTo(dir, at string) string {
	if dir == "." {
		return at
	}
	return strings.TrimPrefix(at, dir+"/")
}

// digest returns the SHA-256 of data in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// recordRead records that the task has read or written the current content of a file, by its real path.
func recordRead(env *tools.Env, rel, hash string) {
	env.Record(events.FileRead, &events.Read{Path: env.Root.Abs(rel), SHA256: hash})
}
