package orchestrator

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
)

// people knows which open tasks wait for people, so that nobody has to look at all tasks. mu guards it.
type people struct {
	// approvals are the tasks with a pending approval, with the time at which the first one was requested. Questions are the tasks with an
	// open question.
	approvals map[events.TaskID]time.Time
	questions map[events.TaskID]bool
}

func newPeople() *people {
	return &people{approvals: map[events.TaskID]time.Time{}, questions: map[events.TaskID]bool{}}
}

// committed notes what a task waits for after a commit, if that may have changed: a task may have thousands of approvals.
func (p *people) committed(e *entry, list []events.Event) {
	if e.task.State.Terminal() || slices.ContainsFunc(list, concernsPeople) {
		p.update(e)
	}
}

// concernsPeople reports whether an event changes what a task waits for.
func concernsPeople(e events.Event) bool {
	switch e.Data.(type) {
	case *events.Approval, *events.Decision, *events.Elapsed, *events.Question, *events.Answer, *events.Unanswered:
		return true
	default:
		return false
	}
}

// update notes what a task waits for.
func (p *people) update(e *entry) {
	t := e.task
	if t == nil || t.State.Terminal() {
		p.forget(e.id)
		return
	}
	if since, pending := firstPending(t); pending {
		p.approvals[e.id] = since
	} else {
		delete(p.approvals, e.id)
	}
	if t.HasOpenQuestion() {
		p.questions[e.id] = true
	} else {
		delete(p.questions, e.id)
	}
}

// sleeps notes what a task waits for whose history was not read. The time of its first approval is not known; it is not later than that
// of its last change.
func (p *people) sleeps(a *sleeper) {
	if a.Undecided {
		p.approvals[a.Line.ID] = a.Line.UpdatedAt
	}
	if a.Unanswered {
		p.questions[a.Line.ID] = true
	}
}

func (p *people) forget(id events.TaskID) {
	delete(p.approvals, id)
	delete(p.questions, id)
}

// count sets how many tasks wait, and since when the first approval does.
func (p *people) count(f *Figures) {
	f.Approvals, f.Questions = len(p.approvals), len(p.questions)
	for _, since := range p.approvals {
		if f.OldestApproval.IsZero() || since.Before(f.OldestApproval) {
			f.OldestApproval = since
		}
	}
}
