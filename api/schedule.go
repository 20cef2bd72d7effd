package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/schedules"
)

// Schedules are the methods about schedules, which start tasks at certain times.
type Schedules interface {
	// Schedules returns all schedules, or one, by name. NOT_FOUND for an unknown name.
	Schedules(ctx context.Context, r SchedulesRequest) (SchedulesReply, error)
	// PutSchedule creates a schedule or replaces its definition. Errors: CONFLICT if the name is in use and the request does not
	// replace it, NOT_FOUND, those of schedules.Compile, and those of Submit for its plan and inputs.
	PutSchedule(ctx context.Context, r PutScheduleRequest) (ScheduleView, error)
	// SteerSchedule pauses, resumes, triggers or deletes a schedule, or makes up for firings of the past. Errors: NOT_FOUND,
	// VALIDATION_ERROR, and CONFLICT if the overlap policy permits no further firing now.
	SteerSchedule(ctx context.Context, r SteerScheduleRequest) (SteerScheduleReply, error)
}

// Limits of schedules.
const (
	// MaxUpcoming limits SchedulesRequest.Upcoming.
	MaxUpcoming = 1000
	// MaxBackfill limits the firings of one backfill.
	MaxBackfill = 1000
)

// SchedulesRequest selects schedules.
type SchedulesRequest struct {
	// Name selects one schedule; empty selects all.
	Name string `json:"name,omitempty"`
	// Upcoming is the number of next firings in each view, at most MaxUpcoming. Default 1.
	Upcoming int `json:"upcoming,omitempty"`
}

// SchedulesReply contains schedules, by name.
type SchedulesReply struct {
	Schedules []ScheduleView `json:"schedules"`
}

// PutScheduleRequest defines a schedule.
type PutScheduleRequest struct {
	// Name is 1 to 63 of a to z, 0 to 9, '.', '_' and '-'.
	Name string `json:"name"`
	// Definition contains a plan as in SubmitRequest.
	Definition schedules.Definition `json:"definition"`
	// Root is the same as in SubmitRequest.
	Root string `json:"root,omitempty"`
	// Replace permits to replace the definition of an existing schedule. It keeps its tasks, its pause and its outcomes; the new
	// rules count from now on.
	Replace bool `json:"replace,omitempty"`
	// Paused also pauses the schedule.
	Paused bool   `json:"paused,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

// The acts of SteerScheduleRequest.
const (
	ActPause    = "pause"
	ActResume   = "resume"
	ActTrigger  = "trigger"
	ActBackfill = "backfill"
	ActDelete   = "delete"
)

// SteerScheduleRequest changes what a schedule does.
type SteerScheduleRequest struct {
	Name string `json:"name"`
	// Act is one of the constants above.
	Act string `json:"act"`
	// Note says why a schedule is paused.
	Note string `json:"note,omitempty"`
	// Overlap is the overlap policy of a trigger or a backfill. Default: that of the schedule for a trigger, buffer_all for a
	// backfill.
	Overlap schedules.Overlap `json:"overlap,omitempty"`
	// From and To are the times between which a backfill fires, both included. Firings that have started before are not repeated.
	From  *time.Time `json:"from,omitempty"`
	To    *time.Time `json:"to,omitempty"`
	Actor string     `json:"actor,omitempty"`
}

// SteerScheduleReply is the schedule after an act; one that was deleted as it was before.
type SteerScheduleReply struct {
	Schedule ScheduleView `json:"schedule"`
	// Task is the task that a trigger has started; empty if it waits for the end of another one.
	Task events.TaskID `json:"task,omitempty"`
	// Firings is the number of firings of a backfill.
	Firings int `json:"firings,omitempty"`
}

// ScheduleView describes a schedule.
type ScheduleView struct {
	Name string `json:"name"`
	// ID is part of the idempotency keys of its tasks. A schedule that is created again has another one.
	ID   string         `json:"id"`
	Spec schedules.Spec `json:"spec"`
	// Plan and Inputs are what its firings submit.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs,omitempty"`
	Note   string          `json:"note,omitempty"`
	Root   string          `json:"root,omitempty"`
	// Requestor is who has written the definition. Its tasks act for that identity.
	Requestor string    `json:"requestor"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Paused is who has paused it, when and why; nil while it runs.
	Paused *schedules.Pause `json:"paused,omitempty"`
	// Next are the next instants, without jitter; empty while it is paused.
	Next []time.Time `json:"next"`
	// Due is when the next task starts, with jitter.
	Due time.Time `json:"due,omitzero"`
	// Failures is the number of tasks in a row that did not end in DONE, without those that a later firing has replaced.
	Failures int `json:"failures,omitempty"`
	// Running are the firings whose tasks have not ended, the last 100, Buffered those that wait for them.
	Running  []schedules.Firing `json:"running"`
	Buffered []schedules.Firing `json:"buffered"`
	// Outcomes are the last outcomes, the newest first, Counts the numbers of all.
	Outcomes []schedules.Outcome      `json:"outcomes"`
	Counts   map[schedules.Result]int `json:"counts"`
}

// ActorFields returns the field that names who acts.
func (r *PutScheduleRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *SteerScheduleRequest) ActorFields() []*string { return []*string{&r.Actor} }
