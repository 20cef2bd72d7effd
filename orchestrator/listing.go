package orchestrator

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// List implements api.Tasks.
func (rd *reader) List(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	if err := checkList(&r); err != nil {
		return api.ListReply{}, err
	}
	if err := rd.serving(); err != nil {
		return api.ListReply{}, err
	}
	if r.Stuck {
		return rd.page(ctx, r, deadLetter{rd}.stuck())
	}
	if lists := rd.indexedLists(); lists != nil {
		return rd.listIndexed(ctx, lists, r)
	}
	return rd.listHeads(ctx, r)
}

// listIndexed answers from the index of lists.
func (rd *reader) listIndexed(ctx context.Context, lists Lists, r api.ListRequest) (api.ListReply, error) {
	after, err := lastOfPageBefore(r.Cursor)
	if err != nil {
		return api.ListReply{}, err
	}
	reply, more := api.ListReply{}, false
	switch {
	case r.Tree != "" && r.Dead:
		all := api.ListRequest{Dead: true, Limit: math.MaxInt}
		dead, _ := lists.List(all, nil, deadLetter{rd}.has)
		dead, _ = rd.withUnreadable(lists, all, nil, dead, false)
		return rd.tree(ctx, r, dead)
	case r.Tree != "":
		reply.Tasks, reply.Omitted = lists.Tree(r.Tree, r.Limit, maxParents)
	default:
		reply.Tasks, more = lists.List(r, after, deadLetter{rd}.has)
		reply.Tasks, more = rd.withUnreadable(lists, r, after, reply.Tasks, more)
	}
	if more {
		reply.Next = cursorAfter(reply.Tasks[len(reply.Tasks)-1])
	}
	if reply.Tasks == nil {
		reply.Tasks = []api.Summary{}
	}
	rd.addReasons(ctx, reply.Tasks)
	return reply, nil
}

// listHeads answers from the lines of the open tasks and those in memory. It reads the log's index only if a task that was evicted from memory may belong to
// the page.
func (rd *reader) listHeads(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	lines, forgotten, err := rd.remembered()
	if err != nil {
		return api.ListReply{}, err
	}
	reply, err := rd.page(ctx, r, lines)
	if err != nil || forgotten.IsZero() || openOnly(r) || fullAfter(reply, forgotten) {
		return reply, err
	}
	if lines, err = rd.addForgotten(ctx, lines); err != nil {
		return api.ListReply{}, err
	}
	return rd.page(ctx, r, lines)
}

// openOnly reports whether a request selects open tasks only. The index of lists has all of them.
func openOnly(r api.ListRequest) bool {
	return len(r.States) > 0 && !slices.ContainsFunc(r.States, statemachine.State.Terminal)
}

// fullAfter reports whether a page is full with tasks that were submitted after a time.
func fullAfter(r api.ListReply, t time.Time) bool {
	return r.Next != "" && r.Tasks[len(r.Tasks)-1].CreatedAt.After(t)
}

// lines returns the lines in memory and in the log's index, in no particular order.
func (rd *reader) lines(ctx context.Context) ([]api.Summary, error) {
	lines, forgotten, err := rd.remembered()
	if err != nil || forgotten.IsZero() {
		return lines, err
	}
	return rd.addForgotten(ctx, lines)
}

// remembered returns the lines of the open tasks and those of the finished tasks in memory, and listing.forgottenUntil. It reads the
// open ones first, so that it misses no task that ends meanwhile.
func (rd *reader) remembered() ([]api.Summary, time.Time, error) {
	if err := rd.serving(); err != nil {
		return nil, time.Time{}, err
	}
	open := slices.Collect(rd.cfg.Lists.OpenLines())
	rd.lock()
	lines, forgotten := rd.engine.listed.finished(), rd.engine.listed.forgottenUntil
	rd.unlock()
	ended := make(map[events.TaskID]bool, len(lines))
	for i := range lines {
		ended[lines[i].ID] = true
	}
	lines = slices.Grow(lines, len(open))
	for i := range open {
		if !ended[open[i].ID] {
			lines = append(lines, open[i])
		}
	}
	return rd.markUnreadable(lines), forgotten, nil
}

