package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// outside is an operation that a call has started elsewhere. It continues independently of its worker and the owner,
// and ends once.
type outside struct {
	place string
	// how is the outcome; "" while it runs.
	how string
	// kept is true when the owner has acknowledged its note.
	kept bool
}

// mayNote reports whether a call can start an outside operation now: its own start is recorded if necessary.
func (j *job) mayNote() bool {
	begun := j.started || !j.hasEffects()
	return !j.Away && begun && j.outcome == nil && j.Tool != "PROBE" && j.Tool != "SPAWN" && j.Tool != models.CallTool
}

// startOutside starts an outside operation, which is the effect of the call, and returns the call with a note.
func (w *world) startOutside(j *job) {
	note := fmt.Sprintf(`{"job":%d}`, len(w.jobs)+1)
	w.jobs[note] = &outside{place: j.location()}
	w.effect(j)
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Note: json.RawMessage(note)}
	w.report(j)
}

// noteNow makes a call of a worker start an outside operation, and kills the owner around the note.
func (w *world) noteNow(a act) {
	for _, h := range w.workers {
		for _, j := range slices.Clone(h.jobs) {
			if j.mayNote() && !j.asking {
				w.armed = append(w.armed, []string{"crash", "crash_written", "lose", "refuse"}[a.B%4])
				w.startOutside(j)
				return
			}
		}
	}
}

// outcomeOf returns the outcome of a call with a note: that of its outside operation. A permanent failure there means
// that it had no effect. A call that ends otherwise, except by the loss of its worker, abandons the operation.
func (w *world) outcomeOf(j *job, how string) string {
	job := w.jobs[string(j.Note)]
	switch {
	case how == "shutdown":
		return how
	case job == nil || job.place != j.location():
		w.fail("%s is called with a note that is not its own: %s", j.location(), j.Note)
		return how
	case job.how == "":
		if job.how = how; how != "ok" {
			w.ledger[j.location()]--
		}
	}
	return job.how
}

// checkNotes checks that an acknowledged note is in the log, and that each outside operation is started once.
func (w *world) checkNotes(past []*history) {
	logged := map[string]bool{}
	for _, h := range past {
		task := &statemachine.Task{}
		for _, c := range h.commits {
			for _, e := range c.Events {
				w.checkNote(h, task, e)
				if d, ok := e.Data.(*events.Noted); ok {
					logged[string(d.Note)] = true
				}
				if err := task.Apply(c.At, e); err != nil {
					w.fail("I3: %s: %v", h.id, err)
				}
			}
		}
	}
	for _, note := range slices.Sorted(maps.Keys(w.jobs)) {
		if job := w.jobs[note]; job.kept && !logged[note] {
			w.fail("N2: the acknowledged note %s of %s is not in the log", note, job.place)
		}
	}
}

// checkNote checks that no operation is started again while the log says that it continues elsewhere, and that nobody
// is asked about a call that can attend to its operation.
func (w *world) checkNote(h *history, before *statemachine.Task, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Noted:
		if before.Steps[d.Step].RunsElsewhere() {
			w.fail("N1: %s %s begins %s while %s goes on", h.id, d.Step, d.Note, before.Steps[d.Step].Note)
		}
	case *events.InDoubt:
		if s := before.Steps[d.Step]; s.RunsElsewhere() && s.Lost+1 < usualDeliveries {
			w.fail("N3: %s %s is in doubt while %s goes on", h.id, d.Step, s.Note)
		}
	}
}

// usualDeliveries is how many workers a call may lose (orchestrator.Config.MaxDeliveries).
const usualDeliveries = 10
