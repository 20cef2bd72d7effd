package export

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// Visitor receives the content of a file while it is read. Nothing of it may be trusted before Verify has returned without an error.
// Each function may be nil. An error of a function ends Verify, which returns it.
type Visitor struct {
	// Key, if not nil, is the only key that may have signed the file.
	Key ed25519.PublicKey
	// Commit receives each commit, its encoded form, and the task after it. The task changes with the next commit.
	Commit func(c *events.Commit, data []byte, after *statemachine.Task) error
	// Value receives each large value, in front of the first commit that refers to it.
	Value func(digest string, data []byte) error
}

// Verify reads a whole file and checks everything: the signature, the hash chain and the digest of each commit and value, that each
// history can be folded, and that the manifest describes the content. Errors: INVALID_FORMAT for a file of another kind, NEWER_STORE
// for a newer version of the format, DATA_LOSS for damage, with the place of the damage, FORBIDDEN with the reason KEY_MISMATCH for
// a file that another key has signed, and VALIDATION_ERROR for one that exceeds a limit.
func Verify(r io.Reader, v Visitor) (Report, error) {
	from := newSource(r)
	f := &file{visitor: v, from: from, members: memberReader{from: from}, all: newHistories()}
	f.text = bufio.NewReaderSize(&f.members, maxLine)
	if err := f.start(); err != nil {
		return Report{}, err
	}
	for f.manifest == nil {
		f.records++
		f.place = ""
		if err := f.next(); err != nil {
			return Report{}, f.at(err)
		}
	}
	return f.finish()
}

// file is a file that is being read.
type file struct {
	visitor Visitor
	from    *source
	members memberReader
	text    *bufio.Reader
	all     *histories
	// records is the number of the current record, place describes it.
	records  int
	place    string
	manifest *Manifest
}

// failed marks an error of the visitor, which is returned as it is.
type failed struct{ error }

// at adds the place of the current record to an error.
func (f *file) at(err error) error {
	if own, ok := errors.AsType[failed](err); ok {
		return own.error
	}
	where := fmt.Sprintf("record %d", f.records)
	if f.place != "" {
		where += " (" + f.place + ")"
	}
	where += fmt.Sprintf(", before byte %d", f.from.offset)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fault.New(fault.DataLoss, "the file ends early, in %s", where).WithField("file")
	}
	coded, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return fault.Wrap(fault.Unavailable, err, "the file cannot be read").WithField("file")
	}
	placed := *coded
	placed.Message = where + ": " + coded.Message
	if placed.Field == "" {
		placed.Field = "file"
	}
	return &placed
}

// start checks the first line.
func (f *file) start() error {
	none := fault.New(fault.InvalidFormat, "this is no export file of orch: it does not begin like one, at byte 0").WithField("file")
	line, err := f.text.ReadSlice('\n')
	if err != nil && errors.Is(err, io.ErrUnexpectedEOF) && f.members.open {
		return fault.New(fault.DataLoss, "the file ends early, at byte %d, or is no export file of orch", f.from.offset).WithField("file")
	}
	if err != nil {
		return none
	}
	var p preamble
	switch {
	case json.Unmarshal(line, &p) != nil || p.Format != Format || p.Version < 1:
		return none
	case p.Version > Version:
		return fault.New(fault.NewerStore, "the export file has version %d, this orch reads 1 to %d", p.Version, Version).WithField("file").
			WithHint("use the newer orch that has written it")
	case !bytes.Equal(line, firstLine()):
		return none
	}
	return nil
}

// next reads and checks a record.
func (f *file) next() error {
	line, err := f.text.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			return fault.New(fault.DataLoss, "its header has more than %d bytes", maxLine)
		}
		return err
	}
	var h header
	if !parseLine(line, &h) {
		return fault.New(fault.DataLoss, "its header is damaged")
	}
	if limit := h.limit(); limit == 0 || h.Size < 0 || h.Size > limit {
		return fault.New(fault.DataLoss, "its header asks for a %s of %d bytes", clip(h.Record), h.Size)
	}
	f.place = h.place()
	body, err := f.body(h.Size)
	if err != nil {
		return err
	}
	switch h.Record {
	case kindCommit:
		return f.commit(h, body)
	case kindValue:
		return f.value(h, body)
	default:
		return f.readManifest(h, body)
	}
}

