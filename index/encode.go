package index

import "encoding/binary"

const (
	recordText     = 'T'
	recordLabels   = 'L'
	recordTask     = 'R'
	recordArchived = 'A'
	recordRemoved  = 'D'
)

// encoder encodes the records of a chunk of the file.
type encoder struct {
	table *table
	file  *file
	data  []byte
}

// text returns the number of a text in the file, and first writes a text that the file does not contain.
func (e *encoder) text(n uint32) uint64 {
	if !e.has(n) {
		text := e.table.texts.bytes(n)
		e.data = binary.AppendUvarint(append(e.data, recordText), uint64(len(text)))
		e.data = append(e.data, text...)
		e.file.setNumber(n)
	}
	return e.number(n)
}

// labels is text for a set of labels, which contains numbers of other texts.
func (e *encoder) labels(n uint32) uint64 {
	if !e.has(n) {
		var pairs []byte
		count := uint64(0)
		for pair := range e.table.texts.pairs(n) {
			pairs = binary.AppendUvarint(pairs, e.text(pair))
			count++
		}
		e.data = append(binary.AppendUvarint(append(e.data, recordLabels), count), pairs...)
		e.file.setNumber(n)
	}
	return e.number(n)
}

func (e *encoder) has(n uint32) bool { return n == 0 || e.number(n) != 0 }

func (e *encoder) number(n uint32) uint64 {
	if int(n) >= len(e.file.numbers) {
		return 0
	}
	return uint64(e.file.numbers[n])
}

// task adds a row.
func (e *encoder) task(row uint32) {
	c, i := e.table.rows.at(row)
	var texts []byte
	for _, column := range c.textColumns() {
		if column == &c.labels {
			texts = binary.AppendUvarint(texts, e.labels(column.text(i)))
		} else {
			texts = binary.AppendUvarint(texts, e.text(column.text(i)))
		}
	}
	e.data = append(append(e.data, recordTask), c.id(i).bytes()...)
	e.data = binary.AppendUvarint(e.data, uint64(c.createdAt(i))) //nolint:gosec // decoded by loader.task
	e.data = binary.AppendUvarint(e.data, uint64(c.updatedAt(i))) //nolint:gosec // as above
	e.data = append(append(e.data, texts...), c.state[i], c.flags[i]&savedFlags)
	c.flags[i] &^= flagUnsaved
	e.file.records++
}

func (e *encoder) mark(m mark) {
	e.data = append(append(e.data, m.kind), m.id.bytes()...)
	e.file.records++
}
