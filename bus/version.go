package bus

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// versionFile is the file beside the store with the version of the store's format. Stores of the first versions have no such
// file.
const versionFile = "store.json"

// StoreVersion is the newest version of the store's format that this package reads and writes. The format covers streams, subjects,
// headers and the files beside the store. Commits have a separate version, events.Version. A store has the lowest version that has
// all that was used in it, so that older programs can open it as long as they understand it (see versions).
const StoreVersion = 3

// versions are the versions of the store. Each is written when a store first uses what the version adds, or when somebody tells
// so (see Store.RaiseVersion).
func versions() []version {
	return []version{
		{Release: "0.1.0"},
		{
			Release: "0.2.0",
			// An older orch would remove tasks that are held.
			Journals: []string{HoldsJournal},
			Parts:    []string{SchedulesJournal, HooksJournal, HoldsJournal, AuditJournal},
		},
		{Release: "0.2.0"}, // see compactVersion
	}
}

// version is a version of the store.
type version struct {
	// Release is the first release of orch that knows the version.
	Release string
	// Journals are the journals that older programs must not ignore. Parts are those that they do not find in backups.
	Journals []string
	Parts    []string
}

// releaseOf returns the first release that knows a version of the store; "" if that is not known.
func releaseOf(v int) string {
	if all := versions(); v >= 1 && v <= len(all) {
		return all[v-1].Release
	}
	return ""
}

// versionOfJournal returns the lowest version of a store that has a journal.
func versionOfJournal(name string) int {
	for i, v := range versions() {
		if slices.Contains(v.Journals, name) {
			return i + 1
		}
	}
	return 1
}

// versionOfPart returns the version of a backup with a part. Programs that know only lower versions refuse the backup.
func versionOfPart(stream string) int {
	for i, v := range versions() {
		if name, ok := strings.CutPrefix(stream, journalPrefix); ok && slices.Contains(v.Parts, name) {
			return i + 1
		}
	}
	return 1
}

// isOrchStream reports whether a stream is one of orch, perhaps of a newer one.
func isOrchStream(name string) bool {
	return strings.HasPrefix(name, "ORCH_") || strings.HasPrefix(name, "KV_ORCH_") || strings.HasPrefix(name, "OBJ_ORCH_")
}

// storeVersion is the content of versionFile. Programs of version 1 ignore Needs and Writer.
type storeVersion struct {
	Version int `json:"version"`
	// ReadableFrom is the lowest StoreVersion of a program that may read the store, and write sessions, tokens and messages
	// to it.
	ReadableFrom int `json:"readable_from"`
	// Needs is the first release of orch that may write the store.
	Needs string `json:"needs,omitempty"`
	// Writer is the version of the program that opened the store last for writing.
	Writer string `json:"writer,omitempty"`
}

// VersionInfo describes the version of a store.
type VersionInfo struct {
	// Version is the version of the store, and Known the newest that this program knows.
	Version int `json:"version"`
	Known   int `json:"known"`
	// Needs is the oldest release of orch that may write the store, and Writer the version that opened it last for writing, if these
	// are recorded.
	Needs  string `json:"needs,omitempty"`
	Writer string `json:"writer,omitempty"`
}

func (v storeVersion) info() VersionInfo {
	return VersionInfo{Version: v.Version, Known: StoreVersion, Needs: cmp.Or(v.Needs, releaseOf(v.Version)), Writer: v.Writer}
}

// ReadVersion returns the version of the store in a data directory. It starts no server. A store of before there were versions has
// version 1. Errors: NOT_FOUND if there is no store, DATA_LOSS.
func ReadVersion(dataDir string) (VersionInfo, error) {
	var v storeVersion
	err := readSealed(filepath.Join(dataDir, versionFile), &v)
	switch {
	case fault.Has(err, fault.NotFound) && exists(filepath.Join(dataDir, storeDir)):
		return storeVersion{Version: 1}.info(), nil
	case fault.Has(err, fault.NotFound):
		return v.info(), fault.New(fault.NotFound, "there is no store in %s", dataDir).WithField("data_dir").WithHint("--data-dir says where it is")
	}
	return v.info(), err
}

