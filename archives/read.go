package archives

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
)

// readAttempts is how often an object is read whose connection breaks.
const readAttempts = 3

// List yields the manifests of an archive below a prefix, which is empty or a beginning of a day such as 2026/11. A manifest that cannot
// be read is yielded as its name with an error of its own, and the list goes on. After an error without a name it ends.
func List(ctx context.Context, store objects.Store, prefix string) iter.Seq2[Bundle, error] {
	return func(yield func(Bundle, error) bool) {
		for o, err := range store.List(ctx, prefix) {
			if err != nil {
				yield(Bundle{}, err)
				return
			}
			if !isManifest(o) {
				continue
			}
			b, err := readManifest(ctx, store, o)
			if err != nil {
				b = Bundle{Name: o.Key[:len(o.Key)-len(manifestSuffix)]}
			}
			if ctx.Err() != nil || !yield(b, err) {
				return
			}
		}
	}
}

func readManifest(ctx context.Context, store objects.Store, o objects.Object) (Bundle, error) {
	if o.Size > MaxManifest {
		return ParseManifest(o.Key, make([]byte, MaxManifest+1))
	}
	data, err := readAll(ctx, store, o.Key, MaxManifest)
	if err != nil {
		return Bundle{}, err
	}
	return ParseManifest(o.Key, data)
}

// readAll reads a whole object of at most a size.
func readAll(ctx context.Context, store objects.Store, key string, most int64) (data []byte, err error) {
	err = attempt(ctx, func() error {
		r, err := store.Get(ctx, key, 0, -1)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(io.LimitReader(r, most+1))
		return errors.Join(broken(err), r.Close())
	})
	if err == nil && int64(len(data)) > most {
		err = fault.New(fault.DataLoss, "%s has more than %d bytes", key, most)
	}
	return data, err
}

