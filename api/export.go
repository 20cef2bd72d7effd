package api

import (
	"time"

	"github.com/orch-dev/orch/events"
)

// ExportRequest asks for a part of an export file. The first request of a file names tasks; the following ones name the File of the
// reply. A request that names neither only asks for the public key.
type ExportRequest struct {
	// IDs are the tasks, 1 to 1,000. With Tree, their descendants are exported as well.
	IDs  []events.TaskID `json:"ids,omitempty"`
	Tree bool            `json:"tree,omitempty"`
	// File and Offset are those of an earlier reply, Offset plus the length of its Data. The node keeps a file until it was not asked
	// for it for a minute.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Once says that nothing is asked for twice: the node drops the file with its last part, or when it fails.
	Once bool `json:"once,omitempty"`
	// Wait is how long to wait until there is more of the file.
	Wait time.Duration `json:"wait,omitempty"`
}

// ExportReply is a part of an export file.
type ExportReply struct {
	File string `json:"file,omitempty"`
	// Data are the bytes from the offset of the request, at most 512 KiB; empty if there are none yet.
	Data []byte `json:"data,omitempty"`
	// Done is set if the file ends after Data.
	Done bool `json:"done,omitempty"`
	// Key is the public key of the node, in base64, and Fingerprint a short form of it.
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
}

func (r ExportRequest) wait() time.Duration { return r.Wait }
