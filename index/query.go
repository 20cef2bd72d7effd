package index

import (
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// Dead reports whether a task needs a person. known reports whether there is a task with an id.
type Dead = func(line api.Summary, known func(events.TaskID) bool) bool

// queries answers the requests for lists from a table.
type queries struct {
	*table

	// verdictsOf remembers which names match a pattern.
	verdictsOf map[string][]uint8
}

func (q *queries) list(r api.ListRequest, after *api.Summary, dead Dead) (page []api.Summary, more bool) {
	f, ok := q.filterOf(r)
	if !ok {
		return nil, false
	}
	for row := range q.matching(f, startOf(r, after)) {
		if r.Dead && !dead(q.line(row), q.known) {
			continue
		}
		if len(page) == r.Limit {
			return page, true
		}
		page = append(page, q.line(row))
	}
	return page, false
}

func (q *queries) known(id events.TaskID) bool {
	_, ok := q.row(id)
	return ok
}

// end is after all rows.
func end() key { return key{created: 1<<63 - 1} }

// startOf returns a key that all rows of an answer precede.
func startOf(r api.ListRequest, after *api.Summary) key {
	start := end()
	if !r.Until.IsZero() {
		start.created = microsFrom(r.Until)
	}
	if after != nil {
		id, _ := parseID(after.ID)
		if k := (key{after.CreatedAt.UnixMicro(), id}); k.less(start) {
			return k
		}
	}
	return start
}

// microsFrom returns the first microsecond that is not before a time.
func microsFrom(t time.Time) int64 {
	micros := t.UnixMicro()
	if time.UnixMicro(micros).Before(t) {
		micros++
	}
	return micros
}

// matching yields the rows before a key that match, the newest first.
func (q *queries) matching(f *filter, before key) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		leaf, at := q.order.seek(before)
		for ; leaf >= 0 && leaf < len(q.order.leaves); leaf-- {
			rows := q.order.leaves[leaf]
			if at < 0 {
				at = len(rows)
			}
			for at = f.next(q.table, rows, at); at >= 0; at = f.next(q.table, rows, at) {
				if !yield(rows[at]) {
					return
				}
			}
			if q.order.keyOf(rows[0]).created < f.since {
				return
			}
		}
	}
}

// filter is a request in the numbers of a table.
type filter struct {
	states uint16 // all bits are set if every state matches
	// names has a verdict for each text: 0 unknown, 1 no, 2 yes. name is the number of a name without wildcards.
	names                            []uint8
	pattern                          string
	name, parent, session, requestor *uint32
	// pairs are the numbers of the labels. absent are the keys of labels that must be missing or empty.
	pairs  []uint32
	absent []string
	hidden uint8 // the flags of rows that do not match
	// since and changed are the earliest times, in microseconds.
	since, changed int64
}

// minTime is no restriction.
const minTime = -1 << 63

const (
	mismatch uint8 = 1 + iota
	match
)

