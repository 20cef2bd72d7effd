package scheduler

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
)

// definition is what somebody has defined, as the journal stores it.
type definition struct {
	schedules.Definition

	ID   string `json:"id"`
	Root string `json:"root,omitempty"`
	// By is who wrote it; its tasks act for that identity.
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// schedule is a schedule at one time. It is never changed: a turn replaces it.
type schedule struct {
	Name       string           `json:"name"`
	Definition definition       `json:"definition"`
	State      *schedules.State `json:"state"`

	// table is nil if this version of orch cannot compile the rules.
	table *schedules.Timetable
	// due is when the schedule has to be looked at again; the zero time means now.
	due time.Time
	// idle is set if nothing will be due before somebody changes the schedule.
	idle bool
}

// key returns the idempotency key of a firing.
func (sc *schedule) key(f schedules.Firing) string {
	key := "schedule/" + sc.Definition.ID + "/" + f.At.UTC().Format(time.RFC3339Nano)
	if f.Origin == schedules.Trigger {
		key += "/trigger"
	}
	return key
}

// taskOf returns the id of the task of a firing.
func (sc *schedule) taskOf(f schedules.Firing) events.TaskID {
	return events.KeyedTaskID("", sc.key(f))
}

// labelName is the label of the tasks of schedules.
const labelName = "schedule"

// submission returns the request that starts the task of a firing.
func (sc *schedule) submission(f schedules.Firing) api.SubmitRequest {
	return api.SubmitRequest{
		Plan: sc.Definition.Plan, Inputs: sc.Definition.Inputs, Root: sc.Definition.Root, Actor: sc.Definition.By,
		IdempotencyKey: sc.key(f), IdempotencyScope: "forever", Cause: "schedule " + sc.Name,
		Labels:   map[string]string{labelName: sc.Name},
		Schedule: &events.Firing{Name: sc.Name, Time: f.At},
	}
}

// view returns the view for clients, with a number of next instants.
func (sc *schedule) view(upcoming int) api.ScheduleView {
	d, st := sc.Definition, sc.State
	v := api.ScheduleView{
		Name: sc.Name, ID: d.ID, Spec: d.Spec, Plan: d.Plan, Inputs: d.Inputs, Note: d.Note, Root: d.Root, Requestor: d.By,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, Paused: st.Paused, Failures: st.Failures, Next: []time.Time{},
		Running: append(append([]schedules.Firing{}, st.Open...), st.Starting...), Buffered: append([]schedules.Firing{}, st.Buffered...),
		Outcomes: append([]schedules.Outcome{}, st.Outcomes...), Counts: st.Clone().Counts,
	}
	slices.Reverse(v.Outcomes)
	if sc.table == nil || st.Paused != nil {
		return v
	}
	for at, found := sc.table.Next(st.Through); found && len(v.Next) < upcoming; at, found = sc.table.Next(at) {
		v.Next = append(v.Next, at)
	}
	if len(v.Next) > 0 {
		v.Due = v.Next[0].Add(sc.table.Delay(d.ID, v.Next[0]))
	}
	return v
}

// maxNote bounds the notes of definitions and pauses, in bytes.
const maxNote = 1024

func checkNote(note string) error {
	if len(note) > maxNote {
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(note), maxNote).WithField("note")
	}
	return nil
}

// clip shortens a text for a message.
func clip(text string) string { return fault.Clip(text, 60) }

// sameDefinition reports whether two definitions mean the same.
func sameDefinition(a, b definition) bool {
	left, errLeft := json.Marshal(a.Definition)
	right, errRight := json.Marshal(b.Definition)
	return errLeft == nil && errRight == nil && string(left) == string(right) && a.Root == b.Root && a.By == b.By
}
