package bus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const (
	// quarantineDir is the directory in the data directory for damaged files and for files that orch did not create.
	quarantineDir = "aside"
	// quarantineList is the list of entries in quarantineDir, one quarantineEntry as JSON per line.
	quarantineList = "list.jsonl"
)

// quarantineEntry is one line of the list.
type quarantineEntry struct {
	At time.Time `json:"at"`
	// Copy is where the file, or the copy of it, is now, relative to the data directory.
	Copy string `json:"copy,omitempty"`
	Problem
}

// quarantine is the quarantine directory of one start or salvage.
type quarantine struct {
	dataDir string
	at      time.Time
}

func newQuarantine(dataDir string) quarantine {
	return quarantine{dataDir: dataDir, at: events.Time(time.Now())}
}

// move moves a file or a directory of the data directory to the quarantine and records why.
func (a quarantine) move(path string, why Problem) error {
	name, err := filepath.Rel(a.dataDir, path)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the path of a file to be set aside cannot be made relative to the data directory")
	}
	to := a.location(name)
	if err = os.MkdirAll(filepath.Join(a.dataDir, filepath.Dir(to)), 0o700); err == nil {
		err = os.Rename(path, filepath.Join(a.dataDir, to))
	}
	if err != nil {
		return writeFault(to, err)
	}
	return a.record(to, why)
}

// location returns the path of an entry with a name in the quarantine, relative to the data directory.
func (a quarantine) location(name string) string {
	return filepath.Join(quarantineDir, a.at.Format("20060102T150405.000"), name)
}

// record appends an entry to the list.
func (a quarantine) record(location string, why Problem) error {
	line, err := json.Marshal(quarantineEntry{At: a.at, Copy: location, Problem: why})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "an entry of the quarantine list cannot be encoded")
	}
	path := filepath.Join(a.dataDir, quarantineDir, quarantineList)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return writeFault(path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return writeFault(path, err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return writeFault(path, err)
	}
	return nil
}

// repairs are planned changes to the files of a store, which apply makes before a server reads the files.
type repairs struct {
	reindex     []string           // streams whose index is removed, so that the server checks every checksum
	removed     []string           // paths to remove
	quarantined map[string]Problem // paths to quarantine
	truncated   map[string]int64   // sizes to truncate files to
}

// quarantine plans to move a file or a directory to the quarantine.
func (m *repairs) quarantine(path string, why Problem) {
	if m.quarantined == nil {
		m.quarantined = map[string]Problem{}
	}
	m.quarantined[path] = why
}

// truncate plans to truncate a file to a size. Of several sizes for a file, the smallest is used.
func (m *repairs) truncate(path string, size int64) {
	if m.truncated == nil {
		m.truncated = map[string]int64{}
	}
	if before, ok := m.truncated[path]; !ok || size < before {
		m.truncated[path] = size
	}
}

// apply logs the problems found and makes all planned changes.
func (m *repairs) apply(ctx context.Context, dataDir, streams string, found []Problem, log *slog.Logger) error {
	for _, p := range found {
		log.LogAttrs(ctx, slog.LevelWarn, "minor damage to the store was repaired", slog.String("problem", p.String()))
	}
	for _, stream := range m.reindex {
		if err := removeFile(filepath.Join(streams, stream, filepath.FromSlash(stateFile))); err != nil {
			return err
		}
	}
	for path, size := range m.truncated {
		if err := truncateFile(path, size); err != nil {
			return err
		}
	}
	to := newQuarantine(dataDir)
	for path, why := range m.quarantined {
		if err := to.move(path, why); err != nil {
			return err
		}
	}
	for _, path := range m.removed {
		if err := os.RemoveAll(path); err != nil {
			return writeFault(path, err)
		}
	}
	return nil
}

// truncateFile truncates a file, and removes it if nothing is left.
func truncateFile(path string, size int64) error {
	err := os.Truncate(path, size)
	if size == 0 {
		err = os.Remove(path)
	}
	if err != nil {
		return writeFault(path, err)
	}
	return nil
}
