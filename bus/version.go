package bus

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// versionFile is the file beside the store with the version of the store's format. Stores of the first versions have no such
// file.
const versionFile = "store.json"

// StoreVersion is the version of the store's format that this package writes. The format covers streams, subjects, headers and
// the files beside the store. Commits have a separate version, events.Version.
const StoreVersion = 1

// storeVersion is the content of versionFile.
type storeVersion struct {
	Version int `json:"version"`
	// ReadableFrom is the lowest StoreVersion of a program that may read the store, and write sessions, tokens and messages
	// to it.
	ReadableFrom int `json:"readable_from"`
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

func thisVersion() storeVersion {
	return storeVersion{Version: StoreVersion, ReadableFrom: StoreVersion}
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
	return fault.New(fault.NewerStore, "a newer orch has written the store: it has version %d, this orch knows %d; %s", v.Version, StoreVersion, consequence).
		WithHint("use the newer orch; nothing is damaged")
}

// writeVersion writes StoreVersion to versionFile if the file is missing or has an older version, so that older programs
// refuse the store.
func writeVersion(dataDir string) error {
	path := filepath.Join(dataDir, versionFile)
	var v storeVersion
	switch err := readSealed(path, &v); {
	case fault.Has(err, fault.DataLoss), err == nil && v.Version >= StoreVersion: // the check of the files reports the damage
		return nil
	case err != nil && !fault.Has(err, fault.NotFound):
		return err
	}
	return writeSealed(path, thisVersion())
}

// versionKey is the key of the version in the bucket ORCH_META of an external server.
const versionKey = "version"

// checkExternalVersion checks the version of the store on an external server, as checkVersion does. It writes StoreVersion if
// the version is missing or older. If the store is read-only, it sets loss.
func (b *streams) checkExternalVersion(ctx context.Context) error {
	var v storeVersion
	e, err := b.meta.Get(ctx, versionKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		data, err := seal(thisVersion())
		if err == nil {
			_, err = b.meta.Create(ctx, versionKey, data)
		}
		if errors.Is(err, jetstream.ErrKeyExists) { // another node, perhaps of another version, was first
			return b.checkExternalVersion(ctx)
		}
		return err
	case err != nil:
		return openFault(err)
	}
	if err := unseal(e.Value(), &v); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the version of the store is damaged").WithField(metaBucket + "." + versionKey)
	}
	if v.Version < StoreVersion {
		return b.raiseVersion(ctx, e.Revision())
	}
	newer, err := v.check(b.cfg.ReadNewer)
	if newer != nil {
		b.loss.Store(newer)
	}
	return err
}

// raiseVersion writes StoreVersion to the store on an external server. If another node was first, it checks the version again.
func (b *streams) raiseVersion(ctx context.Context, revision uint64) error {
	data, err := seal(thisVersion())
	if err != nil {
		return err
	}
	_, err = b.meta.Update(ctx, versionKey, data, revision)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return b.checkExternalVersion(ctx)
	case err != nil:
		return openFault(err)
	default:
		return nil
	}
}

// Newer reports whether a newer orch has written the store, so that it is read-only.
func (s *Store) Newer() bool { return s.newer() }

// newer reports whether a newer orch has written the store, so that it is read-only.
func (b *streams) newer() bool {
	loss := b.loss.Load()
	return loss != nil && loss.Code == fault.NewerStore
}
