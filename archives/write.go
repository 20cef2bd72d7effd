package archives

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/statemachine"
)

// Node is what a Writer needs of a node. api.API implements it.
type Node interface {
	api.Exporter
	History(ctx context.Context, r api.HistoryRequest) (api.HistoryReply, error)
}

// Writer archives tasks of a node.
type Writer struct {
	Node  Node
	Store objects.Store
	// Temp is the directory for a temporary file of the size of a bundle.
	Temp string
	// Version is that of the program, Now the clock.
	Version string
	Now     func() time.Time
	// Progress is called after each bundle and after tasks that were there already. It may be nil.
	Progress func(Result)
}

// Result says what a Writer has done.
type Result struct {
	// Tasks were archived, in Bundles of together Bytes. Existing were in the archive already.
	Tasks    int   `json:"tasks"`
	Existing int   `json:"existing"`
	Bundles  int   `json:"bundles"`
	Bytes    int64 `json:"bytes"`
	// Failed are the tasks that cannot be archived, and why.
	Failed map[events.TaskID]*fault.Error `json:"failed,omitempty"`
}

// Write archives tasks. A task that the archive has at the same revision is not written again, so an interrupted call is repeated. When it
// returns, everything that did not fail is in the archive and was read back. An error means that the rest was not tried.
func (w *Writer) Write(ctx context.Context, ids []events.TaskID) (Result, error) {
	total := Result{Failed: map[events.TaskID]*fault.Error{}}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for len(ids) > 0 {
		day := dayOf(ids[0])
		n := 1
		for n < len(ids) && dayOf(ids[n]) == day {
			n++
		}
		if err := w.writeDay(ctx, day, ids[:n], &total); err != nil {
			return total, err
		}
		ids = ids[n:]
	}
	return total, nil
}

// writeDay archives tasks of one day.
func (w *Writer) writeDay(ctx context.Context, day string, ids []events.TaskID, total *Result) error {
	have, err := w.existing(ctx, day)
	if err != nil {
		return err
	}
	var missing []events.TaskID
	for _, id := range ids {
		there := false
		if entry, ok := have[id]; ok {
			if there, err = w.current(ctx, entry); err != nil {
				return err
			}
		}
		if there {
			total.Existing++
		} else {
			missing = append(missing, id)
		}
	}
	w.report(*total)
	for len(missing) > 0 {
		n, err := w.writeBundle(ctx, day, missing, total)
		if err != nil {
			return err
		}
		missing = missing[n:]
		w.report(*total)
	}
	return nil
}

func (w *Writer) report(r Result) {
	if w.Progress != nil {
		w.Progress(r)
	}
}

// existing returns the newest entries of the tasks of a day that are in the archive. A bundle whose manifest is damaged, or whose data file
// is missing or has another size, does not count.
func (w *Writer) existing(ctx context.Context, day string) (map[events.TaskID]Entry, error) {
	sizes := map[string]int64{}
	for o, err := range w.Store.List(ctx, day+"/") {
		if err != nil {
			return nil, err
		}
		sizes[o.Key] = o.Size
	}
	have := map[events.TaskID]Entry{}
	for b, err := range List(ctx, w.Store, day+"/") {
		if err != nil && (b.Name == "" || !fault.Has(err, fault.DataLoss)) {
			return nil, err
		}
		if size, ok := sizes[b.Name+dataSuffix]; !ok || size != b.Size {
			continue
		}
		for _, e := range b.Tasks {
			if e.Commits > have[e.ID].Commits {
				have[e.ID] = e
			}
		}
	}
	return have, ended(ctx)
}

// current reports whether the newest commit of a task is that of an entry. A task that cannot be read is exported, which says why.
func (w *Writer) current(ctx context.Context, e Entry) (bool, error) {
	r, err := w.Node.History(ctx, api.HistoryRequest{ID: e.ID, From: e.Commits, Limit: 2})
	if transient(err) {
		return false, err
	}
	return err == nil && len(r.Commits) == 1 && r.Commits[0].Hash == e.Last, nil
}

// transient reports whether an error is not about one task.
func transient(err error) bool {
	return err != nil && (fault.Has(err, fault.Unavailable) || fault.Has(err, fault.DiskFull) || fault.Has(err, fault.Cancelled) || fault.Has(err, fault.Timeout) || fault.Has(err, fault.Forbidden) || fault.Has(err, fault.RateLimited) || fault.Has(err, fault.Unauthorized) || fault.Has(err, fault.QuotaExceeded))
}

// writeBundle writes a bundle with as many of the tasks as it takes, and returns how many it has tried.
func (w *Writer) writeBundle(ctx context.Context, day string, ids []events.TaskID, total *Result) (n int, err error) {
	spool, err := os.CreateTemp(w.Temp, ".archive-*")
	if err != nil {
		return 0, spoolFault(err)
	}
	defer func() { _ = spool.Close() }()
	if err := os.Remove(spool.Name()); err != nil { // nothing of it stays after a crash
		return 0, spoolFault(err)
	}
	b := &Bundle{Format: Format, Version: Version, NodeVersion: w.Version, CreatedAt: events.Time(w.Now())}
	for n < len(ids) && len(b.Tasks) < bundleTasks && b.Size < bundleBytes {
		err := w.addWhenPossible(ctx, b, spool, ids[n])
		switch {
		case ctx.Err() != nil:
			return 0, fault.From(ctx.Err())
		case transient(err):
			return 0, err
		case err != nil:
			total.Failed[ids[n]] = fault.From(err)
		}
		n++
	}
	if len(b.Tasks) == 0 {
		return n, nil
	}
	if err := w.store(ctx, day, b, spool); err != nil {
		return 0, err
	}
	total.Tasks, total.Bundles, total.Bytes = total.Tasks+len(b.Tasks), total.Bundles+1, total.Bytes+b.Size
	return n, nil
}