// attempt repeats what fails because a connection breaks.
func attempt(ctx context.Context, do func() error) (err error) {
	for range readAttempts {
		if err = do(); !fault.Has(err, fault.Unavailable) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// broken returns an error of a connection as UNAVAILABLE.
func broken(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.New(fault.Unavailable, "an object was not read to its end: %s", err).WithHint("try again later")
}

// Found is a task in an archive.
type Found struct {
	Bundle Bundle
	Entry  Entry
}

// Find returns the task with the newest revision in the archive. Errors: NOT_FOUND, and DATA_LOSS if it is not found and a manifest of its
// day is damaged.
func Find(ctx context.Context, store objects.Store, id events.TaskID) (found Found, err error) {
	var damaged error
	for b, err := range List(ctx, store, dayOf(id)+"/") {
		if err != nil && b.Name == "" {
			return Found{}, err
		}
		if err != nil {
			damaged = err
			continue
		}
		for _, e := range b.Tasks {
			if e.ID == id && e.Commits > found.Entry.Commits {
				found = Found{b, e}
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return Found{}, fault.From(ctx.Err())
	case found.Entry.ID != "":
		return found, nil
	case damaged != nil:
		return Found{}, damaged
	default:
		return Found{}, fault.New(fault.NotFound, "the task %s is not in %s", id, store).WithField("id").WithHint("orch archive list shows what is")
	}
}

// Copy copies the export file of a task, and checks it against the manifest: DATA_LOSS. What was written must not be used after an
// error. to is emptied before each attempt.
func (f Found) Copy(ctx context.Context, store objects.Store, to interface {
	io.Writer
	io.Seeker
	Truncate(size int64) error
},
) error {
	return attempt(ctx, func() error {
		_, err := to.Seek(0, io.SeekStart)
		if err = errors.Join(err, to.Truncate(0)); err != nil {
			return fault.Wrap(fault.DiskFull, err, "the task cannot be stored")
		}
		r, err := store.Get(ctx, f.Bundle.Name+dataSuffix, f.Entry.Offset, f.Entry.Size)
		if err != nil {
			return f.missing(err)
		}
		return errors.Join(f.check(io.TeeReader(r, to)), r.Close())
	})
}

// missing returns the error for a data file that is not there.
func (f Found) missing(err error) error {
	if fault.Has(err, fault.NotFound) {
		return f.damaged("its data file is missing")
	}
	return err
}

func (f Found) damaged(why string) error {
	return fault.New(fault.DataLoss, "the record of %s in %s is damaged: %s", f.Entry.ID, f.Bundle.Name+dataSuffix, why).
		WithHint("the other tasks of the bundle are not affected; a backup of the bundle, or of the node, may have this one")
}

// check reads the export file of the task to its end, and checks it against the manifest.
func (f Found) check(r io.Reader) error {
	digest := sha256.New()
	part := &counted{from: io.TeeReader(io.LimitReader(r, f.Entry.Size), digest)}
	report, err := export.Verify(part, export.Visitor{})
	_, rest := io.Copy(io.Discard, part) // so that the digest is that of all bytes
	switch {
	case part.err != nil:
		return broken(part.err)
	case rest != nil:
		return broken(rest)
	case part.n != f.Entry.Size:
		return f.damaged("it is shorter than the manifest says")
	case hex.EncodeToString(digest.Sum(nil)) != f.Entry.SHA256:
		if err != nil {
			return f.damaged(fault.From(err).Message)
		}
		return f.damaged("its digest is not that of the manifest")
	case err != nil:
		return f.damaged(fault.From(err).Message)
	case len(report.Tasks) != 1 || report.Tasks[0].ID != f.Entry.ID || report.Tasks[0].Last != f.Entry.Last || report.Tasks[0].Commits != f.Entry.Commits:
		return f.damaged("the manifest describes another history")
	case report.Key != f.Bundle.Key:
		return f.damaged("it was signed by another key than the manifest says")
	}
	return nil
}

// counted counts the bytes that are read, and remembers an error of the reader below.
type counted struct {
	from io.Reader
	n    int64
	err  error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// ended returns why a context has ended; nil while it has not.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fault.From(ctx.Err())
}

// Damage is something damaged in an archive.
type Damage struct {
	// Bundle is the name of the bundle, Task the task whose record is damaged; empty if it is the whole bundle.
	Bundle string        `json:"bundle"`
	Task   events.TaskID `json:"task,omitempty"`
	Error  *fault.Error  `json:"error"`
}

// Report is the result of Verify.
type Report struct {
	Bundles int   `json:"bundles"`
	Tasks   int   `json:"tasks"`
	Bytes   int64 `json:"bytes"`
	// Damaged is what is damaged. Incomplete counts the data files without a manifest, which no task was removed for.
	Damaged    []Damage `json:"damaged"`
	Incomplete int      `json:"incomplete"`
}

// Verify reads everything below a prefix, checks it, and goes on behind what is damaged. Progress is called after each bundle. An error
// means that the archive could not be read.
func Verify(ctx context.Context, store objects.Store, prefix string, progress func(Report)) (Report, error) {
	report := Report{Damaged: []Damage{}}
	data := map[string]bool{}
	for o, err := range store.List(ctx, prefix) {
		if err != nil {
			return report, err
		}
		if len(o.Key) > len(dataSuffix) && o.Key[len(o.Key)-len(dataSuffix):] == dataSuffix {
			data[o.Key] = true
		}
	}
	for b, err := range List(ctx, store, prefix) {
		delete(data, b.Name+dataSuffix)
		if err == nil {
			err = verifyBundle(ctx, store, b, &report)
		}
		switch {
		case ctx.Err() != nil:
			return report, fault.From(ctx.Err())
		case fault.Has(err, fault.DataLoss) || fault.Has(err, fault.NewerStore):
			report.Damaged = append(report.Damaged, Damage{Bundle: b.Name, Error: fault.From(err)})
		case err != nil:
			return report, err
		}
		report.Bundles++
		progress(report)
	}
	report.Incomplete = len(data)
	return report, ended(ctx)
}

// verifyBundle checks the data file of a bundle. It reads the file once, unless a connection breaks.
func verifyBundle(ctx context.Context, store objects.Store, b Bundle, report *Report) error {
	var damaged []Damage
	err := attempt(ctx, func() error {
		damaged = nil
		r, err := store.Get(ctx, b.Name+dataSuffix, 0, -1)
		if err != nil {
			return Found{Bundle: b, Entry: Entry{ID: "all tasks"}}.missing(err)
		}
		digest := sha256.New()
		file := io.TeeReader(r, digest)
		for _, e := range b.Tasks {
			err := Found{b, e}.check(file)
			if fault.Has(err, fault.DataLoss) {
				damaged, err = append(damaged, Damage{b.Name, e.ID, fault.From(err)}), nil
			}
			if err != nil {
				return errors.Join(err, r.Close())
			}
		}
		more, err := io.Copy(io.Discard, file)
		if err = errors.Join(broken(err), r.Close()); err != nil {
			return err
		}
		if len(damaged) == 0 && (more > 0 || !bytes.Equal(digest.Sum(nil), sumOf(b.SHA256))) {
			return fault.New(fault.DataLoss, "the file %s is not the one that its manifest describes", b.Name+dataSuffix)
		}
		return nil
	})
	report.Tasks += len(b.Tasks)
	report.Bytes += b.Size
	report.Damaged = append(report.Damaged, damaged...)
	return err
}

func sumOf(text string) []byte {
	raw, _ := hex.DecodeString(text) // the manifest was checked
	return raw
}
