// Package fs is the family of tools for files and directories (seed 000). All of them reach the disk
// through the root of their Env alone.
package fs

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// The limits of the family.
const (
	// maxFile is the largest file in bytes that FILE_EDIT changes.
	maxFile = 16 << 20
	// maxText bounds the text in one result, in bytes.
	maxText = 256 << 10
	// maxEntries bounds the number of entries, files or matches in one result.
	maxEntries = 10_000
)

// Tools returns the family.
func Tools() []tools.Tool {
	return []tools.Tool{fileRead}
}

// resolve confines the path of an input field; an error names the field.
func resolve(env *tools.Env, field, path string) (string, error) {
	rel, err := env.Root.Resolve(path)
	if err != nil {
		return "", fault.From(err).WithField(field)
	}
	return rel, nil
}

// digest returns the SHA-256 of data in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// remember records that the task knows the content of a file, by its real path.
func remember(env *tools.Env, rel, sha256 string) {
	env.Record(events.FileRead, &events.Read{Path: env.Root.Abs(rel), SHA256: sha256})
}
