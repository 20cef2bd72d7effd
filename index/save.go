package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// saver reads and writes the file of an index. It holds the lock of the contents for a part of the rows at a time.
type saver struct {
	contents *contents
	// complete is that of the index.
	complete *atomic.Bool
	// saving guards file, and is locked before contents.mu. It may be held for long.
	saving sync.Mutex
	file   *file
}

// Save adds to the file what has changed. All commits up to the positions past and live of the archive and the live log have been
// put into the index. Later ones are not written, because a power loss may take them from the log.
func (s *saver) Save(past, live uint64) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	f, at, complete := s.file, Position{past, live}, s.complete.Load()
	if f == nil || !f.wasRead {
		return nil
	}
	changes, maxRecords := s.unsaved()
	if f.out != nil && f.at == at && changes == 0 {
		return nil
	}
	f.at = at
	if f.records > maxRecords {
		f.close()
	}
	e := &encoder{table: s.contents.table, file: f}
	if f.out == nil {
		if err := s.create(e); err != nil {
			return err
		}
	}
	if err := s.encode(e, live); err != nil {
		return err
	}
	return f.write(e, complete)
}

// savePart is how many rows are encoded before the index answers other requests.
const savePart = 4096

// encode adds the changes that no commit after a position has followed.
func (s *saver) encode(e *encoder, live uint64) error {
	s.contents.lock()
	rows, marks := s.contents.journal.take(live)
	s.contents.mu.Unlock()
	for part := range slices.Chunk(rows, savePart) {
		s.contents.lock()
		s.contents.journal.encode(e, part)
		s.contents.mu.Unlock()
		if err := e.file.writeFull(e); err != nil {
			return err
		}
	}
	for _, m := range marks {
		e.mark(m)
	}
	return nil
}

// unsaved returns how many changes are not in the file, and how many records the file may have before it is written anew.
func (s *saver) unsaved() (changes, maxRecords int) {
	s.contents.lock()
	defer s.contents.mu.Unlock()
	return len(s.contents.journal.unsaved) + len(s.contents.journal.marks), 2*s.contents.table.rows.ids.count + chunkRows
}

// create begins a new file, and adds the rows of all finished tasks that are not in journal.unsaved.
func (s *saver) create(e *encoder) error {
	if err := e.file.create(); err != nil {
		return err
	}
	for n := 0; s.encodeChunk(e, n); n++ {
		if err := e.file.writeFull(e); err != nil {
			return err
		}
	}
	return e.file.replace()
}

// encodeChunk adds the rows of one chunk; false if there is none with this number.
func (s *saver) encodeChunk(e *encoder, n int) bool {
	s.contents.lock()
	defer s.contents.mu.Unlock()
	if n >= len(s.contents.table.rows.chunks) {
		return false
	}
	c := s.contents.table.rows.chunks[n]
	for i := range c.rows {
		if c.ended(i) && c.flags[i]&flagUnsaved == 0 {
			e.task(uint32(n)<<chunkBits + i) //nolint:gosec // a number of a row
		}
	}
	return true
}

// Remove removes tasks that are about to be removed from the log. The file is synced before, so that it never contains a task that
// the log has lost.
func (s *saver) Remove(ids []events.TaskID) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	f := s.file
	if f != nil && !f.wasRead {
		return fault.New(fault.Unavailable, "the index of lists has not been read")
	}
	e := &encoder{table: s.contents.table, file: &file{}}
	s.removeRows(e, ids)
	switch {
	case f == nil || len(e.data) == 0:
		return nil
	case f.out == nil:
		return f.empty()
	}
	if err := f.write(e, false); err != nil {
		return err
	}
	return fileFault(f.out.Sync())
}

// removeRows removes the rows of tasks, and adds records about that.
func (s *saver) removeRows(e *encoder, ids []events.TaskID) {
	s.contents.lock()
	defer s.contents.mu.Unlock()
	for _, id := range ids {
		if row, ok := s.contents.table.row(id); ok {
			e.mark(mark{recordRemoved, s.contents.table.rows.idOf(row)})
			s.contents.table.remove(row)
		}
	}
}

// Close closes the file.
func (s *saver) Close() {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.file != nil {
		s.file.close()
	}
}