// filterOf returns the filter for a request; false if no task matches it.
func (q *queries) filterOf(r api.ListRequest) (*filter, bool) {
	f := &filter{since: minTime, changed: minTime}
	if r.Name == "" && r.Parent == "" && !r.Dead {
		f.hidden = flagInternal
	}
	if !r.Since.IsZero() {
		f.since = microsFrom(r.Since)
	}
	if !r.ChangedSince.IsZero() {
		f.changed = microsFrom(r.ChangedSince)
	}
	for _, s := range r.States {
		f.states |= 1 << stateCode(s)
	}
	if len(r.States) == 0 {
		f.states = 1<<maxStates - 1
	}
	if r.Dead {
		f.states &= 1<<stateCode(statemachine.Failed) | 1<<stateCode(statemachine.Blocked)
	}
	ok := q.refer(&f.requestor, r.Requestor) && q.refer(&f.parent, idText(r.Parent)) && q.refer(&f.session, idText(r.Session))
	if ok && r.Name != "" && !strings.ContainsAny(r.Name, `*?[\`) {
		ok = q.refer(&f.name, r.Name)
	} else if ok && r.Name != "" {
		f.pattern, f.names = r.Name, q.verdicts(r.Name)
	}
	for k, v := range r.Labels {
		if v == "" {
			f.absent = append(f.absent, k)
			continue
		}
		n, known := q.texts.find(pairText(k, v))
		ok = ok && known
		f.pairs = append(f.pairs, n)
	}
	return f, ok
}

// refer sets a filter to the number of a text, unless the text is empty. It returns false if no row has the text.
func (q *queries) refer(to **uint32, text string) bool {
	if text == "" {
		return true
	}
	n, ok := q.texts.find(text)
	*to = &n
	return ok
}

// maxPatterns limits the patterns whose verdicts are remembered.
const maxPatterns = 16

// verdicts returns the verdicts about names for a pattern, with a place for each text.
func (q *queries) verdicts(pattern string) []uint8 {
	if len(q.verdictsOf) >= maxPatterns && q.verdictsOf[pattern] == nil {
		clear(q.verdictsOf)
	}
	v := q.verdictsOf[pattern]
	if missing := len(q.texts.ends) - len(v); missing > 0 {
		v = slices.Grow(v, missing)
		v = v[:len(q.texts.ends)]
	}
	q.verdictsOf[pattern] = v
	return v
}

// next returns the place of the last row before at that matches, or -1. It runs for every row of the index if few match, so it
// skips the rows of chunks that have none to match.
func (f *filter) next(t *table, rows []uint32, at int) int {
	for at > 0 {
		number := rows[at-1] >> chunkBits
		c := t.rows.chunks[number]
		if f.mayMatch(c) {
			if at = f.nextIn(t, c, rows, at, number); at > 0 && rows[at-1]>>chunkBits == number {
				return at - 1
			}
		}
		for at > 0 && rows[at-1]>>chunkBits == number {
			at--
		}
	}
	return -1
}

// mayMatch reports whether a chunk can have a row that matches.
func (f *filter) mayMatch(c *chunk) bool {
	return c.has(f.states) && (f.name == nil || c.name.fits(int64(*f.name))) && (f.requestor == nil || c.requestor.fits(int64(*f.requestor)))
}

// nextIn returns the place after the last row before at that matches, or after the last one that is not in the chunk with a number.
func (f *filter) nextIn(t *table, c *chunk, rows []uint32, at int, number uint32) int {
	states, hidden, names := f.states, f.hidden, f.names
	byName, byRequestor := f.name != nil, f.requestor != nil
	name, requestor := valueOf(f.name), valueOf(f.requestor)
	for ; at > 0 && rows[at-1]>>chunkBits == number; at-- {
		i := rows[at-1] & (chunkRows - 1)
		if byName && c.name.text(i) != name || byRequestor && c.requestor.text(i) != requestor || names != nil && names[c.name.text(i)] == mismatch {
			continue
		}
		if states>>(c.state[i]&(maxStates-1))&1 == 0 || c.flags[i]&hidden != 0 {
			continue
		}
		if f.matches(t, c, i) {
			break
		}
	}
	return at
}

func valueOf(n *uint32) uint32 {
	if n == nil {
		return 0
	}
	return *n
}

// matches reports whether a row matches that has passed the checks of next. The conditions that are cheap come first.
func (f *filter) matches(t *table, c *chunk, i uint32) bool {
	switch {
	case f.parent != nil && c.parent.text(i) != *f.parent,
		f.session != nil && c.session.text(i) != *f.session,
		f.since > minTime && c.createdAt(i) < f.since, f.changed > minTime && c.updatedAt(i) < f.changed:
		return false
	case f.names != nil && !f.matchesName(t, c.name.text(i)):
		return false
	case len(f.pairs)+len(f.absent) > 0:
		return f.matchesLabels(t, c.labels.text(i))
	}
	return true
}

func (f *filter) matchesName(t *table, name uint32) bool {
	if f.names[name] == 0 {
		f.names[name] = mismatch
		if ok, _ := path.Match(f.pattern, t.texts.text(name)); ok {
			f.names[name] = match
		}
	}
	return f.names[name] == match
}

func (f *filter) matchesLabels(t *table, labels uint32) bool {
	for _, pair := range f.pairs {
		if !t.texts.hasPair(labels, pair) {
			return false
		}
	}
	if len(f.absent) == 0 {
		return true
	}
	all := t.texts.labels(labels)
	return !slices.ContainsFunc(f.absent, func(k string) bool { return all[k] != "" })
}

func (q *queries) tree(id events.TaskID, limit, depth int) (page []api.Summary, omitted int) {
	row, ok := q.row(id)
	if !ok {
		return nil, 0
	}
	found := q.descendants(q.top(row, depth))
	for _, row := range found[:min(len(found), limit)] {
		page = append(page, q.line(row))
	}
	return page, len(found) - len(page)
}

// top returns the topmost known parent of a row.
func (q *queries) top(row uint32, depth int) uint32 {
	for range depth {
		c, i := q.rows.at(row)
		above, ok := q.row(taskOfText(q.texts.bytes(c.parent.text(i))))
		if !ok {
			return row
		}
		row = above
	}
	return row
}

// descendants returns a row and all rows below it in order. A child is usually later in the order than its parent; the scan is
// repeated as long as it finds others.
func (q *queries) descendants(root uint32) []uint32 {
	parents := make([]bool, len(q.texts.ends))
	in := map[uint32]bool{}
	add := func(row uint32) {
		in[row] = true
		if n, ok := q.texts.find(string(q.rows.idOf(row).bytes())); ok && n != 0 {
			parents[n] = true
		}
	}
	add(root)
	for before := 0; before < len(in); {
		before = len(in)
		for _, leaf := range q.order.leaves {
			for part := range inOneChunk(leaf) {
				c, _ := q.rows.at(part[0])
				if n, same := c.parent.same(); same && !parents[n] {
					continue
				}
				for _, row := range part {
					if parents[c.parent.text(row&(chunkRows-1))] && !in[row] {
						add(row)
					}
				}
			}
		}
	}
	found := make([]uint32, 0, len(in))
	for row := range in {
		found = append(found, row)
	}
	slices.SortFunc(found, func(a, b uint32) int {
		if q.order.keyOf(a).less(q.order.keyOf(b)) {
			return -1
		}
		return 1
	})
	return found
}

// inOneChunk divides rows into parts that are in one chunk each.
func inOneChunk(rows []uint32) iter.Seq[[]uint32] {
	return func(yield func([]uint32) bool) {
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && rows[n]>>chunkBits == rows[0]>>chunkBits {
				n++
			}
			if !yield(rows[:n]) {
				return
			}
			rows = rows[n:]
		}
	}
}

func (q *queries) find(prefix string) (id events.TaskID, count int) {
	low, high, ok := prefixRange(prefix)
	if !ok {
		return "", 0
	}
	for _, c := range q.rows.chunks {
		if one, n := c.idsIn(low, high); n > 0 {
			id = one.task()
			count += n
		}
	}
	return id, count
}

// prefixRange returns the first and the last id with a prefix.
func prefixRange(prefix string) (low, high rowID, ok bool) {
	digits, ok := strings.CutPrefix(prefix, events.TaskPrefix)
	if !ok || len(digits) > ulid.EncodedSize {
		return rowID{}, rowID{}, false
	}
	rest := ulid.EncodedSize - len(digits)
	last := strings.Repeat("Z", rest)
	if digits == "" {
		last = "7" + last[1:]
	}
	first, err := ulid.ParseStrict(digits + strings.Repeat("0", rest))
	final, err2 := ulid.ParseStrict(digits + last)
	if err != nil || err2 != nil {
		return rowID{}, rowID{}, false
	}
	return rowIDOf(first), rowIDOf(final), true
}

func (q *queries) last(requestor string) (events.TaskID, bool) {
	want, ok := q.texts.find(requestor)
	if !ok {
		return "", false
	}
	for row := range q.order.before(end()) {
		c, i := q.rows.at(row)
		if c.parent.text(i) != 0 || c.flags[i]&outOfQueue != 0 || want != 0 && c.requestor.text(i) != want {
			continue
		}
		if _, via := q.texts.split(c.origin.text(i)); want == 0 || via != "" {
			return c.id(i).task(), true
		}
	}
	return "", false
}

// head returns what the index has of the head of a task.
func (q *queries) head(row uint32) events.Head {
	c, i := q.rows.at(row)
	return events.Head{
		Task: c.id(i).task(), State: string(stateByCode[c.state[i]]), Parent: taskOfText(q.texts.bytes(c.parent.text(i))),
		Created: time.UnixMicro(c.createdAt(i)).UTC(), At: time.UnixMicro(c.updatedAt(i)).UTC(), Imported: c.flags[i]&flagImported != 0,
	}
}

// headsPart is how many rows Heads reads before it lets others use the index.
const headsPart = 4096

// heads returns the heads of the finished tasks among the next rows after a key that were changed last before limit, in
// microseconds, the key of the last of these rows, and whether there are more. Rows that were created at limit or later have
// changed later as well.
func (q *queries) heads(archived bool, after key, limit int64) (part []events.Head, last key, more bool) {
	seen := 0
	for row := range q.order.after(after) {
		c, i := q.rows.at(row)
		if c.createdAt(i) >= limit {
			return part, after, false
		}
		if c.ended(i) && (c.flags[i]&flagArchived != 0) == archived && c.updatedAt(i) < limit {
			part = append(part, q.head(row))
		}
		after = q.order.keyOf(row)
		if seen++; seen == headsPart {
			return part, after, true
		}
	}
	return part, after, false
}