// markUnreadable marks the lines of tasks whose histories cannot be read, and adds the missing lines of such tasks.
func (rd *reader) markUnreadable(lines []api.Summary) []api.Summary {
	unreadable := rd.unreadable()
	if len(unreadable) == 0 {
		return lines
	}
	for i := range lines {
		if u, ok := unreadable[lines[i].ID]; ok {
			lines[i].Unreadable, lines[i].Reason = u.Unreadable, u.Reason
			delete(unreadable, lines[i].ID)
		}
	}
	return slices.AppendSeq(lines, maps.Values(unreadable))
}

// checkList validates a request and fills in the defaults.
func checkList(r *api.ListRequest) error {
	if r.Limit == 0 {
		r.Limit = 50
	}
	if r.Limit < 1 || r.Limit > 1000 {
		return fault.New(fault.ValidationError, "must be 1 to 1000").WithField("limit")
	}
	if r.Stuck && (r.Dead || r.Tree != "") {
		return fault.New(fault.ValidationError, "does not go with a tree or the dead letter").WithField("stuck")
	}
	if r.Tree != "" && r.Cursor != "" {
		return fault.New(fault.ValidationError, "does not go with a tree, which has one page").WithField("cursor")
	}
	if _, err := path.Match(r.Name, ""); err != nil {
		return fault.New(fault.InvalidFormat, "is not a valid pattern").WithField("name")
	}
	for _, s := range r.States {
		if !slices.Contains(statemachine.States(), s) {
			return fault.New(fault.ValidationError, "there is no state %q", decide.Clip(string(s))).WithField("state").
				WithHint("states are %v", statemachine.States())
		}
	}
	_, err := lastOfPageBefore(r.Cursor)
	return err
}

// cursorAfter returns the cursor for the page after a line.
func cursorAfter(s api.Summary) string {
	return strconv.FormatInt(s.CreatedAt.UnixMicro(), 36) + "." + string(s.ID)
}

// lastOfPageBefore returns the line of a cursor: the last line of the previous page. It returns nil for the first page.
func lastOfPageBefore(cursor string) (*api.Summary, error) {
	if cursor == "" {
		return nil, nil //nolint:nilnil // nil means the first page
	}
	at, id, _ := strings.Cut(cursor, ".")
	micros, err := strconv.ParseInt(at, 36, 64)
	if err == nil {
		_, err = events.ParseTaskID(id)
	}
	if err != nil {
		return nil, fault.New(fault.InvalidFormat, "is not a cursor of a list").WithField("cursor")
	}
	return &api.Summary{ID: events.TaskID(id), CreatedAt: time.UnixMicro(micros)}, nil
}

// newestFirst compares lines: the newest task comes first.
func newestFirst(a, b api.Summary) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
}