const (
	// addTries is how often a task is exported while the node makes other files or an answer is lost, addPause the pause between.
	addTries = 60
	addPause = time.Second
)

// addWhenPossible calls addTask, and waits while the node has too many other files.
func (w *Writer) addWhenPossible(ctx context.Context, b *Bundle, spool *os.File, id events.TaskID) error {
	for n := 1; ; n++ {
		err := w.addTask(ctx, b, spool, id)
		lost := fault.Has(err, fault.NotFound) && fault.From(err).Field == "file" // the answer with the last part
		if n == addTries || !lost && !fault.Has(err, fault.RateLimited) {
			return err
		}
		timer := time.NewTimer(addPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// addTask appends the export file of a task to the data file of a bundle.
func (w *Writer) addTask(ctx context.Context, b *Bundle, spool *os.File, id events.TaskID) error {
	if _, err := spool.Seek(b.Size, io.SeekStart); err != nil {
		return spoolFault(err)
	}
	if err := spool.Truncate(b.Size); err != nil { // a task that failed may have left something
		return spoolFault(err)
	}
	entry := Entry{ID: id, Offset: b.Size}
	digest := sha256.New()
	parts := api.NewExportReader(ctx, w.Node, api.ExportRequest{IDs: []events.TaskID{id}, Once: true})
	to := &limited{to: io.MultiWriter(spool, digest), left: objectLimit - b.Size}
	report, err := export.Verify(io.TeeReader(parts, to), export.Visitor{Commit: func(_ *events.Commit, _ []byte, after *statemachine.Task) error {
		entry.CreatedAt, entry.UpdatedAt = after.CreatedAt, after.UpdatedAt
		if after.Submitted != nil && after.Submitted.Parent != nil {
			entry.Parent = after.Submitted.Parent.Task
		}
		return nil
	}})
	switch err := cmp.Or(parts.Err(), to.err, err); {
	case err != nil:
		return err
	case len(report.Tasks) != 1 || report.Tasks[0].ID != id:
		return fault.New(fault.Internal, "the export of %s holds something else", id)
	}
	t := report.Tasks[0]
	entry.Name, entry.State, entry.Commits, entry.Last = t.Name, t.State, t.Commits, t.Last
	entry.Size, entry.SHA256 = report.Bytes, hex.EncodeToString(digest.Sum(nil))
	b.Tasks, b.Size, b.Key = append(b.Tasks, entry), b.Size+entry.Size, report.Key
	return nil
}

// store stores a bundle: first the data file, which is read back, and then the manifest.
func (w *Writer) store(ctx context.Context, day string, b *Bundle, spool *os.File) error {
	digest := sha256.New()
	data := io.NewSectionReader(spool, 0, b.Size)
	if _, err := io.Copy(digest, data); err != nil {
		return spoolFault(err)
	}
	sum := digest.Sum(nil)
	b.SHA256 = hex.EncodeToString(sum)
	b.Name = day + "/" + string(b.Tasks[0].ID) + "-" + b.SHA256[:16]
	if err := w.Store.Put(ctx, b.Name+dataSuffix, data, b.Size, sum); err != nil {
		return err
	}
	var read Report
	err := verifyBundle(ctx, w.Store, *b, &read)
	if err == nil && len(read.Damaged) > 0 {
		err = read.Damaged[0].Error
	}
	if err != nil {
		return notAsWritten(w.Store, b.Name+dataSuffix, err)
	}
	manifest, err := b.encode()
	if err != nil {
		return err
	}
	key, manifestSum := b.Name+manifestSuffix, sha256.Sum256(manifest)
	if err := w.Store.Put(ctx, key, bytes.NewReader(manifest), int64(len(manifest)), manifestSum[:]); err != nil {
		return err
	}
	again, err := readAll(ctx, w.Store, key, MaxManifest)
	if err != nil || !bytes.Equal(again, manifest) {
		return notAsWritten(w.Store, key, err)
	}
	return nil
}

func notAsWritten(store objects.Store, key string, err error) error {
	if err != nil && !fault.Has(err, fault.DataLoss) {
		return err
	}
	return fault.New(fault.Unavailable, "%s does not give %s back as it was written", store, key).WithHint("nothing was removed from the node; check the store")
}

func spoolFault(err error) error {
	code := fault.Unavailable
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		code = fault.DiskFull
	}
	return fault.Wrap(code, err, "the temporary file of a bundle cannot be written")
}

// limited is a writer that remembers its error, and refuses more than a number of bytes.
type limited struct {
	to   io.Writer
	left int64
	err  error
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		l.err = fault.New(fault.ValidationError, "the bundle would have more than %d bytes", int64(objectLimit)).WithReason("SIZE_LIMIT_EXCEEDED")
		return 0, l.err
	}
	n, err := l.to.Write(p)
	if err != nil {
		l.err = spoolFault(err)
	}
	return n, err
}
