package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// outside is what a call has begun elsewhere. It goes on whatever becomes of its worker and of the owner, and ends
// once.
type outside struct {
	place string
	// how is the end, "" while it goes on.
	how string
	// kept is set when the owner has acknowledged its note.
	kept bool
}

// mayNote reports whether a call can begin something elsewhere now: its start is known if it has to be.
func (j *job) mayNote() bool {
	begun := j.started || !j.hasEffects()
	return !j.Away && begun && j.outcome == nil && j.Tool != "PROBE" && j.Tool != "SPAWN"
}

// note begins something elsewhere, which is the effect of the call, and gives the call back with a note.
func (w *world) note(j *job) {
	note := fmt.Sprintf(`{"job":%d}`, len(w.jobs)+1)
	w.jobs[note] = &outside{place: j.place()}
	w.effect(j)
	j.outcome = &work.Outcome{Ref: j.Ref, Worker: j.worker.name, StartedAt: time.Now(), Note: json.RawMessage(note)}
	w.report(j)
}

// noteNow lets a call that a worker has go on elsewhere, and the owner die around the note.
func (w *world) noteNow(a act) {
	for _, h := range w.workers {
		for _, j := range slices.Clone(h.jobs) {
			if j.mayNote() && !j.asking {
				w.armed = append(w.armed, []string{"crash", "crash_written", "lose", "refuse"}[a.B%4])
				w.note(j)
				return
			}
		}
	}
}

// lookAfter returns how a call with a note ends: as what it has begun has ended. What has failed there for good has
// had no effect. A call that ends in another way than by the loss of its worker gives its work up.
func (w *world) lookAfter(j *job, how string) string {
	job := w.jobs[string(j.Note)]
	switch {
	case how == "shutdown":
		return how
	case job == nil || job.place != j.place():
		w.fail("%s is called with a note that is not its own: %s", j.place(), j.Note)
		return how
	case job.how == "":
		if job.how = how; how != "ok" {
			w.ledger[j.place()]--
		}
	}
	return job.how
}

// checkNotes holds that a note which was acknowledged is in the log, and that what the notes stand for is begun once.
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

// checkNote holds that nothing is begun anew while the log says that it goes on elsewhere, and that nobody is asked
// about a call that can look after it itself.
func (w *world) checkNote(h *history, before *statemachine.Task, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Noted:
		if before.Steps[d.Step].Noted() {
			w.fail("N1: %s %s begins %s while %s goes on", h.id, d.Step, d.Note, before.Steps[d.Step].Note)
		}
	case *events.InDoubt:
		if s := before.Steps[d.Step]; s.Noted() && s.Lost+1 < usualDeliveries {
			w.fail("N3: %s %s is in doubt while %s goes on", h.id, d.Step, s.Note)
		}
	}
}

// usualDeliveries is how many workers a call may lose (orchestrator.Config.MaxDeliveries).
const usualDeliveries = 10
