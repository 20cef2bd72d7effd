package index

// journal collects the changes of a table that are not in the file.
type journal struct {
	// on is set if there is a file, loading until it has been read.
	on, loading bool
	unsaved     []unsavedRow
	marks       []mark
	// archived holds tasks that were archived while the file, which may contain them, was being read.
	archived map[rowID]bool
}

// unsavedRow is a finished task whose row, after the commit at a position, is not in the file.
type unsavedRow struct {
	id  rowID
	seq uint64
}

// mark is a change of a task in the file.
type mark struct {
	kind byte
	id   rowID
}

// changed records that a commit at a position has changed a row.
func (j *journal) changed(t *table, row uint32, seq uint64) {
	if !j.on {
		return
	}
	c, i := t.rows.at(row)
	if j.loading {
		c.flags[i] |= flagNewer
	}
	if c.ended(i) {
		c.flags[i] |= flagUnsaved
		j.unsaved = append(j.unsaved, unsavedRow{c.id(i), seq})
	}
}

// markArchived marks the row of a task as archived.
func (j *journal) markArchived(t *table, id rowID) {
	row, ok := t.rows.find(id)
	if !ok {
		if j.loading {
			j.archived[id] = true
		}
		return
	}
	if t.markArchived(row) && j.on {
		j.marks = append(j.marks, mark{recordArchived, id})
	}
}

// loaded records that the file has been read.
func (j *journal) loaded(t *table) {
	j.loading = false
	for id := range j.archived {
		j.markArchived(t, id)
	}
	j.archived = nil
}

// take removes and returns the rows and marks that may be written when the file includes all commits up to a position.
func (j *journal) take(live uint64) ([]unsavedRow, []mark) {
	var now, later []unsavedRow
	for _, u := range j.unsaved {
		if u.seq > live {
			later = append(later, u)
		} else {
			now = append(now, u)
		}
	}
	marks := j.marks
	j.unsaved, j.marks = later, nil
	return now, marks
}

// encode encodes rows that take has returned, except those that have changed since and will be taken later.
func (j *journal) encode(e *encoder, rows []unsavedRow) {
	changed := map[rowID]bool{}
	for _, u := range j.unsaved {
		changed[u.id] = true
	}
	for _, u := range rows {
		row, ok := e.table.rows.find(u.id)
		if !ok || changed[u.id] {
			continue
		}
		if c, i := e.table.rows.at(row); c.flags[i]&flagUnsaved != 0 {
			e.task(row)
		}
	}
}
