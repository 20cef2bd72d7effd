package orchestrator

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/retention"
)

const (
	// maxReported limits the tasks that a report about retention names.
	maxReported = 1000
	// measured is how many histories of a rule are read to tell the size of all. measureTime is how long that may take.
	measured    = 100
	measureTime = 5 * time.Second
)

// Retention implements api.Tasks. It reads no histories except those of a sample, to estimate their size.
func (ar *archiver) Retention(ctx context.Context, r api.RetentionRequest) (api.RetentionReply, error) {
	if err := ar.serving(); err != nil {
		return api.RetentionReply{}, err
	}
	if r.Tasks < 0 || r.Tasks > maxReported {
		return api.RetentionReply{}, fault.New(fault.ValidationError, "must be 0 to %d", maxReported).WithField("tasks")
	}
	due, counts, err := ar.dueTasks(ctx)
	if err != nil {
		return api.RetentionReply{}, err
	}
	times := ar.cfg.Limits.Retention.times()
	reply := api.RetentionReply{At: ar.now(), Rules: make([]api.RetentionRule, len(times.Rules)+1), Tasks: []api.RetentionTask{}, Held: counts.held, WithFamily: counts.withFamily}
	byRule := map[int32][]events.TaskID{}
	for _, t := range due {
		byRule[t.rule] = append(byRule[t.rule], t.id)
	}
	for i := range reply.Rules {
		n := (i + 1) % len(reply.Rules)
		reply.Rules[i] = describeRule(times, n)
		if err := ar.measure(ctx, &reply.Rules[i], byRule[int32(n)]); err != nil { //nolint:gosec // at most retention.MaxRules
			return api.RetentionReply{}, err
		}
	}
	for _, t := range due[:min(len(due), r.Tasks)] {
		line := api.RetentionTask{ID: t.id, At: time.UnixMicro(t.at).UTC(), Rule: int(t.rule)}
		if known, ok := ar.reader.relatives.knownLine(t.id); ok {
			line.Name, line.State = known.Name, known.State
		} else if task, _, err := ar.engine.fold(ctx, t.id); err == nil {
			line.Name, line.State = task.Submitted.Name, task.State
		}
		reply.Tasks = append(reply.Tasks, line)
	}
	return reply, nil
}

// describeRule returns a rule by its number; 0 is for the tasks that no rule matches.
func describeRule(times retention.Rules, n int) api.RetentionRule {
	view, rule := api.RetentionRule{Rule: n, Where: "all others"}, retention.Rule{}
	switch {
	case n > 0:
		rule = times.Rules[n-1]
		view.Where = rule.String()
	case len(times.Rules) == 0:
		view.Where = rule.String()
	}
	keep := rule.Keep(times.Default)
	view.Done, view.Failed, view.Workspaces, view.FailedWorkspaces = keep.Done, keep.Failed, keep.Workspaces, keep.FailedWorkspaces
	return view
}

// measure sets the size of the histories of tasks. If there are many, it reads some of them and estimates the rest.
func (ar *archiver) measure(ctx context.Context, view *api.RetentionRule, ids []events.TaskID) error {
	view.DueTasks = len(ids)
	until := time.Now().Add(measureTime)
	read, bytes := 0, int64(0)
	for _, i := range rand.Perm(len(ids)) { //nolint:gosec // a sample
		if read == measured || read > 0 && time.Now().After(until) {
			break
		}
		for stored, err := range ar.cfg.Log.Read(ctx, ids[i], 1) {
			if absent(err) || unreadableHistory(err) {
				break
			}
			if err != nil {
				return err
			}
			bytes += int64(len(stored.Data))
		}
		read++
	}
	view.DueBytes = bytes
	if read < len(ids) {
		view.DueBytes, view.Estimated = bytes/int64(read)*int64(len(ids)), true
	}
	return nil
}

// Retained says for tasks by which times they are retained, the number of the rule, and whether a hold keeps them. Unknown tasks have the
// times of the node.
func (ar *archiver) Retained(ctx context.Context, id events.TaskID) (keep retention.Keep, rule int, held bool, err error) {
	times := ar.cfg.Limits.Retention.times()
	keep = times.Default
	if len(times.Rules) > 0 {
		line, err := ar.lineFor(ctx, id)
		switch {
		case absent(err):
		case unreadableHistory(err):
			return retention.Keep{}, 0, false, nil // a rule may keep it
		case err != nil:
			return keep, 0, false, err
		default:
			keep, rule = times.For(line.Name, line.Labels)
		}
	}
	if ar.cfg.Holds.Count() > 0 {
		family, err := ar.reader.relatives.familyOf(ctx, id)
		if err != nil && !absent(err) {
			return keep, rule, false, err
		}
		held = err == nil && ar.cfg.Holds.Held(family)
	}
	return keep, rule, held, nil
}
