package index

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
)

// Load reads the file and returns the positions of the archive and the live log that it has reached; zeros if it is of no use or
// not complete. Changes are applied meanwhile, and replace what the file contains. lastPast and lastLive are the ends of the log:
// a file that is ahead of them belongs to another log.
func (s *saver) Load(lastPast, lastLive uint64) (past, live uint64) {
	s.saving.Lock()
	defer s.saving.Unlock()
	f := s.file
	if f == nil {
		return 0, 0
	}
	if f.wasRead {
		return f.loaded.Past, f.loaded.Live
	}
	at, size := s.loadFile()
	if f.at.Past > lastPast || f.at.Live > lastLive {
		s.discard()
		at = Position{}
	}
	s.contents.lock()
	s.contents.journal.loaded(s.contents.table)
	s.contents.mu.Unlock()
	if _, maxRecords := s.unsaved(); at != (Position{}) && f.records <= maxRecords {
		f.reopen(size)
	}
	f.wasRead, f.loaded = true, at
	return at.Past, at.Live
}

// discard removes what the file has added.
func (s *saver) discard() {
	s.file.at, s.file.numbers, s.file.texts = Position{}, nil, 0
	for n := 0; s.discardChunk(n); n++ {
	}
}

// discardChunk removes the rows of one chunk that the file has added; false if there is no chunk with this number.
func (s *saver) discardChunk(n int) bool {
	s.contents.lock()
	defer s.contents.mu.Unlock()
	if n >= len(s.contents.table.rows.chunks) {
		return false
	}
	c := s.contents.table.rows.chunks[n]
	for i := range c.rows {
		if c.flags[i]&(flagFree|flagNewer) == 0 {
			s.contents.table.remove(uint32(n)<<chunkBits + i) //nolint:gosec // a number of a row
		}
	}
	return true
}

// loadFile applies the good chunks of the file. It returns the position of the newest complete one, and the size of the good part.
func (s *saver) loadFile() (at Position, size int64) {
	in, err := os.Open(s.file.path)
	if err != nil {
		return Position{}, 0
	}
	defer in.Close()
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil || !s.file.belongs(line) {
		return Position{}, 0
	}
	size = int64(len(line))
	l := &loader{table: s.contents.table, file: s.file, texts: []uint32{0}}
	for {
		h, body, ok := s.file.readChunk(r)
		if !ok {
			return at, size
		}
		if !s.loadChunk(l, body) {
			s.discard()
			return Position{}, 0
		}
		size += int64(binary.Size(h) + len(body))
		s.file.digest, s.file.at = h.Digest, h.Position
		if h.Complete == 1 {
			at = h.Position
		}
	}
}

// loadChunk applies the records of a chunk; false if one is not valid.
func (s *saver) loadChunk(l *loader, body []byte) bool {
	l.data = body
	for len(l.data) > 0 && !l.bad {
		s.loadPart(l)
	}
	return !l.bad
}

// loadPart applies some records, so that changes are applied between them.
func (s *saver) loadPart(l *loader) {
	s.contents.lock()
	defer s.contents.mu.Unlock()
	for left := savePart; left > 0 && len(l.data) > 0 && !l.bad; left-- {
		l.record()
	}
}

// loader applies the records of a file to a table. Rows that were changed since the start are newer than the file.
type loader struct {
	table *table
	file  *file
	// texts maps the numbers of texts in the file to those in the table.
	texts []uint32
	// data is the rest of a chunk. bad is set if it is not valid.
	data []byte
	bad  bool
}

func (l *loader) take(n int) []byte {
	if len(l.data) < n {
		l.bad = true
		return make([]byte, n)
	}
	b := l.data[:n]
	l.data = l.data[n:]
	return b
}

func (l *loader) uvarint() uint64 {
	v, n := binary.Uvarint(l.data)
	if n <= 0 {
		l.bad = true
		return 0
	}
	l.data = l.data[n:]
	return v
}

func (l *loader) id() rowID {
	b := l.take(16)
	return rowID{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// text returns the number of one of the texts so far.
func (l *loader) text() uint32 {
	n := l.uvarint()
	if n >= uint64(len(l.texts)) {
		l.bad = true
		return 0
	}
	return l.texts[n]
}

// record applies the next record.
func (l *loader) record() {
	switch l.take(1)[0] {
	case recordText:
		l.newText(string(l.take(int(l.uvarint() & (1<<31 - 1)))))
	case recordLabels:
		set := []byte{setPrefix}
		for n := l.uvarint(); n > 0 && !l.bad; n-- {
			set = binary.LittleEndian.AppendUint32(set, l.text())
		}
		l.newText(string(set))
	case recordTask:
		l.file.records++
		l.task()
	case recordArchived:
		if row, ok := l.table.rows.find(l.id()); ok {
			l.table.markArchived(row)
		}
	case recordRemoved:
		if row, ok := l.table.rows.find(l.id()); ok && !l.newer(row) {
			l.table.remove(row)
		}
	default:
		l.bad = true
	}
}

// newer reports whether a row was changed since the start.
func (l *loader) newer(row uint32) bool {
	c, i := l.table.rows.at(row)
	return c.flags[i]&flagNewer != 0
}

// newText adds the next text.
func (l *loader) newText(text string) {
	if l.bad {
		return
	}
	n := l.table.texts.number(text)
	l.texts = append(l.texts, n)
	l.file.setNumber(n)
}

// task applies the record of a task. Its texts precede it.
func (l *loader) task() {
	id := l.id()
	created, updated := int64(l.uvarint()), int64(l.uvarint()) //nolint:gosec // written by encoder.task
	var texts [textColumns]uint32
	for n := range texts {
		texts[n] = l.text()
	}
	last := l.take(2)
	state, flags := last[0], last[1]&savedFlags
	if l.bad = l.bad || int(state) >= len(stateByCode); l.bad {
		return
	}
	row, known := l.table.rows.find(id)
	if known && l.newer(row) {
		if flags&flagArchived != 0 {
			l.table.markArchived(row)
		}
		return
	}
	if !known {
		row = l.table.rows.add(id)
	}
	c, i := l.table.rows.at(row)
	if !known {
		c.setCreated(i, created)
	}
	c.setUpdated(i, updated)
	for n, column := range c.textColumns() {
		c.setText(column, i, texts[n])
	}
	if !known {
		l.table.insert(row)
	}
	l.table.count(row, -1)
	c.flags[i] = flags
	l.table.count(row, 1)
	l.table.setState(row, state)
}

// readChunk reads the next chunk; false if there is none or it is damaged.
func (f *file) readChunk(r io.Reader) (h chunkHeader, body []byte, ok bool) {
	if binary.Read(r, binary.LittleEndian, &h) != nil || h.Size > 1<<30 {
		return h, nil, false
	}
	body = make([]byte, h.Size)
	if _, err := io.ReadFull(r, body); err != nil {
		return h, nil, false
	}
	return h, body, h.Digest == f.digestOf(h, body)
}
