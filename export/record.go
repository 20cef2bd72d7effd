package export

import (
	"bytes"
	"encoding/json"

	"github.com/orch-dev/orch/events"
)

// The kinds of records.
const (
	kindCommit   = "commit"
	kindValue    = "value"
	kindManifest = "manifest"
)

// header is the line in front of the body of a record.
type header struct {
	Record string `json:"record"`
	// Task, Rev and Hash are set for a commit, Digest for a value.
	Task   events.TaskID `json:"task,omitempty"`
	Rev    uint64        `json:"rev,omitempty"`
	Hash   string        `json:"hash,omitempty"`
	Digest string        `json:"digest,omitempty"`
	// Size is the length of the body in bytes. A newline follows the body.
	Size int64 `json:"size"`
}

// maxLine limits the line of a header, in bytes.
const maxLine = 4 << 10

// firstLine returns the first line of a file, with its newline.
func firstLine() []byte {
	return encodeLine(preamble{Format, Version})
}

// preamble is the first line of a file.
type preamble struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// encodeLine returns v as one line of JSON. There is one encoding for each v, so readers compare lines with it.
func encodeLine(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil { // strings and numbers are always encoded
		panic(err)
	}
	return append(line, '\n')
}

// parseLine decodes a line into v, and reports whether the line is exactly as encodeLine writes it.
func parseLine[T any](line []byte, v *T) bool {
	return json.Unmarshal(line, v) == nil && bytes.Equal(encodeLine(*v), line)
}

// limit returns the maximum size of the body, 0 for an unknown kind of record.
func (h *header) limit() int64 {
	switch h.Record {
	case kindCommit:
		return MaxCommit
	case kindValue:
		return MaxValue
	case kindManifest:
		return MaxManifest
	default:
		return 0
	}
}
