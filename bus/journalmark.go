package bus

import (
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// journalsFile is the file of a data directory with the newest durable position of each journal. It is a file of its own
// because an older orch takes a high-water mark with further fields for a damaged one.
const journalsFile = "journals.json"

// journalPositions is the content of journalsFile: the positions by the names of streams.
type journalPositions struct {
	Reached map[string]uint64 `json:"reached"`
}

// journalMarks keeps journalsFile up to date. It is safe for concurrent use.
type journalMarks struct {
	// path is empty with an external server: its streams are not checked by their files.
	path string
	// lag is set if entries are acknowledged before they are on the disk (see marker).
	lag bool

	mu      sync.Mutex
	reached map[string]uint64
	waiting map[string]uint64 // with lag, what is written in the next round
	written map[string]uint64
}

func newJournalMarks(server *Server, lag bool) *journalMarks {
	m := &journalMarks{lag: lag}
	if server == nil {
		return m
	}
	m.path = filepath.Join(server.cfg.DataDir, journalsFile)
	var was journalPositions
	_ = readSealed(m.path, &was) // the start has removed a damaged file
	m.written = was.Reached
	m.reached, m.waiting = map[string]uint64{}, maps.Clone(was.Reached)
	maps.Copy(m.reached, was.Reached)
	return m
}

// raise notes that a journal has a durable entry at a position.
func (m *journalMarks) raise(stream string, position uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.path != "" && position > m.reached[stream] {
		m.reached[stream] = position
	}
}

// write writes the positions if one has moved and the disk is ready. With lag they are those of the call before, and settle makes the
// journals durable that have moved.
func (m *journalMarks) write(ready func() bool, settle func(stream string) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.reached)
	if m.lag {
		next, m.waiting = m.waiting, next
	}
	if m.path == "" || maps.Equal(next, m.written) || !ready() {
		return nil
	}
	for stream, position := range next {
		if m.lag && position != m.written[stream] {
			if err := settle(stream); err != nil {
				return err
			}
		}
	}
	if err := writeSealed(m.path, journalPositions{Reached: next}); err != nil {
		return err
	}
	m.written = next
	return nil
}

// readJournals adds the positions of the journals to the mark. A damaged file is removed: the store writes another one.
func (i *inspection) readJournals() {
	var p journalPositions
	path := filepath.Join(i.dir, journalsFile)
	if fault.Has(readSealed(path, &p), fault.DataLoss) {
		i.addMended(Problem{File: journalsFile, What: "the positions of the journals are damaged; a loss at their ends before this start may not be found"})
		i.repairs.removed = append(i.repairs.removed, path)
		return
	}
	if i.mark.Sides == nil {
		i.mark.Sides = map[string]sideMark{}
	}
	for stream, position := range p.Reached {
		i.mark.Sides[stream] = sideMark{Seq: position}
	}
}

func isJournal(stream string) bool { return strings.HasPrefix(stream, journalPrefix) }

// writeJournals writes the positions of the journals, unless the disk is full or a sync has failed. A later call includes them.
func (b *streams) writeJournals() error {
	return b.journals.write(func() bool { return b.barrier().failure() == nil && b.space.hasRoomForMark() }, b.settle)
}
