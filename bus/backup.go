package bus

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// A backup is a tar file. The entries "<stream>/<number>" are the pieces of the server's snapshot of a stream, in order;
// manifestEntry follows, and its digest. Programs before 0.2.0 write no digest and do not look for it.
const (
	manifestEntry = "manifest.json"
	digestEntry   = "manifest.sha256"
	backupFormat  = 1
	// maxManifest is more than a manifest can have, in bytes.
	maxManifest = 16 << 20
)

// digestOf returns the digest of a manifest.
func digestOf(manifest []byte) string { return fmt.Sprintf("%x\n", sha256.Sum256(manifest)) }

// backupStreams returns the streams of a backup in the order in which they are copied: the log before everything that its
// commits refer to, and snapshots before the journals that continue them. A backup does not contain the high-water mark
// (a restored store gets a new one), secrets of tokens, the key of the node, or the sessions of MCP clients.
func backupStreams() []string {
	return append([]string{liveStream, archiveStream, checkpointsStream, blobsStream, tokensStream}, journalStreams()...)
}

// Manifest describes the content of a backup.
type Manifest struct {
	Format int `json:"format"`
	// Version is the version of the program that wrote the backup, TakenAt the time at which the backup started.
	Version string    `json:"version,omitempty"`
	TakenAt time.Time `json:"taken_at"`
	// Store is the lowest version of the store's format that has all parts, see StoreVersion; 0 is the format before version 1.
	Store int `json:"store,omitempty"`
	// StoreVersion is the version of the store, and that of a restored one at least.
	StoreVersion int    `json:"store_version,omitempty"`
	Parts        []Part `json:"parts"`
	// Lost lists the losses that a salvage had accepted before the backup.
	Lost *Lost `json:"lost,omitempty"`
	// Bytes is the size of all parts.
	Bytes int64 `json:"bytes"`
}

// Part describes a stream or the credentials file in a backup.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Config is the configuration of the stream.
	Config json.RawMessage `json:"config,omitempty"`
}

// BackupConfig configures a backup.
type BackupConfig struct {
	// Version of the program, for the manifest.
	Version string
	// Credentials is the data directory from which the credentials are copied; if empty, none are copied.
	Credentials string
	// Progress, if not nil, is called with the current stream, the bytes copied of it, and an estimate of its total bytes.
	Progress func(stream string, done, total uint64)
}

// Backup verifies the whole store (see Verify) and then writes it to a new file, while the node keeps working.
// The backup contains everything that was acknowledged before the call. A failed backup leaves no file. Errors:
// DATA_LOSS for a damaged store, CONFLICT if the file exists, DISK_FULL, UNAVAILABLE.
func (s *Store) Backup(ctx context.Context, path string, cfg BackupConfig) (Manifest, error) {
	if s.newer() {
		return Manifest{}, s.loss.Load()
	}
	report, err := s.Verify(ctx, nil)
	if err != nil {
		return Manifest{}, err
	}
	return s.conn.Backup(ctx, path, report, cfg, s.PauseArchive)
}

// Backup is like Store.Backup for a store in another process. report is the result of Verify in that process, and pause
// sends requests to it to pause archiving.
func (c *Conn) Backup(ctx context.Context, path string, report Report, cfg BackupConfig, pause ArchivePauseFunc) (Manifest, error) {
	if report.Found > 0 {
		return Manifest{}, fault.New(fault.DataLoss, "a damaged store is not backed up: %s", report.Problems[0]).
			WithHint("orch verify names all that is damaged; orch restore brings an earlier backup back")
	}
	if exists(path) {
		return Manifest{}, fileExists(path)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*")
	if err != nil {
		return Manifest{}, writeFault(path, err)
	}
	var m Manifest
	err = withArchivePause(ctx, pause, func(renew func() error) (err error) {
		m, err = c.writeBackup(ctx, temp, report, cfg, renew)
		return err
	})
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = commitFile(temp.Name(), path)
	}
	err = errors.Join(err, removeFile(temp.Name()))
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return m, backupFault(path, err)
}

func fileExists(path string) *fault.Error {
	return fault.New(fault.Conflict, "%s exists already", path).WithField("file").WithHint("choose another name")
}

