package secrets

// misses bounds the work on texts that repeat a keyword. When a matcher has read far ahead without success, the text
// that it has read is a miss. The matcher may read the same text only a few more times. For further occurrences of its
// keyword in that text it reads only up to the next occurrences. So no byte is read often, and secrets among many false
// candidates are still found.
type misses map[*probe]miss

// miss describes a text that a matcher has read without success: the offset of its end, and how often it was read.
type miss struct{ end, tries int }

const (
	// farAhead is how many bytes a matcher may read without success before that counts as a miss.
	farAhead = 64
	// moreTries is how often a matcher may read the text of a miss again.
	moreTries = 4
	// maxInside bounds how often a keyword may occur inside a secret, after its beginning. A signed token contains its
	// keyword twice more.
	maxInside = 3
	// reach is more than the number of bytes that any matcher reads.
	reach = 96 << 10
)

// exhausted reports whether offset at is in a miss of the keyword that must not be read again.
func (m misses) exhausted(p *probe, at int) bool {
	if len(m) == 0 {
		return false
	}
	seen := m[p]
	return at < seen.end && seen.tries > moreTries
}

// add records that the matcher of a keyword has read data from at to end without success.
func (m misses) add(p *probe, at, end int) {
	if end-at <= farAhead {
		return
	}
	seen := m[p]
	if at >= seen.end {
		seen = miss{end: end}
	}
	seen.tries++
	m[p] = seen
}

// findAgain is the matcher in an exhausted miss. It runs the full matcher only if the keyword occurs fewer than
// maxInside times in the text that follows.
func (p *probe) findAgain(data []byte, at int) (int, int, bool) {
	begin, end, ok := p.findApart(data, at, min(len(data), at+reach), p.find)
	if !ok {
		return 0, 0, false
	}
	return begin, end, true
}

// findApart runs the matcher on text that ends at one of the next occurrences of the keyword, because the text from
// there on may not be part of the secret. Only occurrences before end count. If there are fewer than maxInside of them,
// it finally uses the matcher rest.
func (p *probe) findApart(data []byte, at, end int, rest matcher) (int, int, bool) {
	next := at + len(p.text) - 1
	for range maxInside {
		if next = p.next(data, next+1, end); next < 0 {
			return rest(data, at)
		}
		if begin, last, ok := p.find(data[:next], at); ok {
			return begin, last, true
		}
	}
	return 0, 0, false
}

func noMatch([]byte, int) (begin, end int, ok bool) { return 0, 0, false }

// next returns the offset of the next occurrence of the keyword between from and end, or -1.
func (p *probe) next(data []byte, from, end int) int {
	for i := from; i < min(end, len(data)); i++ {
		if p.matchesAt(data, i) && (!p.begins || boundaryOrUnderscore(data, i)) && (!p.dotted || data[i-1] != '.') {
			return i
		}
	}
	return -1
}
