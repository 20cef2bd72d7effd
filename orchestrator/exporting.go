package orchestrator

import (
	"context"
	"crypto/ed25519"
	"errors"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
)

// exporter makes export files.
type exporter struct {
	*core

	engine *engine
	reader *reader
	files  transfers[*transfer]
}

// Export implements api.Tasks.
func (ex *exporter) Export(ctx context.Context, r api.ExportRequest) (api.ExportReply, error) {
	if err := ex.serving(); err != nil {
		return api.ExportReply{}, err
	}
	key, err := ex.cfg.Exports.Key(ctx)
	if err != nil {
		return api.ExportReply{}, err
	}
	public := export.PublicKey(key)
	reply := api.ExportReply{File: r.File, Key: export.EncodeKey(public), Fingerprint: export.Fingerprint(public)}
	if r.File == "" && len(r.IDs) == 0 {
		return reply, nil
	}
	f, id, err := ex.file(ctx, r, key)
	if err != nil {
		return api.ExportReply{}, err
	}
	f.touch()
	reply.File = id
	if err = f.await(ctx, r.Offset, r.Wait); err == nil {
		reply.Data, reply.Done, err = f.part(r.Offset)
	}
	if r.Once && (err != nil || reply.Done) {
		ex.files.remove(id)
		f.forget()
	}
	if err != nil {
		return api.ExportReply{}, err
	}
	return reply, nil
}

// file returns the file of a request and its id, and begins it if the request names tasks.
func (ex *exporter) file(ctx context.Context, r api.ExportRequest, key ed25519.PrivateKey) (f *transfer, id string, err error) {
	if r.File != "" {
		f, err = ex.files.get(r.File)
		return f, r.File, err
	}
	ids, err := ex.selected(ctx, r)
	if err != nil {
		return nil, "", err
	}
	spool, err := ex.cfg.Exports.Spool()
	if err != nil {
		return nil, "", err
	}
	f, id = newTransfer(spool), string(events.NewTaskID(ex.now()))
	if err := ex.files.add(id, f); err != nil {
		return nil, "", errors.Join(err, spool.Close())
	}
	release := func() { ex.files.remove(id); _ = spool.Close() } // the file has no name
	ex.background(func(ctx context.Context) {
		defer release()
		f.finish(ex.write(ctx, f, ids, key))
		f.idle(ctx)
	}, func() { f.finish(stopping()); release() })
	return f, id, nil
}

// selected returns the tasks of a request, each once, in its order. Each is followed by its descendants if the request asks for them.
func (ex *exporter) selected(ctx context.Context, r api.ExportRequest) ([]events.TaskID, error) {
	var ids []events.TaskID
	seen := map[events.TaskID]bool{}
	for _, id := range r.IDs {
		tasks := []events.TaskID{id}
		if err := ex.reader.checkExists(ctx, id); err != nil {
			return nil, err
		}
		if r.Tree {
			below, err := ex.descendants(ctx, id)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, below...)
		}
		for _, t := range tasks {
			if !seen[t] {
				seen[t] = true
				ids = append(ids, t)
			}
		}
		if len(ids) > export.MaxTasks {
			return nil, tooManyTasks()
		}
	}
	return ids, nil
}

func tooManyTasks() error {
	return fault.New(fault.ValidationError, "a file holds at most %d tasks", export.MaxTasks).WithField("ids").WithReason("LIMIT_EXCEEDED")
}

// descendants returns the tasks below a task, each after its parent.
func (ex *exporter) descendants(ctx context.Context, id events.TaskID) ([]events.TaskID, error) {
	list, err := ex.reader.List(ctx, api.ListRequest{Tree: id, Limit: export.MaxTasks})
	if err != nil {
		return nil, err
	}
	if list.Omitted > 0 {
		return nil, tooManyTasks()
	}
	children := map[events.TaskID][]events.TaskID{}
	for _, line := range list.Tasks {
		children[line.Parent] = append(children[line.Parent], line.ID)
	}
	var below []events.TaskID
	for next := children[id]; len(next) > 0; {
		child := next[0]
		below = append(below, child)
		next = append(next[1:], children[child]...)
		delete(children, child) // a damaged list may have a circle
	}
	return below, nil
}

// write writes the histories of tasks to a file, each as long as it is when it is read.
func (ex *exporter) write(ctx context.Context, f *transfer, ids []events.TaskID, key ed25519.PrivateKey) error {
	find := ex.cfg.FindSecret
	if ex.cfg.Exports.FindSecret != nil {
		find = ex.cfg.Exports.FindSecret()
	}
	w := export.NewWriter(f, export.Config{
		Key: key, NodeVersion: ex.cfg.Exports.Version, At: ex.now(), FindSecret: find,
		Value: func(digest string) ([]byte, error) { return ex.cfg.Blobs.Get(ctx, digest) },
	})
	for _, id := range ids {
		if err := ex.reader.readable(ctx, id); err != nil {
			return err
		}
		if err := ex.writeTask(ctx, w, id); err != nil {
			return err
		}
	}
	_, err := w.Close()
	return err
}

// writeTask writes the history of a task. An imported task is marked as such.
func (ex *exporter) writeTask(ctx context.Context, w *export.Writer, id events.TaskID) error {
	var note *api.ImportView
	for stored, err := range ex.cfg.Log.Read(ctx, id, 1) {
		if err == nil {
			err = w.Commit(stored.Data)
		}
		if err != nil {
			return err
		}
		note = importOf(stored)
	}
	if note != nil && note.Key != "" { // a damaged note is empty
		w.MarkImported(export.Origin{Key: note.Key, SHA256: note.SHA256, At: note.At})
	}
	return nil
}
