package export

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Config configures a Writer.
type Config struct {
	// Key signs the file.
	Key ed25519.PrivateKey
	// NodeVersion and At are for the manifest. With the same At and Key, the same tasks give the same bytes.
	NodeVersion string
	At          time.Time
	// Value returns a large value by its digest.
	Value func(digest string) ([]byte, error)
	// FindSecret reports whether data contains a secret, and the rule that found it. Nil finds none.
	FindSecret func(data []byte) (rule string, found bool)
}

// Writer writes a file. It needs memory for one commit, one value, one gzip member and the folded state of one task.
type Writer struct {
	cfg     Config
	to      *hashed
	members memberWriter
	all     *histories
	err     error
}

// NewWriter returns a Writer for a file.
func NewWriter(to io.Writer, cfg Config) *Writer {
	h := &hashed{to: to, digest: sha256.New()}
	w := &Writer{cfg: cfg, to: h, members: memberWriter{to: h}, all: newHistories()}
	_, w.err = w.members.Write(firstLine())
	return w
}

// Commit adds a commit in its encoded form, after the large values that it refers to and that the file does not have. The commits of
// a task follow each other, beginning with the first. Errors: DATA_LOSS for a damaged history or value, SECRET_DETECTED,
// VALIDATION_ERROR with the reason SIZE_LIMIT_EXCEEDED or LIMIT_EXCEEDED, and those of the underlying writer. After an error the
// file is unusable.
func (w *Writer) Commit(data []byte) error {
	if w.err == nil {
		w.err = w.add(data)
	}
	return w.err
}

// MarkImported records from where the node has imported the task of the newest commit.
func (w *Writer) MarkImported(from Origin) {
	if w.err != nil {
		return
	}
	from.At = events.Time(from.At)
	if w.err = from.check(); w.err == nil {
		w.all.entry.Imported = &from
	}
}

func (w *Writer) add(data []byte) error {
	if len(data) > MaxCommit {
		return tooLarge("a commit", MaxCommit)
	}
	c, err := events.Decode(data)
	if err != nil {
		return err
	}
	if err := w.checkSecret(c, data); err != nil {
		return err
	}
	for _, digest := range w.all.missing(c) {
		if err := w.addValue(c, digest); err != nil {
			return err
		}
	}
	if err := w.all.addCommit(c, data); err != nil {
		return err
	}
	return w.write(header{Record: kindCommit, Task: c.Task, Rev: c.Rev, Hash: events.Hash(data)}, data)
}

// addValue writes a large value of a commit.
func (w *Writer) addValue(c *events.Commit, digest string) error {
	data, err := w.cfg.Value(digest)
	if err != nil {
		return err
	}
	if events.Offloaded(data).Ref() != digest {
		return fault.New(fault.DataLoss, "the value %s is damaged", digest).WithHint("run: orch verify")
	}
	if len(data) > MaxValue {
		return tooLarge("the value "+digest, MaxValue)
	}
	if err := w.checkSecret(c, data); err != nil {
		return err
	}
	if err := w.all.addValue(digest); err != nil {
		return err
	}
	return w.write(header{Record: kindValue, Digest: digest}, data)
}

// checkSecret returns SECRET_DETECTED if data, which belongs to a commit, contains a secret. The error does not contain the secret.
func (w *Writer) checkSecret(c *events.Commit, data []byte) error {
	if w.cfg.FindSecret == nil {
		return nil
	}
	rule, found := w.cfg.FindSecret(data)
	if !found {
		return nil
	}
	return fault.New(fault.SecretDetected, "revision %d of %s, or a large value of it, holds a secret (%s)", c.Rev, c.Task, rule).
		WithField("id").WithHint("nothing was exported; leave the task out, or change the secret at its source first")
}

// write writes a record.
func (w *Writer) write(h header, body []byte) error {
	h.Size = int64(len(body))
	for _, part := range [][]byte{encodeLine(h), body, {'\n'}} {
		if _, err := w.members.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Close writes the manifest and the signature. It does not close the underlying writer. It returns the first error of all calls.
func (w *Writer) Close() (Report, error) {
	if w.err != nil {
		return Report{}, asFault(w.err)
	}
	tasks, err := w.all.finish()
	if err != nil {
		return Report{}, err
	}
	m := Manifest{Format: Format, Version: Version, NodeVersion: w.cfg.NodeVersion, ExportedAt: events.Time(w.cfg.At), Tasks: tasks}
	body, err := json.Marshal(m)
	if err != nil {
		return Report{}, asFault(err)
	}
	if len(body) > MaxManifest {
		return Report{}, tooLarge("the manifest", MaxManifest)
	}
	if err := w.write(header{Record: kindManifest}, body); err != nil {
		return Report{}, asFault(err)
	}
	if err := w.members.flush(); err != nil {
		return Report{}, asFault(err)
	}
	digest := w.to.digest.Sum(nil)
	if _, err := w.to.Write(sign(w.cfg.Key, digest)); err != nil {
		return Report{}, asFault(err)
	}
	key := PublicKey(w.cfg.Key)
	return Report{
		Manifest: m, Key: EncodeKey(key), Fingerprint: Fingerprint(key), Pinned: true, SHA256: hex.EncodeToString(digest), Bytes: w.to.size,
		Values: len(w.all.values), Events: w.all.events,
	}, nil
}

// hashed is a writer that computes the digest and the size of what it writes.
type hashed struct {
	to     io.Writer
	digest hash.Hash
	size   int64
}

// Write implements io.Writer.
func (h *hashed) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	h.digest.Write(p[:n])
	h.size += int64(n)
	return n, err
}
