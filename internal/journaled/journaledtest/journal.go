// Package journaledtest has a journal in memory for tests.
package journaledtest

import (
	"context"
	"slices"
	"sync"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
)

// Journal is a journal in memory, which outlives the services that use it, as a data directory does.
type Journal struct {
	// Failing is called before each append; an error is its result. An append that has lost its answer has had its effect. Default: none
	// fails.
	Failing func() (err error, lost bool)

	mu sync.Mutex
	// Entries are the entries from position 1 on; Saved is the snapshot that replaces those up to Pruned.
	Entries [][]byte
	Saved   []byte
	Pruned  uint64
	// Exists is set when the journal was created.
	Exists bool
}

var _ journaled.Journal = (*Journal)(nil)

// Open implements journaled.Open.
func (j *Journal) Open(_ context.Context, create bool) (journaled.Journal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.Exists = j.Exists || create; !j.Exists {
		return nil, nil //nolint:nilnil // as journaled.Open describes
	}
	return j, nil
}

// Append implements journaled.Journal.
func (j *Journal) Append(_ context.Context, newest uint64, data []byte) (uint64, error) {
	var err error
	lost := false
	if j.Failing != nil {
		err, lost = j.Failing()
	}
	if err != nil && !lost {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if newest != j.Pruned+uint64(len(j.Entries)) {
		return 0, fault.New(fault.Conflict, "another change was first")
	}
	j.Entries = append(j.Entries, slices.Clone(data))
	return newest + 1, err
}

// Read implements journaled.Journal.
func (j *Journal) Read(_ context.Context, after uint64, fn func(uint64, []byte) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, data := range j.Entries {
		if at := j.Pruned + uint64(i) + 1; at > after {
			if err := fn(at, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Snapshot implements journaled.Journal.
func (j *Journal) Snapshot(context.Context) ([]byte, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Saved, j.Pruned, nil
}

// SaveSnapshot implements journaled.Journal.
func (j *Journal) SaveSnapshot(_ context.Context, position uint64, data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.Entries, j.Saved, j.Pruned = j.Entries[position-j.Pruned:], data, position
	return nil
}
