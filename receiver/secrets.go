package receiver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Secrets stores the secrets of hooks, beside the other secrets of the node. *bus.Store implements it.
type Secrets interface {
	// HookSecrets returns what is stored, by the ids of hooks.
	HookSecrets(ctx context.Context) (map[string][]byte, error)
	// SetHookSecret stores the secrets of a hook durably; nil removes them.
	SetHookSecret(ctx context.Context, id string, data []byte) error
}

// keys are the secrets of a hook. A pointer to keys has no method that prints it, and no view contains it.
type keys struct {
	Current string `json:"current"`
	// Previous is valid until Until.
	Previous string    `json:"previous,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// valid returns the secrets that are valid at a time.
func (k *keys) valid(now time.Time) [2]string {
	if k == nil {
		return [2]string{}
	}
	if k.Previous != "" && now.Before(k.Until) {
		return [2]string{k.Current, k.Previous}
	}
	return [2]string{k.Current}
}

// keysOf returns the secrets of a hook; nil for none.
func (r *Receiver) keysOf(id string) *keys {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[id]
}

// setKeys stores the secrets of a hook; nil removes them.
func (r *Receiver) setKeys(ctx context.Context, id string, k *keys) error {
	var data []byte
	if k != nil {
		var err error
		if data, err = json.Marshal(k); err != nil {
			return fault.New(fault.Internal, "a secret cannot be encoded") // without the error, which may contain it
		}
	}
	if err := r.cfg.Secrets.SetHookSecret(ctx, id, data); err != nil {
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

// loadKeys reads the secrets of all hooks. One that cannot be read counts as missing.
func (r *Receiver) loadKeys(ctx context.Context) error {
	all, err := r.cfg.Secrets.HookSecrets(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, data := range all {
		if k := new(keys); json.Unmarshal(data, k) == nil {
			r.keys[id] = k
		}
	}
	return nil
}