// place describes a record by its header.
func (h *header) place() string {
	switch h.Record {
	case kindCommit:
		return fmt.Sprintf("revision %d of %s", h.Rev, clip(string(h.Task)))
	case kindValue:
		return "value " + clip(h.Digest)
	default:
		return h.Record
	}
}

// body reads the body of a record and the newline after it. It takes memory only for what the file really has.
func (f *file) body(size int64) ([]byte, error) {
	var b bytes.Buffer
	if n, err := io.CopyN(&b, f.text, size+1); err != nil {
		if errors.Is(err, io.EOF) && n <= size {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if b.Bytes()[size] != '\n' {
		return nil, fault.New(fault.DataLoss, "it does not end where it has to")
	}
	return b.Bytes()[:size:size], nil
}

func (f *file) commit(h header, body []byte) error {
	if h != (header{Record: kindCommit, Task: h.Task, Rev: h.Rev, Hash: events.Hash(body), Size: h.Size}) {
		return fault.New(fault.DataLoss, "its bytes do not have the hash %s", clip(h.Hash))
	}
	c, err := events.Decode(body)
	if err != nil {
		return err
	}
	if c.Task != h.Task || c.Rev != h.Rev {
		return fault.New(fault.DataLoss, "the commit is revision %d of %s", c.Rev, c.Task)
	}
	if err := f.all.addCommit(c, body); err != nil {
		return err
	}
	if f.visitor.Commit == nil {
		return nil
	}
	return visited(f.visitor.Commit(c, body, f.all.folded))
}

func (f *file) value(h header, body []byte) error {
	if h != (header{Record: kindValue, Digest: events.Offloaded(body).Ref(), Size: h.Size}) {
		return fault.New(fault.DataLoss, "its bytes do not have the digest %s", clip(h.Digest))
	}
	if err := f.all.addValue(h.Digest); err != nil {
		return err
	}
	if f.visitor.Value == nil {
		return nil
	}
	return visited(f.visitor.Value(h.Digest, body))
}

func visited(err error) error {
	if err == nil {
		return nil
	}
	return failed{err}
}

// readManifest compares the manifest with the content of the file.
func (f *file) readManifest(h header, body []byte) error {
	tasks, err := f.all.finish()
	if err != nil {
		return err
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil || h != (header{Record: kindManifest, Size: h.Size}) {
		return fault.New(fault.DataLoss, "it is not valid")
	}
	if err := takeOrigins(tasks, m.Tasks); err != nil {
		return err
	}
	want := Manifest{Format: Format, Version: Version, NodeVersion: m.NodeVersion, ExportedAt: m.ExportedAt, Tasks: tasks}
	if again, err := json.Marshal(want); err != nil || !bytes.Equal(again, body) {
		return fault.New(fault.DataLoss, "it does not describe the content of the file")
	}
	if f.text.Buffered() > 0 {
		return fault.New(fault.DataLoss, "something follows the manifest")
	}
	if err := f.members.end(); err != nil {
		return err
	}
	f.manifest = &m
	return nil
}

// takeOrigins sets the origins of tasks to those of a manifest: the content of the file does not show them.
func takeOrigins(tasks, manifest []Task) error {
	for i := range min(len(tasks), len(manifest)) {
		from := manifest[i].Imported
		if from == nil {
			continue
		}
		if err := from.check(); err != nil {
			return err
		}
		tasks[i].Imported = from
	}
	return nil
}

// finish reads and checks the signature.
func (f *file) finish() (Report, error) {
	start, digest := f.from.offset, f.from.sum()
	member, err := io.ReadAll(io.LimitReader(f.from, maxLine))
	if err != nil {
		return Report{}, fault.Wrap(fault.Unavailable, err, "the file cannot be read").WithField("file")
	}
	s, err := parseSignature(member)
	var key ed25519.PublicKey
	if err == nil {
		key, err = s.check(digest, f.visitor.Key)
	}
	if err != nil {
		placed := *fault.From(err)
		placed.Message = fmt.Sprintf("from byte %d: %s", start, placed.Message)
		return Report{}, &placed
	}
	return Report{
		Manifest: *f.manifest, Key: EncodeKey(key), Fingerprint: Fingerprint(key), Pinned: f.visitor.Key != nil,
		SHA256: hex.EncodeToString(digest), Bytes: f.from.offset, Values: len(f.all.values), Events: f.all.events,
	}, nil
}
