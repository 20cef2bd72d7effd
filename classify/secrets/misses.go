package secrets

// misses bounds the work on texts that repeat a keyword. When a matcher has read far ahead without success, it may read
// that stretch only a few more times. From further occurrences of its keyword in the stretch it reads only up to the
// next occurrences. So no byte is read often, whatever the text, and no secret is missed among many false candidates.
type misses map[*probe]miss

// miss is a stretch of text that a matcher has read without success.
type miss struct{ end, tries int }

const (
	// farAhead is how many bytes a matcher may read without success before that counts as a miss.
	farAhead = 64
	// moreTries is how often a matcher may read such a stretch again.
	moreTries = 4
	// within bounds the occurrences of a keyword inside a secret, in addition to its beginning: twice in a signed
	// token.
	within = 3
	// reach exceeds what any matcher reads, in bytes.
	reach = 96 << 10
)

// exhausted reports whether the keyword at an offset has used up its tries in the surrounding stretch.
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

// findAgain matches in an exhausted stretch. It runs the full matcher only if the keyword occurs again a few times at
// most.
func (p *probe) findAgain(data []byte, at int) (int, int, bool) {
	begin, end, ok := p.findApart(data, at, min(len(data), at+reach), p.find)
	if !ok {
		return 0, 0, false
	}
	return begin, end, true
}

// findApart looks for a secret that ends before one of the next occurrences of its keyword, because text after them may
// not be part of it. Only occurrences before end count; when none is left, it uses rest.
func (p *probe) findApart(data []byte, at, end int, rest matcher) (int, int, bool) {
	next := at + len(p.text) - 1
	for range within {
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

// next returns the next offset of the keyword before end, or -1.
func (p *probe) next(data []byte, from, end int) int {
	for i := from; i < min(end, len(data)); i++ {
		if p.matchesAt(data, i) && (!p.begins || boundaryOrUnderscore(data, i)) && (!p.dotted || data[i-1] != '.') {
			return i
		}
	}
	return -1
}
