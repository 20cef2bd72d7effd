package api

import "github.com/orch-dev/orch/events"

// MaxValuePart is the largest part of a large value in bytes, and the part of a request without a limit.
const MaxValuePart = 256 << 10

// ValueRequest asks for a part of a large value, which the history of a task has only by its reference.
type ValueRequest struct {
	ID events.TaskID `json:"id"`
	// Ref is the reference in an event of the task, as $blob has it: sha256- and the digest of the value.
	Ref string `json:"ref"`
	// Offset is where the part begins, in bytes. Limit is 4 to MaxValuePart bytes, default MaxValuePart.
	Offset uint64 `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// ValueReply is a part of the JSON text of a value.
type ValueReply struct {
	Ref string `json:"ref"`
	// Size is that of the whole value in bytes.
	Size   uint64 `json:"size"`
	Offset uint64 `json:"offset"`
	// Next is the Offset of the following part; 0 at the end.
	Next uint64 `json:"next,omitempty"`
	// Text is the part as it is recorded, with secrets replaced. It ends after a whole character.
	Text string `json:"text"`
}
