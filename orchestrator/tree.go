package orchestrator

import (
	"context"
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// tree returns a page with the tasks in the tree of r.Tree. If there are more than r.Limit, it returns the oldest ones, so that
// no task is listed without its ancestors.
func (rd *reader) tree(ctx context.Context, r api.ListRequest, lines []api.Summary) (api.ListReply, error) {
	lines = linesInTree(r.Tree, lines)
	slices.SortFunc(lines, func(a, b api.Summary) int { return newestFirst(b, a) })
	reply := api.ListReply{Tasks: []api.Summary{}, Omitted: max(len(lines)-r.Limit, 0)}
	for _, line := range lines[:len(lines)-reply.Omitted] {
		if line.Priority == "" && line.Unreadable == "" {
			var err error
			if line, err = rd.complete(line, rd.cfg.Log.Read(ctx, line.ID, 1)); err != nil && !absent(err) && !unreadableHistory(err) {
				return api.ListReply{}, err
			}
		}
		reply.Tasks = append(reply.Tasks, line)
	}
	rd.addReasons(ctx, reply.Tasks)
	return reply, nil
}

// linesInTree returns the lines of the tasks that have the same topmost parent as id.
func linesInTree(id events.TaskID, lines []api.Summary) []api.Summary {
	parents := make(map[events.TaskID]events.TaskID, len(lines))
	for _, line := range lines {
		parents[line.ID] = line.Parent
	}
	if _, known := parents[id]; !known {
		return nil
	}
	top := func(id events.TaskID) events.TaskID {
		for range maxParents {
			above := parents[id]
			if _, known := parents[above]; above == "" || !known {
				return id
			}
			id = above
		}
		return id
	}
	root := top(id)
	return slices.DeleteFunc(lines, func(line api.Summary) bool { return top(line.ID) != root })
}
