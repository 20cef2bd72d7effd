package secrets

// misses bound the work on texts that repeat a keyword: where a matcher has looked far ahead in vain, its keyword is
// tried only a few times more. So no byte is read often, whatever the text.
type misses map[*probe]miss

// miss is a stretch of a text that a matcher has read in vain.
type miss struct{ end, tries int }

const (
	// farAhead is how many bytes a matcher may read in vain before that counts.
	farAhead = 64
	// moreTries is how often a keyword is tried again in such a stretch.
	moreTries = 4
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
