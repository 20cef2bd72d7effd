package index

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
)

// This file stores values that are not texts as texts: pairs, ids and sets of labels.

// joined returns the number of two texts, of which the first contains no NUL.
func (t *texts) joined(a, b string) uint32 {
	if a == "" && b == "" {
		return 0
	}
	return t.number(a + "\x00" + b)
}

// latestText remembers the number of the last text, or of the last two that were joined.
type latestText struct {
	a, b string
	n    uint32
}

func (l *latestText) number(t *texts, text string) uint32 {
	if l.a != text {
		l.a, l.n = text, t.number(text)
	}
	return l.n
}

func (l *latestText) joined(t *texts, a, b string) uint32 {
	if l.a != a || l.b != b {
		l.a, l.b, l.n = a, b, t.joined(a, b)
	}
	return l.n
}

// split returns the two texts of joined.
func (t *texts) split(n uint32) (a, b string) {
	a, b, _ = strings.Cut(t.text(n), "\x00")
	return a, b
}

// idNumber returns the number of the text for an id.
func (t *texts) idNumber(id events.TaskID) uint32 {
	if id == "" {
		return 0
	}
	return t.number(idText(id))
}

// idText returns a short text for an id. An id that is not in canonical form stands for itself.
func idText(id events.TaskID) string {
	if n, ok := parseID(id); ok {
		return string(n.bytes())
	}
	return string(id)
}

func taskOfText(text []byte) events.TaskID {
	if len(text) != 16 {
		return events.TaskID(text)
	}
	return rowID{binary.BigEndian.Uint64(text[:8]), binary.BigEndian.Uint64(text[8:])}.task()
}

// setPrefix is the first byte of the text of a set of labels. No other text begins with it, because it is not valid in UTF-8.
const setPrefix = 0xff

// labelSet returns the number of a set of labels. Its text holds the numbers of the texts of the pairs.
func (t *texts) labelSet(labels map[string]string) uint32 {
	if len(labels) == 0 {
		return 0
	}
	set := []byte{setPrefix}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		set = binary.LittleEndian.AppendUint32(set, t.number(pairText(k, labels[k])))
	}
	return t.number(string(set))
}

func pairText(k, v string) string { return string(binary.AppendUvarint(nil, uint64(len(k)))) + k + v }

// pairs yields the numbers of the pairs in a set of labels.
func (t *texts) pairs(n uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		set := t.bytes(n)
		for at := 1; at < len(set); at += 4 {
			if !yield(binary.LittleEndian.Uint32(set[at:])) {
				return
			}
		}
	}
}

// hasPair reports whether a set of labels contains a pair.
func (t *texts) hasPair(labels, pair uint32) bool {
	set := t.bytes(labels)
	for at := 1; at < len(set); at += 4 {
		if binary.LittleEndian.Uint32(set[at:]) == pair {
			return true
		}
	}
	return false
}

// labels returns a set of labels.
func (t *texts) labels(n uint32) map[string]string {
	if n == 0 {
		return nil
	}
	labels := map[string]string{}
	for number := range t.pairs(n) {
		pair := t.bytes(number)
		length, size := binary.Uvarint(pair)
		pair = pair[size:]
		labels[string(pair[:length])] = string(pair[length:])
	}
	return labels
}