// checkVersion returns the error NEWER_STORE for a store that a newer orch has written. If this version can read the store and
// cfg.ReadNewer is set, it returns NEWER_STORE as the first result instead: the store is then read-only.
func checkVersion(cfg *ServerConfig) (*fault.Error, error) {
	var v storeVersion
	err := readSealed(filepath.Join(cfg.DataDir, versionFile), &v)
	if fault.Has(err, fault.NotFound) || fault.Has(err, fault.DataLoss) { // the check of the files reports the damage
		return nil, nil //nolint:nilnil // no restriction
	}
	if err != nil {
		return nil, err
	}
	return v.check(cfg.ReadNewer)
}

// raised returns a version that is at least the given one, and what is recorded with it. It keeps all that is recorded in a newer one.
func (v storeVersion) raised(least int, program string) storeVersion {
	if v.Version > StoreVersion {
		return v
	}
	v.Version, v.ReadableFrom = max(v.Version, least, 1), max(v.ReadableFrom, 1)
	if v.Version >= compactVersion { // a program that knows lower versions alone takes a compressed commit for damage
		v.ReadableFrom = compactVersion
	}
	v.Needs, v.Writer = releaseOf(v.Version), cmp.Or(program, v.Writer)
	return v
}

// check decides whether a store of a version may be used. The first result, if not nil, is why the store is read-only; the
// error, if not nil, is why it may not be used at all.
func (v storeVersion) check(readNewer bool) (*fault.Error, error) {
	if v.Version <= StoreVersion {
		return nil, nil //nolint:nilnil // no restriction
	}
	if v.ReadableFrom > StoreVersion {
		return nil, newerStore(v, "this one cannot read it")
	}
	if !readNewer {
		return nil, newerStore(v, "this one may read it and not write")
	}
	return newerStore(v, "this one reads it and writes nothing"), nil
}

func newerStore(v storeVersion, consequence string) *fault.Error {
	e := fault.New(fault.NewerStore, "a newer orch has written the store: it has version %d, this orch knows %d; %s", v.Version, StoreVersion, consequence)
	if v.Needs == "" {
		return e.WithHint("use the newer orch; nothing is damaged")
	}
	return e.WithHint("use orch %s or a newer orch; nothing is damaged", v.Needs)
}

// writeVersion writes the version of the store to versionFile: at least the given version, and the version of the program.
func writeVersion(dataDir string, least int, program string) error {
	path := filepath.Join(dataDir, versionFile)
	var v storeVersion
	switch err := readSealed(path, &v); {
	case fault.Has(err, fault.DataLoss): // the check of the files reports the damage
		return nil
	case err != nil && !fault.Has(err, fault.NotFound):
		return err
	}
	if next := v.raised(least, program); next != v {
		return writeSealed(path, next)
	}
	return nil
}

// firstVersion returns the least version of the store of a server that starts: that with which new stores begin, or 1. A store that is to be
// restored has that of its backup.
func (c *ServerConfig) firstVersion() int {
	if c.restoring || exists(filepath.Join(c.DataDir, versionFile)) || exists(filepath.Join(c.DataDir, storeDir)) {
		return 1
	}
	return compactVersion
}

// RaiseVersion makes the version of the store at least the given one. From then on, programs that know only lower versions refuse the
// store. It returns once that is durable. Errors: NEWER_STORE for a store that is read-only, UNAVAILABLE, DISK_FULL.
func (s *Store) RaiseVersion(ctx context.Context, least int) error {
	switch server := s.conn.target.server; {
	case s.newer():
		return s.loss.Load()
	case server != nil:
		s.raising.Lock()
		defer s.raising.Unlock()
		if err := writeVersion(server.cfg.DataDir, least, ""); err != nil {
			return err
		}
		return s.readVersion(server.cfg.DataDir)
	default:
		return s.raiseExternal(ctx, least, "")
	}
}

// readVersion reads from the data directory of the embedded server whether commits may be compressed. In a damaged file nothing says so.
func (b *streams) readVersion(dataDir string) error {
	v, err := ReadVersion(dataDir)
	if err != nil && !fault.Has(err, fault.DataLoss) {
		return err
	}
	b.compact.Store(err == nil && v.Version >= compactVersion)
	return nil
}

