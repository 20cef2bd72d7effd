package index

import (
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// queueFilter is a request for the queue in the numbers of a table.
type queueFilter struct {
	states uint16
	// priority is the only priority if single is set.
	priority int
	single   bool
	// kind is the label with the type of work; nil if every type matches.
	kind *uint32
	// except is a row that does not match.
	except *uint32
}

// queueFilterOf returns the filter for a request; false if no task matches it.
func (q *queries) queueFilterOf(r api.QueueRequest) (*queueFilter, bool) {
	f := &queueFilter{priority: work.Urgency(r.Priority), single: r.Priority != ""}
	for code, state := range stateByCode {
		view := statemachine.ViewOf(state, "")
		if view.Queue != "" && (r.Status == view.Queue || r.Status == "" && (r.IncludeAssigned || !view.Assigned)) {
			f.states |= 1 << code
		}
	}
	if row, ok := q.row(r.Except); ok {
		f.except = &row
	}
	ok := true
	if r.Type != "" {
		ok = q.refer(&f.kind, pairText(api.TypeLabel, r.Type))
	}
	return f, ok
}

func (f *queueFilter) matches(t *table, row uint32) bool {
	c, i := t.rows.at(row)
	switch {
	case f.states>>c.state[i]&1 == 0, c.flags[i]&outOfQueue != 0, f.except != nil && *f.except == row:
		return false
	}
	return f.kind == nil || t.texts.hasPair(c.labels.text(i), *f.kind)
}

func (q *queries) queue(r api.QueueRequest, after *api.Summary, limit int) []api.Summary {
	f, ok := q.queueFilterOf(r)
	if !ok {
		return nil
	}
	var page []api.Summary
	for priority := range q.open {
		start := key{created: -1 << 63}
		if after != nil && work.Urgency(after.Priority) == priority {
			start.created = after.CreatedAt.UnixMicro()
			start.id, _ = parseID(after.ID)
		}
		if f.single && priority != f.priority || after != nil && priority < work.Urgency(after.Priority) {
			continue
		}
		for row := range q.open[priority].after(start) {
			if !f.matches(q.table, row) {
				continue
			}
			if page = append(page, q.line(row)); len(page) == limit {
				return page
			}
		}
	}
	return page
}

// queueStats counts the open tasks, except those of orch itself and one task.
func (q *queries) queueStats(r api.QueueRequest, now time.Time) api.QueueStats {
	counts, since := [maxStates]int{}, q.since
	for code := range counts {
		counts[code] = q.states[code] - q.own[code]
	}
	f, _ := q.queueFilterOf(api.QueueRequest{Except: r.Except, IncludeAssigned: true})
	if f.except != nil {
		c, i := q.rows.at(*f.except)
		if c.flags[i]&outOfQueue == 0 {
			counts[c.state[i]]--
		}
		if c.flags[i]&outOfQueue == 0 && queueStatuses[c.state[i]] == api.QueuePending {
			since -= uint64(c.createdAt(i)) //nolint:gosec // modulo 2^64
		}
	}
	var s api.QueueStats
	for code, n := range counts {
		addToStats(&s, queueStatuses[code], n)
	}
	if s.Pending > 0 { // the sum of the waiting times does not overflow, although the sums of the times may
		waits := int64(uint64(s.Pending)*uint64(now.UnixMicro()) - since) //nolint:gosec // as above
		s.Wait = max(time.Duration(waits)*time.Microsecond/time.Duration(s.Pending), 0)
	}
	s.Oldest = q.oldest(f)
	return s
}

func addToStats(s *api.QueueStats, status string, n int) {
	switch status {
	case api.QueuePending:
		s.Pending += n
	case api.QueueAssigned:
		s.Assigned += n
	case api.QueueInProgress:
		s.InProgress += n
	case api.QueueBlocked:
		s.Blocked += n
	default:
		return
	}
	s.Total += n
}

// oldest returns when the oldest task that matches was created.
func (q *queries) oldest(f *queueFilter) *time.Time {
	var oldest *time.Time
	for priority := range q.open {
		for row := range q.open[priority].after(key{created: -1 << 63}) {
			if !f.matches(q.table, row) {
				continue
			}
			c, i := q.rows.at(row)
			if at := time.UnixMicro(c.createdAt(i)).UTC(); oldest == nil || at.Before(*oldest) {
				oldest = &at
			}
			break
		}
	}
	return oldest
}

// openPart returns the next open tasks of a priority after a key, the key of the last row that it has seen, and whether there are more.
func (q *queries) openPart(priority int, after key) (rows []uint32, last key, more bool) {
	seen := 0
	for row := range q.open[priority].after(after) {
		if c, i := q.rows.at(row); c.flags[i]&flagImported == 0 {
			rows = append(rows, row)
		}
		after = q.order.keyOf(row)
		if seen++; seen == headsPart {
			return rows, after, true
		}
	}
	return rows, after, false
}
