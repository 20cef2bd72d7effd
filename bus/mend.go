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
	// asideDir is the folder of the data directory for what was set aside because it is damaged or nobody's.
	asideDir = "aside"
	// asideList is the list in it: a line of JSON for each entry.
	asideList = "list.jsonl"
)

// aside is one line of the list.
type aside struct {
	At time.Time `json:"at"`
	// Copy is where it lies now, relative to the data directory.
	Copy string `json:"copy,omitempty"`
	Problem
}

// setAside is the folder of one start or salvage.
type setAside struct {
	dataDir string
	at      time.Time
}

func newSetAside(dataDir string) setAside {
	return setAside{dataDir: dataDir, at: events.Time(time.Now())}
}

// move moves a file or a folder of the data directory aside and notes why.
func (a setAside) move(path string, why Problem) error {
	name, err := filepath.Rel(a.dataDir, path)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the path of what is set aside")
	}
	to := a.place(name)
	if err = os.MkdirAll(filepath.Join(a.dataDir, filepath.Dir(to)), 0o700); err == nil {
		err = os.Rename(path, filepath.Join(a.dataDir, to))
	}
	if err != nil {
		return writeFault(to, err)
	}
	return a.note(to, why)
}

// place is where an entry of the data directory goes, relative to it.
func (a setAside) place(name string) string {
	return filepath.Join(asideDir, a.at.Format("20060102T150405.000"), name)
}

// note adds a line to the list.
func (a setAside) note(place string, why Problem) error {
	line, err := json.Marshal(aside{At: a.at, Copy: place, Problem: why})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the list of what is set aside cannot be encoded")
	}
	path := filepath.Join(a.dataDir, asideDir, asideList)
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

// mends are what is done to the files of a store before a server reads them.
type mends struct {
	torn    []string           // streams whose index is removed, so that the server looks at every checksum
	dropped []string           // paths that are removed
	aside   map[string]Problem // paths that are set aside
	clipped map[string]int64   // files that are worth something up to a size
}

func (m *mends) move(path string, why Problem) {
	if m.aside == nil {
		m.aside = map[string]Problem{}
	}
	m.aside[path] = why
}

// clip keeps a file up to a size, the smallest that it is called with.
func (m *mends) clip(path string, size int64) {
	if m.clipped == nil {
		m.clipped = map[string]int64{}
	}
	if before, ok := m.clipped[path]; !ok || size < before {
		m.clipped[path] = size
	}
}

// apply mends the store of a data directory and logs what was found.
func (m *mends) apply(ctx context.Context, dataDir, streams string, found []Problem, log *slog.Logger) error {
	for _, p := range found {
		log.LogAttrs(ctx, slog.LevelWarn, "the store had a damage that costs nothing or little", slog.String("problem", p.String()))
	}
	for _, stream := range m.torn {
		if err := removeFile(filepath.Join(streams, stream, filepath.FromSlash(stateFile))); err != nil {
			return err
		}
	}
	for path, size := range m.clipped {
		if err := clipFile(path, size); err != nil {
			return err
		}
	}
	to := newSetAside(dataDir)
	for path, why := range m.aside {
		if err := to.move(path, why); err != nil {
			return err
		}
	}
	for _, path := range m.dropped {
		if err := os.RemoveAll(path); err != nil {
			return writeFault(path, err)
		}
	}
	return nil
}

// clipFile cuts a file off, and removes it when nothing is left.
func clipFile(path string, size int64) error {
	err := os.Truncate(path, size)
	if size == 0 {
		err = os.Remove(path)
	}
	if err != nil {
		return writeFault(path, err)
	}
	return nil
}
