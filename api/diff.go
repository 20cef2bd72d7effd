package api

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
)

// DiffRequest names two tasks to compare.
type DiffRequest struct {
	A events.TaskID `json:"a"`
	B events.TaskID `json:"b"`
}

// DiffReply lists what differs between two tasks.
type DiffReply struct {
	A events.TaskID `json:"a"`
	B events.TaskID `json:"b"`
	// Entries are the differences, at most MaxDiffs. Omitted counts the others.
	Entries []Difference `json:"entries"`
	Omitted int          `json:"omitted,omitempty"`
	// Same and Different count the steps of both tasks by whether anything of them but their times differs.
	Same      int `json:"same"`
	Different int `json:"different"`
}

// The limits of a DiffReply.
const (
	// MaxDiffs is the maximum number of differences.
	MaxDiffs = 2000
	// MaxDiffValue is the maximum size of a value in a difference, in bytes. A larger one is replaced by an object with its $size in
	// bytes and its $sha256.
	MaxDiffValue = 16 << 10
)

// Difference is a value that two tasks do not have in common. A side that does not have it is absent.
type Difference struct {
	// Part is what differs: task, plan, inputs, steps, output or times.
	Part string `json:"part"`
	// Path is the place of the value, such as steps.build.args.target.
	Path string          `json:"path"`
	A    json.RawMessage `json:"a,omitempty"`
	B    json.RawMessage `json:"b,omitempty"`
}