// commitFile gives a temporary file the name path; CONFLICT if path exists. It creates a hard link, because a rename would
// replace an existing file. If the file system has no hard links, it first creates an empty file, exclusively, and then
// renames.
func commitFile(temp, path string) error {
	err := os.Link(temp, path)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fileExists(path)
	}
	claim, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fileExists(path)
	}
	if err == nil {
		err = claim.Close()
	}
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// backupFault returns an error with a code as it is. It wraps any other error as one of writing the file.
func backupFault(path string, err error) error {
	if err == nil {
		return nil
	}
	if coded, ok := errors.AsType[*fault.Error](err); ok {
		return coded
	}
	return writeFault(path, err)
}

func (c *Conn) writeBackup(ctx context.Context, to io.Writer, report Report, cfg BackupConfig, renew func() error) (Manifest, error) {
	b := backupWriter{tar: tar.NewWriter(to), manifest: Manifest{
		Format: backupFormat, Store: max(1, report.StoreVersion), StoreVersion: report.StoreVersion, Lost: report.Lost, Version: cfg.Version, TakenAt: events.Time(time.Now()),
	}}
	streams, err := c.streamsToBackUp(ctx)
	if err != nil {
		return b.manifest, err
	}
	for _, stream := range streams {
		done := uint64(0)
		b.startPart(stream)
		config, err := c.snapshot(ctx, stream, func(piece []byte, size uint64) error {
			done += uint64(len(piece))
			if cfg.Progress != nil {
				cfg.Progress(stream, done, max(size, done))
			}
			if err := renew(); err != nil {
				return err
			}
			return b.addPiece(piece)
		})
		if err != nil {
			return b.manifest, err
		}
		b.part.Config = config
		b.endPart()
	}
	if cfg.Credentials != "" {
		if err := b.addCredentials(cfg.Credentials); err != nil {
			return b.manifest, err
		}
	}
	return b.manifest, b.close()
}

// streamsToBackUp returns the streams of a backup, as backupStreams does: the journals that exist, and after them those of a newer
// orch, which this one does not know.
func (c *Conn) streamsToBackUp(ctx context.Context) ([]string, error) {
	var there []string
	names := c.js.StreamNames(ctx)
	for name := range names.Name() {
		there = append(there, name)
	}
	if err := names.Err(); err != nil {
		return nil, readFault(err)
	}
	all := slices.DeleteFunc(backupStreams(), func(s string) bool {
		return slices.Contains(journalStreams(), s) && !slices.Contains(there, s)
	})
	slices.Sort(there)
	for _, name := range there {
		if strings.HasPrefix(name, journalPrefix) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// backupWriter writes the parts of a backup one after the other.
type backupWriter struct {
	tar      *tar.Writer
	manifest Manifest
	part     Part
	pieces   int
	sum      hash.Hash
}

func (b *backupWriter) startPart(name string) {
	b.part, b.pieces, b.sum = Part{Name: name}, 0, sha256.New()
}

func (b *backupWriter) addPiece(piece []byte) error {
	b.pieces++
	b.part.Bytes += int64(len(piece))
	_, _ = b.sum.Write(piece) // a hash never fails
	return b.entry(fmt.Sprintf("%s/%08d", b.part.Name, b.pieces), piece)
}

func (b *backupWriter) entry(name string, data []byte) error {
	err := b.tar.WriteHeader(&tar.Header{
		Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: b.manifest.TakenAt, Typeflag: tar.TypeReg,
	})
	if err == nil {
		_, err = b.tar.Write(data)
	}
	return err
}

func (b *backupWriter) endPart() {
	b.part.SHA256 = hex.EncodeToString(b.sum.Sum(nil))
	b.manifest.Parts = append(b.manifest.Parts, b.part)
	b.manifest.Store = max(b.manifest.Store, versionOfPart(b.part.Name))
	b.manifest.Bytes += b.part.Bytes
}

func (b *backupWriter) addCredentials(dataDir string) error {
	data, err := os.ReadFile(filepath.Join(dataDir, authFile))
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the credentials cannot be read")
	}
	b.startPart(authFile)
	defer b.endPart()
	return b.addPiece(data)
}

func (b *backupWriter) close() error {
	data, err := json.MarshalIndent(b.manifest, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the manifest cannot be encoded")
	}
	if err := b.entry(manifestEntry, data); err != nil {
		return err
	}
	if err := b.entry(digestEntry, []byte(digestOf(data))); err != nil {
		return err
	}
	return b.tar.Close()
}