// Version returns the version of the store.
func (s *Store) Version(ctx context.Context) (VersionInfo, error) {
	if server := s.conn.target.server; server != nil {
		return ReadVersion(server.cfg.DataDir)
	}
	v, _, err := s.externalVersion(ctx)
	return v.info(), err
}

// versionKey is the key of the version in the bucket ORCH_META of an external server.
const versionKey = "version"

// checkExternalVersion checks the version of the store on an external server, as checkVersion does. It records the version of the
// program. If the store is read-only, it sets loss.
func (b *streams) checkExternalVersion(ctx context.Context) error {
	v, revision, err := b.externalVersion(ctx)
	if err != nil {
		return err
	}
	newer, err := v.check(b.cfg.ReadNewer)
	if newer != nil {
		b.loss.Store(newer)
	}
	if newer != nil || err != nil {
		return err
	}
	if revision == 0 {
		if err := b.beginExternal(ctx); err != nil {
			return err
		}
	}
	return b.raiseExternal(ctx, 1, b.cfg.Program)
}

// beginExternal gives a new store on an external server the version with which stores begin. It does nothing for a store of before there
// were versions, or if another node is first: its version counts.
func (b *streams) beginExternal(ctx context.Context) error {
	if old, err := b.conn.hasStream(ctx, liveStream); old || err != nil {
		return err
	}
	data, err := seal(storeVersion{}.raised(compactVersion, b.cfg.Program))
	if err != nil {
		return err
	}
	if _, err := b.meta.Create(ctx, versionKey, data); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return openFault(err)
	}
	return nil
}

// externalVersion returns the version of the store on an external server, and its revision; 0 if there is none.
func (b *streams) externalVersion(ctx context.Context) (v storeVersion, revision uint64, err error) {
	e, err := b.meta.Get(ctx, versionKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return v, 0, nil
	case err != nil:
		return v, 0, openFault(err)
	}
	if err := unseal(e.Value(), &v); err != nil {
		return v, 0, fault.Wrap(fault.DataLoss, err, "the version of the store is damaged").WithField(metaBucket + "." + versionKey)
	}
	return v, e.Revision(), nil
}

// raiseExternal makes the version of the store on an external server at least the given one. If another node was first, perhaps one
// of another version, it checks the version again.
func (b *streams) raiseExternal(ctx context.Context, least int, program string) error {
	for {
		v, revision, err := b.externalVersion(ctx)
		if err != nil {
			return err
		}
		if _, err := v.check(false); err != nil {
			return err
		}
		next := v.raised(least, program)
		if next == v {
			b.compact.Store(v.Version >= compactVersion)
			return nil
		}
		data, err := seal(next)
		if err != nil {
			return err
		}
		if _, err = b.meta.Update(ctx, versionKey, data, revision); err == nil {
			b.compact.Store(next.Version >= compactVersion)
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return openFault(err)
		}
	}
}

// Newer reports whether a newer orch has written the store, so that it is read-only.
func (s *Store) Newer() bool { return s.newer() }

// newer reports whether a newer orch has written the store, so that it is read-only.
func (b *streams) newer() bool {
	loss := b.loss.Load()
	return loss != nil && loss.Code == fault.NewerStore
}

// Finalize makes the version of the store in a data directory, on which no node runs, the newest that this program knows. Programs
// that know only lower versions refuse the store from then on. Errors: NOT_FOUND, NEWER_STORE, CONFLICT with reason
// DATA_DIR_IN_USE, DATA_LOSS.
func Finalize(dataDir string) (VersionInfo, error) {
	if _, err := ReadVersion(dataDir); err != nil {
		return VersionInfo{}, err
	}
	lock, err := lockDataDir(dataDir, "orch upgrade finalize")
	if err != nil {
		return VersionInfo{}, err
	}
	defer func() { _ = unlock(lock) }() // otherwise the kernel unlocks it when the process ends
	if _, err := checkVersion(&ServerConfig{DataDir: dataDir}); err != nil {
		return VersionInfo{}, err
	}
	if err := writeVersion(dataDir, StoreVersion, ""); err != nil {
		return VersionInfo{}, err
	}
	return ReadVersion(dataDir)
}
