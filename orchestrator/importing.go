package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// importer stores the tasks of export files for reading.
type importer struct {
	*core

	engine  *engine
	reader  *reader
	lister  *lister
	uploads transfers[*upload]
	// one is held during an import: what one import has checked, another one must not change.
	one sync.Mutex
}

// upload is an export file that a client sends.
type upload struct {
	*transfer

	// request is the first request. receiving is held while a part is stored.
	request   api.ImportRequest
	receiving sync.Mutex
	begun     bool
	// ended is closed when an import that was begun has ended.
	ended chan struct{}
	// reply is the result. It is set before the transfer is done.
	reply api.ImportReply
}

// settled reports whether the import has ended, or never will begin.
func (u *upload) settled() bool {
	select {
	case <-u.ended:
		return true
	default:
		return u.transfer.settled()
	}
}

// maxFile limits the size of an export file: its content, and some more for members that are not compressed.
const maxFile = export.MaxContent + export.MaxContent/64

// Import implements api.Tasks.
func (im *importer) Import(ctx context.Context, r api.ImportRequest) (api.ImportReply, error) {
	if err := im.serving(); err != nil {
		return api.ImportReply{}, err
	}
	if err := checkImport(r); err != nil {
		return api.ImportReply{}, err
	}
	u, err := im.upload(r)
	if err != nil {
		return api.ImportReply{}, err
	}
	u.touch()
	if err := im.receive(u, r); err != nil {
		return api.ImportReply{}, err
	}
	size, _, _, _ := u.state()
	if size < r.Size {
		return api.ImportReply{Received: size}, nil
	}
	if err := u.await(ctx, size, r.Wait); err != nil {
		return api.ImportReply{}, err
	}
	if _, done, _, _ := u.state(); !done {
		return api.ImportReply{Received: size}, nil
	}
	return u.reply, nil
}

func checkImport(r api.ImportRequest) error {
	const maxID = 64
	valid := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_'
	}
	switch {
	case r.File == "" || len(r.File) > maxID || strings.TrimFunc(r.File, valid) != "":
		return fault.New(fault.InvalidFormat, "must be 1 to %d letters, digits, - and _", maxID).WithField("file")
	case r.Size < 1 || r.Size > maxFile:
		return fault.New(fault.ValidationError, "an export file has 1 to %d bytes", int64(maxFile)).WithField("size").WithReason("SIZE_LIMIT_EXCEEDED")
	case r.Offset < 0 || r.Offset+int64(len(r.Data)) > r.Size || len(r.Data) > transferPart:
		return fault.New(fault.ValidationError, "a part has at most %d bytes and lies in the file", transferPart).WithField("data")
	case r.Key == "":
		return nil
	}
	_, err := export.ParseKey(r.Key)
	return err
}

// upload returns the upload of a request, and begins it with the first part.
func (im *importer) upload(r api.ImportRequest) (*upload, error) {
	u, err := im.uploads.get(r.File)
	switch {
	case err == nil && (u.request.Size != r.Size || u.request.Key != r.Key || u.request.Restore != r.Restore || u.request.Actor != r.Actor):
		return nil, fault.New(fault.Conflict, "another file is being sent under this name").WithField("file")
	case err == nil || r.Offset > 0:
		return u, err
	}
	spool, err := im.cfg.Exports.Spool()
	if err != nil {
		return nil, err
	}
	r.Data = nil
	u = &upload{transfer: newTransfer(spool), request: r, ended: make(chan struct{})}
	if err := im.uploads.add(r.File, u); err != nil {
		return nil, errors.Join(err, spool.Close())
	}
	release := func() { im.uploads.remove(r.File); _ = spool.Close() } // the file has no name
	im.background(func(ctx context.Context) {
		defer release()
		u.idle(ctx)
		if u.stopReceiving() {
			<-u.ended
		}
	}, func() { u.finish(stopping()); release() })
	return u, nil
}

