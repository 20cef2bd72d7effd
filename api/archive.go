package api

import (
	"time"

	"github.com/orch-dev/orch/fault"
)

// ArchiveRequest begins a run that archives the tasks that ended longer ago than Age. It goes on in the background, also
// after a restart of the node; when one goes on already, that one does what both ask for.
type ArchiveRequest struct {
	Age time.Duration `json:"age"`
	// StatusOnly begins nothing: it asks how the newest run stands.
	StatusOnly bool `json:"look,omitempty"`
	// Wait is how long to wait for the end of the run, at most 30 s.
	Wait time.Duration `json:"wait,omitempty"`
}

// ArchiveReply says how a run stands.
type ArchiveReply struct {
	// Archived counts the tasks that were archived since the run began or, after a restart, since that.
	Archived int `json:"archived"`
	// Skipped counts those that were in use or could not be archived.
	Skipped int `json:"left,omitempty"`
	// Running is set as long as the run goes on.
	Running bool `json:"running,omitempty"`
	// Before is the time before which the tasks have ended.
	Before time.Time `json:"before,omitzero"`
	// Error is why the run stands still; it is tried again.
	Error *fault.Error `json:"error,omitempty"`
}
