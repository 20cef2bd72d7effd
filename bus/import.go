package bus

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// This file imports histories of other logs into the archive. An imported history looks like an archived one, except for two things:
// its commits have position 0, because they never were in the live log, and each of its messages has importHeader. So a check of the
// whole log does not take foreign positions for its own, and tells an interrupted import from an interrupted archiving.

const (
	// importHeader is the header of each message of an imported history: its note in base64.
	importHeader = "Orch-Import"
	// maxImportNote limits a note, in bytes.
	maxImportNote = 1 << 10
)

var _ events.Importer = (*Store)(nil)

// Import implements events.Importer.
func (ar *archive) Import(ctx context.Context, head events.Head, note []byte, restore bool) (events.Importing, error) {
	if _, err := events.ParseTaskID(string(head.Task)); err != nil {
		return nil, err
	}
	if len(note) == 0 || len(note) > maxImportNote {
		return nil, fault.New(fault.Internal, "the note of an import has %d bytes", len(note))
	}
	if loss := ar.loss.Load(); loss != nil {
		return nil, loss
	}
	release, err := ar.gate.begin(time.Now())
	if err != nil {
		return nil, err
	}
	im := &importing{archive: ar, ctx: ctx, head: head, note: base64.StdEncoding.EncodeToString(note), release: release}
	if err := im.prepare(restore); err != nil {
		release()
		return nil, err
	}
	return im, nil
}

// importNote returns the note in the headers of the last message of a history; nil for a history that was not imported.
func importNote(header nats.Header) []byte {
	note, err := base64.StdEncoding.DecodeString(header.Get(importHeader))
	if err != nil || len(note) == 0 {
		return nil
	}
	return note
}

// importing implements events.Importing.
type importing struct {
	*archive

	ctx     context.Context //nolint:containedctx // of the whole import
	head    events.Head
	note    string
	release func()
	body    bytes.Buffer
	// parts counts the messages so far, after is the position of the newest.
	parts int
	after uint64
}

// prepare checks that the log has no history of the task, and had none unless it is restored, and removes what an interrupted import has
// left.
func (im *importing) prepare(restore bool) error {
	if !awaitHeld(im.ctx, im.cfg.Lease) {
		return fenced()
	}
	if _, live, err := im.nextCommit(im.ctx, im.head.Task, 0); err != nil || live {
		return importConflict(im.head.Task, err)
	}
	if err := im.removedFault(im.ctx, im.head.Task); err != nil && (!restore || !fault.Has(err, fault.Gone)) {
		return err
	}
	parts, _, err := im.archive.parts(im.ctx, im.head.Task)
	if err != nil || len(parts) == 0 {
		return err
	}
	last := parts[len(parts)-1]
	if last.header.Get(partHeader) != "" || last.header.Get(importHeader) == "" {
		return importConflict(im.head.Task, nil)
	}
	return im.purge(im.ctx, im.archiveLog, archiveSubject(im.head.Task), last.Seq+1)
}

func importConflict(task events.TaskID, err error) error {
	if err != nil {
		return err
	}
	return fault.New(fault.Conflict, "the log has a history of the task %s", task).WithField("task")
}

// Add implements events.Importing.
func (im *importing) Add(data []byte) error {
	if !im.hasRoom(&im.body, data) {
		if err := im.publish(nats.Header{importHeader: {im.note}}); err != nil {
			return err
		}
	}
	frame(&im.body, events.Stored{Data: data})
	return nil
}

// publish writes the commits since the last message.
func (im *importing) publish(header nats.Header) (err error) {
	if !awaitHeld(im.ctx, im.cfg.Lease) {
		return fenced()
	}
	im.after, err = im.publishPart(im.ctx, archiveSubject(im.head.Task), im.body.Bytes(), im.after, header)
	im.parts++
	im.body.Reset()
	return err
}

// Close implements events.Importing. Only the last message makes the history visible.
func (im *importing) Close() error {
	defer im.Abandon()
	failpoint.Pass(failpoint.Importing)
	im.filter.add(im.head.Task, time.Now())
	err := im.publish(nats.Header{
		partHeader: {strconv.Itoa(im.parts + 1)}, headHeader: {encodeHead(&im.head, 0)}, seqHeader: {"0"}, importHeader: {im.note},
	})
	if err != nil {
		return err
	}
	return im.barrier().wait(archiveStream)
}

// Abandon implements events.Importing.
func (im *importing) Abandon() {
	if im.release != nil {
		im.release()
		im.release = nil
	}
}