// stopReceiving makes the upload accept no more, and reports whether its import was begun.
func (u *upload) stopReceiving() (begun bool) {
	u.receiving.Lock()
	defer u.receiving.Unlock()
	begun, u.begun = u.begun, true
	return begun
}

// receive stores a part, unless it was received before. After the last part, it begins the import.
func (im *importer) receive(u *upload, r api.ImportRequest) error {
	u.receiving.Lock()
	defer u.receiving.Unlock()
	size, _, _, _ := u.state()
	switch {
	case r.Offset > size:
		return fault.New(fault.ValidationError, "the node has %d bytes of the file", size).WithField("offset")
	case r.Offset == size:
		if _, err := u.Write(r.Data); err != nil {
			return fault.Wrap(fault.Unavailable, err, "the file cannot be stored")
		}
		size += int64(len(r.Data))
	}
	if size < u.request.Size || u.begun {
		return nil
	}
	u.begun = true
	im.background(func(ctx context.Context) {
		reply, err := im.store(ctx, u)
		u.reply = reply
		u.finish(err)
		close(u.ended)
	}, func() { u.finish(stopping()); close(u.ended) })
	return nil
}

// store verifies a file completely and then stores its tasks.
func (im *importer) store(ctx context.Context, u *upload) (api.ImportReply, error) {
	im.one.Lock()
	defer im.one.Unlock()
	log, ok := im.log.Log.(events.Importer)
	if !ok {
		return api.ImportReply{}, fault.New(fault.Unavailable, "this log imports nothing")
	}
	s := &storing{importer: im, ctx: ctx, log: log, restore: u.request.Restore, heads: map[events.TaskID]events.Head{}, exists: map[events.TaskID]bool{}}
	var key []byte
	if u.request.Key != "" {
		key, _ = export.ParseKey(u.request.Key) // checked before
	}
	file := func() io.Reader { return io.NewSectionReader(u.spool, 0, u.request.Size) }
	report, err := export.Verify(file(), export.Visitor{Key: key, Commit: s.head})
	if err != nil {
		return api.ImportReply{}, err
	}
	s.note = api.ImportView{By: u.request.Actor, At: im.now(), Key: report.Key, Fingerprint: report.Fingerprint, Pinned: report.Pinned, SHA256: report.SHA256}
	reply := api.ImportReply{Received: u.request.Size, Done: true, Import: s.note}
	for _, t := range report.Tasks {
		existing, err := im.has(ctx, t)
		if s.restore && fault.Has(err, fault.Gone) {
			existing, err = false, nil
		}
		if err != nil {
			return api.ImportReply{}, err
		}
		s.exists[t.ID] = existing
		reply.Tasks = append(reply.Tasks, api.ImportedTask{ID: t.ID, Name: t.Name, State: t.State, Rev: t.Commits, Existing: existing})
	}
	return reply, s.run(file(), key)
}

// has reports whether the log has the history of a task: CONFLICT if it has another one, GONE if the task was removed.
func (im *importer) has(ctx context.Context, t export.Task) (bool, error) {
	if err := im.reader.readable(ctx, t.ID); err != nil && !fault.Has(err, fault.NotFound) {
		return false, err
	}
	for stored, err := range im.cfg.Log.Read(ctx, t.ID, t.Commits) {
		if err != nil || events.Hash(stored.Data) == t.Last {
			return err == nil, err
		}
		return false, otherHistory(t.ID)
	}
	for _, err := range im.cfg.Log.Read(ctx, t.ID, 1) {
		if err == nil {
			err = otherHistory(t.ID)
		}
		return false, err
	}
	return false, nil
}

func otherHistory(id events.TaskID) error {
	return fault.New(fault.Conflict, "the node has another history of the task %s; nothing was imported", id).WithField("task").
		WithHint("compare: orch history %s, and orch history FILE --task %s", id, id)
}

