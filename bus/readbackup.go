package bus

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// backupReader reads the parts of a backup one after the other.
type backupReader struct {
	tar   *tar.Reader
	name  string      // name of the current part
	next  *tar.Header // entry to read next; nil if it must be fetched
	bytes int64       // bytes of the current part
}

// readBackup reads a whole backup and compares it with its manifest. It calls use with the content of each part; if use is
// nil, the backup is only checked. Errors: DATA_LOSS if the backup is damaged or incomplete, INVALID_FORMAT or
// NEWER_STORE if it has another format.
func readBackup(ctx context.Context, from io.Reader, use func(name string, data io.Reader) error) (Manifest, error) {
	b := backupReader{tar: tar.NewReader(from)}
	var parts []Part
	for {
		if err := ctx.Err(); err != nil {
			return Manifest{}, fault.From(err)
		}
		if err := b.advance(); err != nil {
			return Manifest{}, err
		}
		if b.next.Name == manifestEntry {
			return b.manifest(parts)
		}
		part, err := b.part(use)
		if err != nil {
			return Manifest{}, err
		}
		parts = append(parts, part)
	}
}

// advance fetches the next entry, unless the current one has not been read to its end.
func (b *backupReader) advance() (err error) {
	if b.next == nil {
		b.next, err = b.tar.Next()
	}
	if err != nil {
		return damagedBackup(err)
	}
	return nil
}

func damagedBackup(err error) error {
	return fault.Wrap(fault.DataLoss, err, "the backup is damaged or incomplete").WithField("file").
		WithHint("use another backup")
}

// part reads all pieces of the part that begins with the next entry.
func (b *backupReader) part(use func(string, io.Reader) error) (Part, error) {
	name, _, ok := strings.Cut(b.next.Name, "/")
	if !ok {
		return Part{}, damagedBackup(errors.New("unexpected entry " + b.next.Name))
	}
	b.name, b.bytes = name, 0
	sum := sha256.New()
	data := io.TeeReader(partReader{b}, sum)
	if use != nil {
		if err := use(name, data); err != nil {
			return Part{}, err
		}
	}
	if _, err := io.Copy(io.Discard, data); err != nil {
		return Part{}, damagedBackup(err)
	}
	return Part{Name: name, Bytes: b.bytes, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// manifest reads the manifest and compares it with the parts.
func (b *backupReader) manifest(parts []Part) (Manifest, error) {
	var m Manifest
	data, err := io.ReadAll(io.LimitReader(b.tar, maxManifest))
	if err == nil {
		err = b.checkDigest(data)
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, damagedBackup(err)
	}
	if m.Format != backupFormat {
		code := fault.InvalidFormat
		if m.Format > backupFormat {
			code = fault.NewerStore
		}
		return m, fault.New(code, "the backup has format %d; this program reads %d", m.Format, backupFormat).
			WithField("file").WithHint("use the version of orch that wrote it%s", m.versionSuffix())
	}
	if m.Store > StoreVersion {
		return m, fault.New(fault.NewerStore, "the backup is of a store of version %d; this orch knows %d", m.Store, StoreVersion).
			WithField("file").WithHint("use the version of orch that wrote it%s", m.versionSuffix())
	}
	same := func(a, b Part) bool { return a.Name == b.Name && a.Bytes == b.Bytes && a.SHA256 == b.SHA256 }
	if !slices.EqualFunc(parts, m.Parts, same) {
		return m, damagedBackup(errors.New("the parts do not match the manifest"))
	}
	return m, m.checkParts()
}

// checkDigest compares the manifest with its digest, if there is one.
func (b *backupReader) checkDigest(manifest []byte) error {
	next, err := b.tar.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := io.ReadAll(io.LimitReader(b.tar, maxManifest))
	if err == nil && (next.Name != digestEntry || string(want) != digestOf(manifest)) {
		err = errors.New("the manifest does not match its digest")
	}
	return err
}

// checkParts checks that the backup has the parts that a store needs, and no others but those of a newer orch.
func (m Manifest) checkParts() error {
	for _, p := range m.Parts {
		newer := isOrchStream(p.Name) && len(p.Config) > 0
		if p.Name != authFile && !newer && !slices.Contains(backupStreams(), p.Name) {
			return damagedBackup(errors.New("unexpected part " + p.Name))
		}
	}
	for _, stream := range backupStreams() {
		if stream == tokensStream || slices.Contains(journalStreams(), stream) { // not every store has these
			continue
		}
		if !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Name == stream }) {
			return damagedBackup(errors.New("missing part " + stream))
		}
	}
	return nil
}

// versionSuffix returns ": " and the version of orch that wrote the backup, or "" if that is not recorded.
func (m Manifest) versionSuffix() string {
	if m.Version == "" {
		return ""
	}
	return ": " + m.Version
}

// config returns the configuration of a stream in the backup.
func (m Manifest) config(stream string) json.RawMessage {
	i := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Name == stream })
	return m.Parts[i].Config
}

// partReader reads the concatenated entries of the current part.
type partReader struct{ b *backupReader }

// Read implements io.Reader.
func (p partReader) Read(into []byte) (int, error) {
	for {
		if err := p.b.advance(); err != nil {
			return 0, err
		}
		if !strings.HasPrefix(p.b.next.Name, p.b.name+"/") {
			return 0, io.EOF
		}
		n, err := p.b.tar.Read(into)
		p.b.bytes += int64(n)
		if errors.Is(err, io.EOF) {
			p.b.next, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}
