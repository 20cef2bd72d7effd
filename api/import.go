package api

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// ImportRequest sends a part of an export file. When the whole file has arrived, the node verifies it, and then stores all its tasks.
// The request may be repeated.
type ImportRequest struct {
	// File identifies the transfer; the client chooses it, 1 to 64 letters, digits, '-' and '_'. The node keeps an incomplete file
	// until nothing of it has arrived for a minute.
	File string `json:"file"`
	// Data are the bytes from Offset on, at most 512 KiB. Size is the size of the whole file.
	Data   []byte `json:"data,omitempty"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	// Key is the public key that must have signed the file, in base64; empty for any.
	Key string `json:"key,omitempty"`
	// Restore permits tasks that retention has removed from the node.
	Restore bool   `json:"restore,omitempty"`
	Actor   string `json:"actor,omitempty"`
	// Wait is how long to wait for the end of an import whose file has arrived.
	Wait time.Duration `json:"wait,omitempty"`
}

// ImportReply is the progress of an import.
type ImportReply struct {
	// Received is how many bytes of the file have arrived.
	Received int64 `json:"received"`
	// Done is set when all tasks are stored. The other fields are then set.
	Done bool `json:"done,omitempty"`
	// Tasks are the tasks of the file.
	Tasks []ImportedTask `json:"tasks,omitempty"`
	// Import is the note that is stored with each new task.
	Import ImportView `json:"import,omitzero"`
}

// ImportedTask is a task of an import.
type ImportedTask struct {
	ID    events.TaskID      `json:"id"`
	Name  string             `json:"name"`
	State statemachine.State `json:"state"`
	// Rev is the newest revision in the file.
	Rev uint64 `json:"rev"`
	// Existing is set if the node had the history already.
	Existing bool `json:"existing,omitempty"`
}

// ImportView says how a task was imported.
type ImportView struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Key is the public key that has signed the file, in base64, and Fingerprint a short form of it. Pinned is set if whoever
	// imported the file expected that key.
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
	Pinned      bool   `json:"pinned"`
	// SHA256 is the digest of the file in front of its signature, in hex.
	SHA256 string `json:"sha256"`
}

func (r ImportRequest) wait() time.Duration { return r.Wait }

// ImportPart is the most bytes of a file in one ImportRequest.
const ImportPart = 512 << 10

// Importer is the method of API that SendImport needs.
type Importer interface {
	Import(ctx context.Context, r ImportRequest) (ImportReply, error)
}

// SendImport sends a file of r.Size bytes part by part, and waits until the node has stored its tasks. r is the first request, without
// data; each request waits r.Wait. Besides the errors of API.Import, it returns CONFLICT if the file is shorter, and the error of a
// read as PARSE_ERROR.
func SendImport(ctx context.Context, a Importer, from io.Reader, r ImportRequest) (ImportReply, error) {
	buffer := make([]byte, ImportPart)
	for {
		n, err := io.ReadFull(from, buffer[:min(ImportPart, r.Size-r.Offset)])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return ImportReply{}, fault.Wrap(fault.ParseError, err, "the file cannot be read")
		}
		r.Data = buffer[:n]
		reply, err := a.Import(ctx, r)
		switch {
		case err != nil || reply.Done:
			return reply, err
		case reply.Received < r.Size && n == 0:
			return reply, fault.New(fault.Conflict, "the file has become shorter while it was read")
		}
		r.Offset += int64(n)
	}
}
