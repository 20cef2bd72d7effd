// Package keyring keeps the secrets that sign deliveries, each with the one before it for a while after a rotation.
package keyring

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

// defaultKeep is how long a secret stays valid after a rotation by default, maxKeep the longest time.
const defaultKeep, maxKeep = 24 * time.Hour, 30 * 24 * time.Hour

// Store stores secrets beside the other secrets of the node. *bus.Store implements it.
type Store interface {
	// HookSecrets returns what is stored, by the ids of hooks and destinations.
	HookSecrets(ctx context.Context) (map[string][]byte, error)
	// SetHookSecret stores the secrets of an id durably; nil removes them.
	SetHookSecret(ctx context.Context, id string, data []byte) error
}

// Keys are the secrets of an id. A pointer to Keys has no method that prints it, and no view contains it.
type Keys struct {
	Current string `json:"current"`
	// Previous is valid until Until.
	Previous string    `json:"previous,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// Valid returns the secrets that are valid at a time, the current one first. The receiver may be nil.
func (k *Keys) Valid(now time.Time) [2]string {
	if k == nil {
		return [2]string{}
	}
	if k.PreviousUntil(now) != nil {
		return [2]string{k.Current, k.Previous}
	}
	return [2]string{k.Current}
}

// PreviousUntil returns when the secret before the current one ends; nil if none is valid at a time.
func (k *Keys) PreviousUntil(now time.Time) *time.Time {
	if k.Previous == "" || !now.Before(k.Until) {
		return nil
	}
	return &k.Until
}

// Ring is the secrets of all ids. Its methods may be called concurrently.
type Ring struct {
	store Store
	mu    sync.RWMutex
	keys  map[string]*Keys
}

// New returns a ring without secrets.
func New(store Store) *Ring { return &Ring{store: store, keys: map[string]*Keys{}} }

// Load reads the stored secrets. Those that cannot be read count as missing.
func (r *Ring) Load(ctx context.Context) error {
	stored, err := r.store.HookSecrets(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, data := range stored {
		if k := new(Keys); json.Unmarshal(data, k) == nil {
			r.keys[id] = k
		}
	}
	return nil
}

// Get returns the secrets of an id; nil for none.
func (r *Ring) Get(id string) *Keys {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[id]
}

// Set stores the secrets of an id; nil removes them.
func (r *Ring) Set(ctx context.Context, id string, k *Keys) error {
	var data []byte
	if k != nil {
		var err error
		if data, err = json.Marshal(k); err != nil {
			return fault.New(fault.Internal, "a secret cannot be encoded") // without the error, which may contain it
		}
	}
	if err := r.store.SetHookSecret(ctx, id, data); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k == nil {
		delete(r.keys, id)
	} else {
		r.keys[id] = k
	}
	return nil
}

// Rotate gives an id another secret at a time. The one before stays valid for keep, nil for the default. For the secret that the id has
// already, keep can end the time of the one before earlier. It returns false if nothing changes, as for a repetition. Errors:
// VALIDATION_ERROR for keep.
func (r *Ring) Rotate(ctx context.Context, id, secret string, keep *time.Duration, now time.Time) (bool, error) {
	kept := defaultKeep
	if keep != nil {
		kept = *keep
	}
	if kept < 0 || kept > maxKeep {
		return false, fault.New(fault.ValidationError, "must be between 0 and %s", maxKeep).WithField("keep")
	}
	has, next, until := r.Get(id), &Keys{Current: secret}, now.Add(kept)
	switch {
	case has == nil:
	case has.Current == secret && (has.Previous == "" || !until.Before(has.Until)):
		return false, nil
	case kept == 0:
	case has.Current == secret:
		next.Previous, next.Until = has.Previous, until
	default:
		next.Previous, next.Until = has.Current, until
	}
	return true, r.Set(ctx, id, next)
}