// addForgotten adds the finished tasks that are not in memory, from the log's index. The archived tasks are read last, so that
// a task that is archived meanwhile is not missed.
func (rd *reader) addForgotten(ctx context.Context, lines []api.Summary) ([]api.Summary, error) {
	known := make(map[events.TaskID]bool, len(lines))
	for _, line := range lines {
		known[line.ID] = true
	}
	for i, heads := range []iter.Seq2[events.Head, error]{rd.cfg.Log.Heads(ctx), rd.cfg.Log.ArchivedHeads(ctx)} {
		for h, err := range heads {
			if err != nil {
				return nil, err
			}
			if known[h.Task] {
				continue
			}
			known[h.Task] = true
			line := lineOf(h)
			line.Archived = i == 1 // the second sequence
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// page sorts, filters and truncates lines. A line from the log's index is completed from the task's history.
func (rd *reader) page(ctx context.Context, r api.ListRequest, lines []api.Summary) (api.ListReply, error) {
	if r.Dead {
		lines = deadLetter{rd}.of(lines)
	}
	if r.Tree != "" {
		return rd.tree(ctx, r, lines)
	}
	slices.SortFunc(lines, newestFirst)
	after, err := lastOfPageBefore(r.Cursor)
	if err != nil {
		return api.ListReply{}, err
	}
	reply := api.ListReply{Tasks: []api.Summary{}}
	for _, line := range lines {
		if after != nil && newestFirst(line, *after) <= 0 || !matchesLine(r, line) {
			continue
		}
		if line.Priority == "" && line.Unreadable == "" {
			line, err = rd.complete(line, rd.cfg.Log.Read(ctx, line.ID, 1))
			if absent(err) {
				continue // it was removed meanwhile
			}
			if err != nil && !unreadableHistory(err) { // a damaged task is listed as well
				return api.ListReply{}, err
			}
		}
		if !matchesComplete(r, line) {
			continue
		}
		if len(reply.Tasks) == r.Limit {
			reply.Next = cursorAfter(reply.Tasks[r.Limit-1])
			break
		}
		reply.Tasks = append(reply.Tasks, line)
	}
	rd.addReasons(ctx, reply.Tasks)
	return reply, nil
}

// addReasons adds the reasons why the open tasks of a page wait, and the times of their newest commits.
func (rd *reader) addReasons(ctx context.Context, page []api.Summary) {
	ids := make([]events.TaskID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	rd.loadSleepers(ctx, ids)
	rd.lock()
	defer rd.unlock()
	for i := range page {
		line := &page[i]
		e := rd.engine.tasks[line.ID]
		if e == nil || line.State.Terminal() {
			continue
		}
		if e.open && !e.changedAt.IsZero() {
			line.UpdatedAt = e.changedAt
		}
		if line.Reason == "" {
			line.Reason = rd.waitsFor(e)
		}
	}
}

// isInternalName reports whether a task with this name is internal (see api.OwnPrefix).
func isInternalName(name string) bool { return strings.HasPrefix(name, api.OwnPrefix) }

// matchesLine reports whether a line matches a request, judged by the fields that every line contains.
func matchesLine(r api.ListRequest, s api.Summary) bool {
	if len(r.States) > 0 && !slices.Contains(r.States, s.State) {
		return false
	}
	if r.Parent != "" && r.Parent != s.Parent {
		return false
	}
	if r.Name != "" {
		ok, _ := path.Match(r.Name, s.Name)
		return ok
	}
	return r.Parent != "" || r.Dead || !isInternalName(s.Name)
}

// matchesComplete reports whether a line matches a request, judged by the fields that only a complete line contains.
func matchesComplete(r api.ListRequest, s api.Summary) bool {
	for k, v := range r.Labels {
		if s.Labels[k] != v {
			return false
		}
	}
	if r.Requestor != "" && r.Requestor != s.Requestor {
		return false
	}
	if r.Session != "" && r.Session != s.Session {
		return false
	}
	if s.UpdatedAt.Before(r.ChangedSince) {
		return false
	}
	return (r.Since.IsZero() || !s.CreatedAt.Before(r.Since)) && (r.Until.IsZero() || s.CreatedAt.Before(r.Until))
}

// complete completes a line from the history of the task, and stores it. A DONE task has no Reason field, so its first commit is
// enough.
func (rd *reader) complete(line api.Summary, history iter.Seq2[events.Stored, error]) (api.Summary, error) {
	found := false
	for stored, err := range history {
		if err != nil {
			return line, err
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return line, err
		}
		found = true
		copyFromCommit(&line, c)
		if line.State == statemachine.Done {
			line.Reason, line.Block = "", "" // the first commit may have one, such as an approval that it asks for
			break
		}
	}
	if !found {
		return line, noTask(line.ID)
	}
	rd.lock()
	defer rd.unlock()
	if known := rd.engine.listed.lines[line.ID]; known != nil && known.Priority == "" {
		copyOrigin(known, line)
		known.Reason = line.Reason
	}
	return line, nil
}

// copyFromCommit copies from a commit the fields that the log's index does not contain.
func copyFromCommit(s *api.Summary, c *events.Commit) {
	for _, e := range c.Events {
		if sub, ok := e.Data.(*events.Submitted); ok {
			s.Labels, s.Priority, s.Requestor, s.Via, s.Session = sub.Labels, sub.Priority, c.Actor, sub.Via, sub.Session
		}
		if moved, ok := e.Data.(*events.Moved); ok && statemachine.IsTransition(e.Kind) {
			s.Reason, s.Block = moved.Reason, moved.Block
		}
		if _, ok := e.Data.(*events.Paused); ok {
			s.Paused = e.Kind == events.TaskPaused
		}
	}
}