// storing is an import whose file was verified.
type storing struct {
	*importer

	ctx  context.Context //nolint:containedctx // of the import
	log  events.Importer
	note api.ImportView
	// restore permits tasks that were removed.
	restore bool
	// heads are the newest heads of the tasks in the file. exists is set for those that the log has.
	heads  map[events.TaskID]events.Head
	exists map[events.TaskID]bool
	// current is the task that is being stored; nil for one that exists. line is its summary.
	task    events.TaskID
	current events.Importing
	line    api.Summary
}

// head implements export.Visitor.Commit for the first reading.
func (s *storing) head(c *events.Commit, _ []byte, after *statemachine.Task) error {
	line := lineOfTask(after)
	s.heads[c.Task] = events.Head{
		Task: c.Task, Rev: c.Rev, State: string(after.State), At: after.UpdatedAt, Name: line.Name, Parent: line.Parent, Created: after.CreatedAt, Imported: true,
	}
	return nil
}

// run stores the tasks that the log does not have, in the order of the file.
func (s *storing) run(file io.Reader, key []byte) error {
	_, err := export.Verify(file, export.Visitor{Key: key, Commit: s.commit, Value: s.value})
	if err == nil {
		return s.close()
	}
	if s.current != nil {
		s.current.Abandon()
	}
	return err
}

func (s *storing) value(_ string, data []byte) error {
	_, err := s.cfg.Blobs.Put(s.ctx, data)
	return err
}

// commit implements export.Visitor.Commit for the second reading.
func (s *storing) commit(c *events.Commit, data []byte, after *statemachine.Task) error {
	if c.Task != s.task {
		if err := s.begin(c.Task); err != nil {
			return err
		}
	}
	if s.current == nil {
		return nil
	}
	s.line = lineOfTask(after)
	s.line.Archived, s.line.Imported = true, true
	return s.current.Add(data)
}

func (s *storing) begin(id events.TaskID) error {
	if err := s.close(); err != nil {
		return err
	}
	s.task = id
	if s.exists[id] {
		return nil
	}
	note, err := json.Marshal(s.note)
	if err == nil {
		s.current, err = s.log.Import(s.ctx, s.heads[id], note, s.restore)
	}
	return err
}

// close makes the current task visible, in the log and in lists.
func (s *storing) close() error {
	if s.current == nil {
		return nil
	}
	s.lister.adding.Lock()
	defer s.lister.adding.Unlock()
	err := s.current.Close()
	s.current = nil
	if err != nil {
		return err
	}
	s.lock()
	defer s.unlock()
	s.engine.listed.index.Put(s.line, 0)
	s.engine.listed.raiseForgotten(s.line.CreatedAt)
	s.engine.listed.raiseForgotten(s.line.UpdatedAt)
	return nil
}

// importOf returns how the history of a commit was imported; nil for a history of this log.
func importOf(stored events.Stored) *api.ImportView {
	if stored.Import == nil {
		return nil
	}
	v := &api.ImportView{}
	_ = json.Unmarshal(stored.Import, v) // a damaged note is shown as an empty one; the task stays read-only
	return v
}

// importedFault returns the error for a command about an imported task.
func importedFault(id events.TaskID) error {
	return fault.New(fault.StateNotAllowed, "task %s was imported, and is only read", id).WithField("id").WithReason("IMPORTED").
		WithHint("orch fork %s makes a task of this node from it, and orch submit runs its plan", id)
}

// unfinishedFault returns the error for a client that waits for the end of an imported task that had not ended.
func unfinishedFault(e *entry) error {
	return fault.New(fault.StateNotAllowed, "task %s was imported when it was %s, and never ends here", e.id, e.task.State).
		WithField("id").WithReason("IMPORTED").WithHint("orch history %s shows how far it has got; orch fork %s goes on from there", e.id, e.id)
}

// importedCause explains why an imported task does not move.
func importedCause(e *entry) api.Cause {
	return api.Cause{Kind: "imported", Sentence: fmt.Sprintf("%s imported the task on %s for reading. It is shown as of revision %d, when it was %s.",
		e.imported.By, decide.Clock(e.imported.At), e.task.Rev, e.task.State)}
}
