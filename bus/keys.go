package bus

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// The keys, in the bucket ORCH_META, of the secrets of the node. Backups do not contain them: a restored store gets new ones.
const (
	// faceKey is the key of the secret of FaceKey.
	faceKey = "mcp_key"
	// exportKey is the key of the seed of ExportKey.
	exportKey = "export_key"
	// hookSecret is the beginning of the keys of the secrets of hooks and destinations. Their ids follow.
	hookSecret = "hook_secret."
	// secretSize is the size of each secret in bytes.
	secretSize = 32
)

// FaceKey returns a secret of 32 bytes. The nodes of this store use it to sign the state that an MCP client keeps between two
// requests of one tool call. The first call of FaceKey creates the secret.
func (sd *sideStore) FaceKey(ctx context.Context) ([]byte, error) { return sd.secret(ctx, faceKey) }

// ExportKey returns the key with which the nodes of this store sign export files. The first call of ExportKey creates the key. The
// private part must not leave the process.
func (sd *sideStore) ExportKey(ctx context.Context) (ed25519.PrivateKey, error) {
	seed, err := sd.secret(ctx, exportKey)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// secret returns the secret with a name, and creates it if there is none.
func (sd *sideStore) secret(ctx context.Context, name string) ([]byte, error) {
	const tries = 3 // another node may create it at the same moment
	var err error
	for range tries {
		var e jetstream.KeyValueEntry
		e, err = sd.meta.Get(ctx, name)
		if err == nil && len(e.Value()) == secretSize {
			return e.Value(), nil
		}
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			break
		}
		key := make([]byte, secretSize)
		_, _ = rand.Read(key) // never fails
		if err == nil {
			_, err = sd.meta.Update(ctx, name, key, e.Revision())
		} else {
			_, err = sd.meta.Create(ctx, name, key)
		}
		if err == nil {
			return key, sd.barrier().wait(metaStream)
		}
	}
	return nil, sideFault(err, "the key of the node cannot be stored")
}

// hookID is the form of the ids of hooks and of destinations.
var hookID = regexp.MustCompile(`^(HOOK|DEST)_[0-9A-Z]{26}$`)

// HookSecrets returns the stored secrets of hooks and destinations, by their ids.
func (sd *sideStore) HookSecrets(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	names, err := sd.meta.ListKeysFiltered(ctx, hookSecret+"*")
	if err != nil {
		return nil, sideFault(err, "the secrets of the hooks cannot be read")
	}
	defer func() { _ = names.Stop() }() // all were read, or the connection is closed
	for name := range names.Keys() {
		e, err := sd.meta.Get(ctx, name)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, sideFault(err, "the secrets of the hooks cannot be read")
		}
		all[strings.TrimPrefix(name, hookSecret)] = e.Value()
	}
	return all, nil
}

// SetHookSecret stores the secrets of a hook or a destination, or removes them if data is nil. When it returns nil, that is durable.
func (sd *sideStore) SetHookSecret(ctx context.Context, id string, data []byte) error {
	if !hookID.MatchString(id) {
		return fault.New(fault.InvalidFormat, "is not the id of a hook").WithField("id")
	}
	var err error
	if data == nil {
		err = sd.meta.Purge(ctx, hookSecret+id)
	} else if err = sd.space.checkRoom(len(data), time.Now()); err == nil {
		_, err = sd.meta.Put(ctx, hookSecret+id, data)
	}
	if fault.Has(err, fault.DiskFull) {
		return err
	}
	if err != nil {
		return sideFault(err, "the secret of the hook cannot be stored")
	}
	return sd.barrier().wait(metaStream)
}
