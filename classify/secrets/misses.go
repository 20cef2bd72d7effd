package secrets

// misses bound the work on texts that repeat a keyword. Where a matcher has looked far ahead in vain, it reads as far only
// a few times more; from the other places of its keyword there it reads up to the next ones. So no byte is read often,
// whatever the text, and no secret hides among others that are none.
type misses map[*probe]miss

// miss is a stretch of a text that a matcher has read in vain.
type miss struct{ end, tries int }

const (
	// farAhead is how many bytes a matcher may read in vain before that counts.
	farAhead = 64
	// moreTries is how often a matcher reads as far again in such a stretch.
	moreTries = 4
	// within is how often its keyword may stand in a secret, beside its beginning: twice in a signed token.
	within = 3
	// reach is more than any matcher reads.
	reach = 96 << 10
)

// exhausted reports whether the keyword at an offset has been tried often enough in the stretch around it.
func (m misses) exhausted(p *probe, at int) bool {
	if len(m) == 0 {
		return false
	}
	seen := m[p]
	return at < seen.end && seen.tries > moreTries
}

// add notes that the matcher of a keyword has read data from at to end in vain.
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

// findAgain is for a stretch that was read often enough: it reads as far as the matcher does only where its keyword stands
// again a few times at most.
func (p *probe) findAgain(data []byte, at int) (int, int, bool) {
	begin, end, ok := p.findApart(data, at, min(len(data), at+reach), p.find)
	if !ok {
		return 0, 0, false
	}
	return begin, end, true
}

// findApart looks for a secret that ends before one of the next places of its keyword: what stands behind may not be a part
// of it. Only places before end count; where there are none left, rest looks.
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

func nothing([]byte, int) (begin, end int, ok bool) { return 0, 0, false }

// next returns the next place of the keyword before end, -1 when there is none.
func (p *probe) next(data []byte, from, end int) int {
	for i := from; i < min(end, len(data)); i++ {
		if p.stands(data, i) && (!p.begins || apart(data, i)) && (!p.dotted || data[i-1] != '.') {
			return i
		}
	}
	return -1
}
