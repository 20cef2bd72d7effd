package sim_test

import (
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// hasLimits reports whether the calls of the script have limits, which one seed in five has.
func (w *world) hasLimits() bool { return w.script.Seed%5 == 0 }

// The calls that run at the same time: all of them, and those of one key.
const (
	maxRunning = 3
	maxOfKey   = 1
)

// callLimits returns the limits of calls.
func (w *world) callLimits() []dispatch.Limit {
	if !w.hasLimits() {
		return nil
	}
	return []dispatch.Limit{
		{Running: maxRunning},
		{Running: maxOfKey, Key: "k*", By: dispatch.ByKey},
		{Starts: 4, Window: 2 * time.Second, By: dispatch.ByIdentity},
		{Starts: 3, Window: 2 * time.Second, By: dispatch.ByKey},
	}
}

// withKey gives a plan a limit key, or none. Its sub-plans have keys of their own, which count only if it has none.
func (w *world) withKey(text string, n int) string {
	if !w.hasLimits() {
		return text
	}
	text = strings.ReplaceAll(text, "run: {orch: v1, ", "run: {orch: v1, limits: {key: ksub}, ")
	key := []string{"", "ka", "kb", "other"}[n%4]
	switch {
	case key == "":
		return text
	case strings.Contains(text, "\nlimits: {"):
		return strings.Replace(text, "\nlimits: {", "\nlimits: {key: "+key+", ", 1)
	default:
		return strings.Replace(text, "orch: v1\n", "orch: v1\nlimits: {key: "+key+"}\n", 1)
	}
}

// checkLimitKeys checks that a task has the limit key of its parent or of its original, if that has one.
func (w *world) checkLimitKeys(past []*history) {
	keys := map[events.TaskID]string{}
	for _, h := range past {
		keys[h.id] = h.task.Submitted.LimitKey
	}
	for _, h := range past {
		above := h.task.Submitted.RetryOf
		if parent := h.task.Submitted.Parent; parent != nil {
			above = parent.Task
		}
		if key := keys[above]; key != "" && key != keys[h.id] {
			w.fail("the limit key of %s is %q, and that of %s above it %q", h.id, keys[h.id], above, key)
		}
	}
}

// checkTaken checks that calls that a worker was just given exceed no limit, together with those that run according to the log and that
// no worker has ended. The latter may exceed one: an owner that starts learns of calls from before by the heartbeats of their workers.
// Two concurrent owners do not know each other's calls, and no owner knows a late commit of a dead one.
func (w *world) checkTaken(taken []*work.Call) {
	if !w.hasLimits() || len(taken) == 0 || w.overlapped || w.strayed {
		return
	}
	running, given := map[string]int{}, map[string]bool{}
	count := func(id events.TaskID, isNew bool) {
		of := []string{"all"}
		if key := w.history(id).task.Submitted.LimitKey; strings.HasPrefix(key, "k") {
			of = append(of, "key "+key)
		}
		for _, limit := range of {
			running[limit]++
			given[limit] = given[limit] || isNew
		}
	}
	isNew := map[work.Ref]bool{}
	for _, c := range taken {
		isNew[c.Ref] = true
		count(c.Task, true)
	}
	for _, h := range w.workers {
		for _, j := range h.jobs {
			if !isNew[j.Ref] && j.outcome == nil && w.runs(j) {
				count(j.Task, false)
			}
		}
	}
	for of, n := range running {
		if limit := map[bool]int{true: maxRunning, false: maxOfKey}[of == "all"]; n > limit && given[of] {
			w.fail("%d calls of %s run at the same time, and %d may", n, of, limit)
		}
	}
}

// runs reports whether a call runs according to the log, and nothing about its task is on its way there.
func (w *world) runs(j *job) bool {
	if w.owner != nil && slices.ContainsFunc(w.owner.link.waiting(), func(o *op) bool { return o.task == j.Task }) {
		return false
	}
	s := w.history(j.Task).task.Steps[j.Step]
	return s != nil && s.Executing() && s.Attempt == j.Attempt && s.Worker == j.worker.name
}
