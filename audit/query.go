package audit

import (
	"slices"
	"strings"
	"time"
)

// View is an act with its result, as clients see it.
type View struct {
	// Number is the number of the first entry of the act.
	Number uint64 `json:"n"`
	// At is when the act began or was refused, EndedAt when its result was recorded, if that is another entry.
	At      time.Time  `json:"at"`
	EndedAt *time.Time `json:"ended_at,omitempty"`

	Act

	Outcome Outcome  `json:"outcome"`
	Error   *Problem `json:"error,omitempty"`
	Task    *Link    `json:"task,omitempty"`
	// Count is how often equal acts were refused from Since until At; 0 means once.
	Count int        `json:"count,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// ViewOf returns the act of an entry and of the entry with its result, which may be nil.
func ViewOf(e, result *Entry) View {
	v := View{Number: e.Number, At: e.At, Act: e.Act, Outcome: e.Outcome, Error: e.Error, Task: e.Task, Count: e.Count, Since: e.Since}
	switch {
	case result != nil:
		at := result.At
		v.EndedAt, v.Outcome, v.Error, v.Task = &at, result.Outcome, result.Error, result.Task
		if result.Target != "" { // the act has created it
			v.Target = result.Target
		}
	case e.Outcome == Begun:
		v.Outcome = Unknown
	}
	return v
}

// Filter selects acts; zero fields do not filter.
type Filter struct {
	// Actor, Name and Target select acts with these values. Name may end in * for a prefix, such as token.*.
	Actor  string `json:"actor,omitempty"`
	Name   string `json:"act,omitempty"`
	Target string `json:"target,omitempty"`
	// Outcome selects acts with one of these outcomes.
	Outcome []Outcome `json:"outcome,omitempty"`
	// Since and Until select acts from Since on and before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Matches reports whether the filter selects an act.
func (f Filter) Matches(v View) bool {
	switch {
	case f.Actor != "" && f.Actor != v.Actor, !matchesName(f.Name, v.Name):
		return false
	case f.Target != "" && f.Target != v.Target && (v.Task == nil || f.Target != string(v.Task.ID)):
		return false
	case len(f.Outcome) > 0 && !slices.Contains(f.Outcome, v.Outcome):
		return false
	case !f.Since.IsZero() && v.At.Before(f.Since):
		return false
	default:
		return f.Until.IsZero() || v.At.Before(f.Until)
	}
}

func matchesName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == "" || pattern == name
}
