package orchestrator

import (
	"cmp"
	"sync/atomic"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// quota counts the open tasks, their steps and the waiting requests of a node. It is in memory only, and rebuilt from
// the open tasks after a restart.
type quota struct {
	// open counts all open tasks. each counts the open tasks of each share.
	open int
	each map[string]int
	// steps counts the steps of the open tasks in memory. stepsEach counts the steps of each share.
	steps     int
	stepsEach map[string]int
	// waiting counts the requests that wait for a change.
	waiting atomic.Int64
}

// count adds an open task. mu must be held.
func (q *quota) count(e *entry, sub *events.Submitted) {
	if e.counted {
		return
	}
	e.counted, e.share = true, e.task.Requestor
	if sub.Parent == nil { // a child task counts as part of its parent
		e.share = cmp.Or(sub.Share, e.share)
	}
	q.add(e.share)
}

// countSteps recounts the steps of an open task. Their number only grows. mu must be held.
func (q *quota) countSteps(e *entry) {
	if e.counted && e.task != nil {
		q.setSteps(e, len(e.task.Steps))
	}
}

func (q *quota) setSteps(e *entry, steps int) {
	added := steps - e.steps
	if added == 0 {
		return
	}
	e.steps = steps
	q.steps += added
	if q.stepsEach[e.share] += added; q.stepsEach[e.share] <= 0 {
		delete(q.stepsEach, e.share)
	}
}

// add counts an open task of a share. mu must be held.
func (q *quota) add(share string) {
	q.open++
	q.each[share]++
}

// uncount removes a task that has ended or is no longer in memory. mu must be held.
func (q *quota) uncount(e *entry) {
	if !e.counted {
		return
	}
	q.setSteps(e, 0)
	e.counted = false
	q.open--
	if q.each[e.share]--; q.each[e.share] <= 0 {
		delete(q.each, e.share)
	}
}

// checkQuota returns RATE_LIMITED if the node, or QUOTA_EXCEEDED if a share has reached a limit and can have no further task.
// mu must be held.
func (c *core) checkQuota(share string) error {
	switch {
	case c.quota.open >= c.cfg.Limits.MaxOpen:
		return fault.New(fault.RateLimited, "%d tasks are open on the node, its limit", c.cfg.Limits.MaxOpen).
			WithHint("submit again when some of them are over; the setting is max_open")
	case c.quota.each[share] >= c.cfg.Limits.MaxOpenEach:
		return fault.New(fault.QuotaExceeded, "%s, with the agents that it has registered, has %d open tasks, the limit of one requestor", decide.Clip(share), c.cfg.Limits.MaxOpenEach).
			WithHint("submit again when some of them are over; the setting is max_open_each")
	case c.quota.steps >= c.cfg.Limits.MaxOpenSteps:
		return fault.New(fault.RateLimited, "the open tasks of the node have %d steps, its limit is %d", c.quota.steps, c.cfg.Limits.MaxOpenSteps).
			WithHint("submit again when some of them are over")
	case c.quota.stepsEach[share] >= c.cfg.Limits.MaxOpenStepsEach:
		return fault.New(fault.QuotaExceeded, "the open tasks of %s, with the agents that it has registered, have %d steps, the limit of one requestor is %d", decide.Clip(share), c.quota.stepsEach[share], c.cfg.Limits.MaxOpenStepsEach).
			WithHint("submit again when some of them are over")
	default:
		return nil
	}
}

// waiting counts a request that waits for a change, until done is called. It returns RATE_LIMITED if too many requests wait.
func (c *core) waiting() (done func(), err error) {
	if c.quota.waiting.Add(1) > int64(c.cfg.Limits.MaxWaiting) {
		c.quota.waiting.Add(-1)
		return nil, fault.New(fault.RateLimited, "%d requests wait on the node, its limit", c.cfg.Limits.MaxWaiting).
			WithHint("look at the task now and then instead of waiting for it")
	}
	return func() { c.quota.waiting.Add(-1) }, nil
}
