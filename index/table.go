package index

import (
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// table holds the summaries of tasks, in the orders in which they are listed.
type table struct {
	rows  *rows
	texts texts
	// Consecutive tasks often have the same texts.
	names, requestors, origins, reasons latestText
	// order lists all rows by creation, open the rows of open tasks by priority and creation.
	order order
	open  [work.Priorities]order
	// states counts the rows by the code of their state, own those of the tasks of orch itself.
	states, own [maxStates]int
	// imported counts the imported tasks that were open when they were exported, archived the finished tasks that are archived.
	imported, archived int
	// since is the sum of the creation times of the tasks that the queue counts as pending. It may overflow; see queueStats.
	since uint64
}

func newTable() *table {
	t := &table{rows: newRows(), texts: newTexts()}
	t.order.rows = t.rows
	for i := range t.open {
		t.open[i].rows = t.rows
	}
	return t
}

// row returns the row of a task.
func (t *table) row(id events.TaskID) (uint32, bool) {
	n, ok := parseID(id)
	if !ok {
		return 0, false
	}
	return t.rows.find(n)
}

// put sets the summary of a task, and returns its row; false if the id is not in canonical form.
func (t *table) put(line *api.Summary) (uint32, bool) {
	id, ok := parseID(line.ID)
	if !ok {
		return 0, false
	}
	row, known := t.rows.find(id)
	if !known {
		row = t.rows.add(id)
		t.setOrigin(row, line)
		t.insert(row)
	}
	c, i := t.rows.at(row)
	t.setState(row, stateCode(line.State))
	c.setUpdated(i, line.UpdatedAt.UnixMicro())
	c.setText(&c.why, i, t.reasons.joined(&t.texts, line.Block, line.Reason))
	c.flags[i] &^= flagPaused
	if line.Paused {
		c.flags[i] |= flagPaused
	}
	if line.Archived {
		t.markArchived(row)
	}
	return row, true
}

// markArchived marks a row as archived; false if it was marked before.
func (t *table) markArchived(row uint32) bool {
	c, i := t.rows.at(row)
	if c.flags[i]&flagArchived != 0 {
		return false
	}
	t.count(row, -1)
	c.flags[i] |= flagArchived
	t.count(row, 1)
	return true
}

// setOrigin sets the columns that never change.
func (t *table) setOrigin(row uint32, line *api.Summary) {
	c, i := t.rows.at(row)
	c.setCreated(i, line.CreatedAt.UnixMicro())
	c.setText(&c.name, i, t.names.number(&t.texts, line.Name))
	c.setText(&c.requestor, i, t.requestors.number(&t.texts, line.Requestor))
	c.setText(&c.labels, i, t.texts.labelSet(line.Labels))
	c.setText(&c.parent, i, t.texts.idNumber(line.Parent))
	c.setText(&c.session, i, t.texts.idNumber(line.Session))
	c.setText(&c.origin, i, t.origins.joined(&t.texts, line.Priority, line.Via))
	c.flags[i] = 0
	if strings.HasPrefix(line.Name, api.OwnPrefix) {
		c.flags[i] = flagInternal
	}
	if line.Imported {
		c.flags[i] |= flagImported
	}
}

// insert adds a new row, whose columns are set except its state.
func (t *table) insert(row uint32) {
	t.order.insert(row)
	t.count(row, 1)
}

// count counts a row in its state, or no longer if by is -1.
func (t *table) count(row uint32, by int) {
	c, i := t.rows.at(row)
	state, outside := c.state[i], c.flags[i]&outOfQueue != 0
	t.states[state] += by
	c.states[state] += int32(by) //nolint:gosec // 1 or -1
	if queueStatuses[state] != "" && c.flags[i]&flagImported != 0 {
		t.imported += by
	}
	if isFinished(state) && c.flags[i]&flagArchived != 0 {
		t.archived += by
	}
	switch {
	case outside:
		t.own[state] += by
	case queueStatuses[state] == api.QueuePending:
		t.since += uint64(by) * uint64(c.createdAt(i)) //nolint:gosec // modulo 2^64
	}
}

func (t *table) setState(row uint32, state uint8) {
	c, i := t.rows.at(row)
	old := c.state[i]
	if old == state {
		return
	}
	t.count(row, -1)
	c.state[i] = state
	t.count(row, 1)
	switch was, is := queueStatuses[old] != "", queueStatuses[state] != ""; {
	case is && !was:
		t.openOrder(row).insert(row)
	case was && !is:
		t.openOrder(row).remove(row)
	}
}

// openOrder returns the order of the open tasks with the priority of a row.
func (t *table) openOrder(row uint32) *order {
	c, i := t.rows.at(row)
	priority, _ := t.texts.split(c.origin.text(i))
	return &t.open[work.Urgency(priority)]
}

func (t *table) remove(row uint32) {
	t.order.remove(row)
	t.setState(row, 0)
	t.count(row, -1)
	t.rows.remove(row)
}

// line returns the summary in a row.
func (t *table) line(row uint32) api.Summary {
	c, i := t.rows.at(row)
	block, reason := t.texts.split(c.why.text(i))
	priority, via := t.texts.split(c.origin.text(i))
	return api.Summary{
		ID: c.id(i).task(), Name: t.texts.text(c.name.text(i)), State: stateByCode[c.state[i]], Block: block, Reason: reason,
		Paused: c.flags[i]&flagPaused != 0, Archived: c.flags[i]&flagArchived != 0, Imported: c.flags[i]&flagImported != 0, Priority: priority, Via: via,
		Labels: t.texts.labels(c.labels.text(i)), Requestor: t.texts.text(c.requestor.text(i)),
		Parent: taskOfText(t.texts.bytes(c.parent.text(i))), Session: taskOfText(t.texts.bytes(c.session.text(i))),
		CreatedAt: time.UnixMicro(c.createdAt(i)).UTC(), UpdatedAt: time.UnixMicro(c.updatedAt(i)).UTC(),
	}
}

// stateByCode holds the states by their codes in rows. 0 is no state.
var stateByCode = append([]statemachine.State{""}, statemachine.States()...)

// queueStatuses holds the status in the queue by the code of a state; "" for tasks that are not open.
var queueStatuses = func() (statuses [maxStates]string) {
	for code, state := range stateByCode {
		statuses[code] = statemachine.ViewOf(state, "").Queue
	}
	return statuses
}()

// stateCode returns the code of a state, 0 for an unknown one.
func stateCode(s statemachine.State) uint8 {
	return uint8(max(slices.Index(stateByCode, s), 0)) //nolint:gosec // there are ten states
}

func isFinished(code uint8) bool { return stateByCode[code].Terminal() }

// finished counts the finished tasks.
func (t *table) finished() (n int) {
	for code, state := range stateByCode {
		if state.Terminal() {
			n += t.states[code]
		}
	}
	return n
}
