package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// quietFor is how long a command waits before it writes that it waits.
	quietFor = time.Second
	// repeatEvery is the minimum interval between two lines about the wait.
	repeatEvery = 10 * time.Second
)

// waitDisplay is the display of a command that only waits for a task. It writes to stderr what the task waits for, and what
// people have to approve or answer. It needs snapshots.
type waitDisplay struct {
	nopDisplay

	env *env
	// next is the earliest time of the next line, text is the last line.
	next time.Time
	text string
	task *api.TaskView
	why  []api.Cause
}

// newWaitDisplay returns the display of a waiting command.
func newWaitDisplay(e *env) *waitDisplay { return &waitDisplay{env: e, next: e.now().Add(quietFor)} }

// begin starts the display with the current state of a task. It does not show earlier commits.
func (w *waitDisplay) begin(ctx context.Context, s session, t api.TaskView) {
	w.task = &t
	if runs(t) {
		return
	}
	if why, err := s.Explain(ctx, api.GetRequest{ID: t.ID}); err == nil {
		w.why = why.Causes
	}
}

func (w *waitDisplay) update(n followUpdate) error {
	if n.note != "" {
		w.env.note("%s", n.note)
	}
	if n.task != nil {
		w.task, w.why = n.task, n.why
	}
	for _, c := range n.Commits {
		for _, e := range c.Events {
			switch asked := e.Data.(type) {
			case *events.Approval:
				w.asks("the call waits for approval "+asked.ID, "orch approvals "+asked.ID)
			case *events.Question:
				w.asks("the call asks something ("+asked.Kind+")", "orch questions "+asked.ID)
			}
		}
	}
	return nil
}

// asks writes what people have to do. The next line about the wait follows after repeatEvery at the earliest.
func (w *waitDisplay) asks(what, next string) {
	w.env.note("%s; %s", what, next)
	w.next = w.env.now().Add(repeatEvery)
}

// tick writes what the command waits for, if it has waited for some time or the reason has changed.
func (w *waitDisplay) tick() error {
	now := w.env.now()
	if w.task == nil || now.Before(w.next) {
		return nil
	}
	text := waitText(*w.task, w.why)
	if text == w.text {
		return nil
	}
	w.text, w.next = text, now.Add(repeatEvery)
	w.env.note("%s", text)
	return nil
}

// waitText returns a text with the task that the command waits for, and the reason why the task waits if it is known.
func waitText(t api.TaskView, why []api.Cause) string {
	text := "waiting for " + string(t.ID) + ", which is " + string(t.State)
	if c := mainCause(why); c != nil {
		text += ". " + c.Sentence
		if c.Next != "" {
			text += "\n  try: " + c.Next
		}
		return text
	}
	for _, s := range t.Steps {
		if s.State == statemachine.StepRunning && s.Tool != "" && s.Child == "" {
			return text + ": step " + s.Key + " (" + s.Tool + ") runs on " + s.Worker
		}
	}
	return text
}

// mainCause returns the cause to show where there is room for one: the first one, and instead of an agent what it waits for, if that is
// a retry or somebody can do something about it. It returns nil if there are no causes.
func mainCause(why []api.Cause) *api.Cause {
	if len(why) == 0 {
		return nil
	}
	if i := slices.IndexFunc(why, func(c api.Cause) bool { return c.Kind != "agent" }); i > 0 && (why[i].Next != "" || why[i].Kind == "retry") {
		return &why[i]
	}
	return &why[0]
}

// noteLater writes a note after quietFor, unless stop is called before.
func (e *env) noteLater(text string) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(quietFor)
		defer timer.Stop()
		select {
		case <-timer.C:
			e.note("%s", text)
		case <-stopped:
		}
	}()
	return sync.OnceFunc(func() { close(stopped); <-ended })
}
