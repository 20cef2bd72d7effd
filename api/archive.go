package api

import (
	"time"

	"github.com/orch-dev/orch/fault"
)

// ArchiveRequest starts a run that archives the tasks that ended longer ago than Age. The run continues in the background, even
// after a restart of the node. If a run is in progress, the request extends it to the later cutoff.
type ArchiveRequest struct {
	Age time.Duration `json:"age"`
	// StatusOnly starts nothing, and returns the progress of the newest run.
	StatusOnly bool `json:"look,omitempty"`
	// Wait is how long to wait for the end of the run, at most 30 s.
	Wait time.Duration `json:"wait,omitempty"`
}

// ArchiveReply is the progress of a run.
type ArchiveReply struct {
	// Archived counts the tasks archived since the run started; after a restart of the node, since the restart.
	Archived int `json:"archived"`
	// Skipped counts the tasks that were in use or could not be archived.
	Skipped int `json:"left,omitempty"`
	// Running is set until the run has ended.
	Running bool `json:"running,omitempty"`
	// Before is the cutoff of the run: the run archives tasks that ended before this time.
	Before time.Time `json:"before,omitzero"`
	// Error is why the run makes no progress. The run is retried.
	Error *fault.Error `json:"error,omitempty"`
}
