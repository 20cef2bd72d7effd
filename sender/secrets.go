package sender

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
)

// keys are the secrets of a destination. A pointer to keys has no method that prints it, and no view contains it.
type keys struct {
	Current string `json:"current"`
	// Previous signs too until Until.
	Previous string    `json:"previous,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// valid returns the secrets that sign at a time. The receiver may be nil.
func (k *keys) valid(now time.Time) [2]string {
	if k == nil {
		return [2]string{}
	}
	if k.Previous != "" && now.Before(k.Until) {
		return [2]string{k.Current, k.Previous}
	}
	return [2]string{k.Current}
}

// keysOf returns the secrets of a destination; nil for none.
func (s *Sender) keysOf(id string) *keys {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.keys[id]
}

// setKeys stores the secrets of a destination; nil removes them.
func (s *Sender) setKeys(ctx context.Context, id string, k *keys) error {
	var data []byte
	if k != nil {
		var err error
		if data, err = json.Marshal(k); err != nil {
			return fault.New(fault.Internal, "a secret cannot be encoded") // without the error, which may contain it
		}
	}
	if err := s.cfg.Secrets.SetHookSecret(ctx, id, data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == nil {
		delete(s.keys, id)
	} else {
		s.keys[id] = k
	}
	return nil
}

// loadKeys reads the secrets of all destinations. One that cannot be read counts as missing.
func (s *Sender) loadKeys(ctx context.Context) error {
	stored, err := s.cfg.Secrets.HookSecrets(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.all {
		data, found := stored[d.Definition.ID]
		if k := new(keys); found && json.Unmarshal(data, k) == nil {
			s.keys[d.Definition.ID] = k
		}
	}
	return nil
}
