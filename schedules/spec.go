package schedules

import (
	"time"
	_ "time/tzdata" // zones on machines without a database of their own
)

// Overlap decides what happens when a firing is due while a task of the schedule is still open.
type Overlap string

// The overlap policies.
const (
	// Skip drops the firing.
	Skip Overlap = "skip"
	// BufferOne starts one further task when the open one has ended, and drops firings beyond it.
	BufferOne Overlap = "buffer_one"
	// BufferAll starts one task after the other.
	BufferAll Overlap = "buffer_all"
	// CancelOther cancels the open task and starts the new one when it has ended.
	CancelOther Overlap = "cancel_other"
	// AllowAll starts the task beside the open ones.
	AllowAll Overlap = "allow_all"
)

// Overlaps returns all overlap policies.
func Overlaps() []Overlap { return []Overlap{Skip, BufferOne, BufferAll, CancelOther, AllowAll} }

// Spec defines when a schedule fires and what happens then. At least one of Cron, Interval and Calendar is set; an instant that
// several of them name is one firing.
type Spec struct {
	// Cron are expressions with five fields, or names such as @daily.
	Cron []string `json:"cron,omitempty"`
	// Interval are repetitions in elapsed time, which the zone does not affect.
	Interval []Interval `json:"interval,omitempty"`
	// Calendar are local times.
	Calendar []Calendar `json:"calendar,omitempty"`
	// Timezone is a name of the IANA database such as Europe/Berlin. Default: UTC.
	Timezone string `json:"timezone,omitempty"`
	// From is the first instant that may fire, Until the last one.
	From  *time.Time `json:"from,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Jitter delays each firing by less than this. The delay follows from the id of the schedule and the instant.
	Jitter Duration `json:"jitter,omitempty"`
	// Overlap is the policy for firings while a task is open. Default: Skip.
	Overlap Overlap `json:"overlap,omitempty"`
	// CatchUp is how long after its instant a firing may still start, when the node was down. Default: DefaultCatchUp.
	CatchUp *Duration `json:"catch_up,omitempty"`
}

// Interval fires every Every, at multiples of it since 1970-01-01T00:00:00Z, shifted by Offset.
type Interval struct {
	Every  Duration `json:"every"`
	Offset Duration `json:"offset,omitempty"`
}

// Calendar fires at the local times that match all its fields. A field is a list like a field of cron: "1-5", "*/15", "mon,wed".
// An empty Minute or Hour means 0; any other empty field matches everything.
type Calendar struct {
	Minute  Field `json:"minute,omitempty"`
	Hour    Field `json:"hour,omitempty"`
	Day     Field `json:"day,omitempty"` // of the month; "last" is its last day
	Month   Field `json:"month,omitempty"`
	Weekday Field `json:"weekday,omitempty"`
	Year    Field `json:"year,omitempty"`
}

// Limits of a definition.
const (
	// DefaultCatchUp is the catch-up window of a definition without one.
	DefaultCatchUp = time.Hour
	// MinInterval is the shortest interval.
	MinInterval = time.Second
	// MaxRules bounds the rules of a definition together.
	MaxRules = 32
	// MaxJitter bounds the jitter.
	MaxJitter = 24 * time.Hour
)

// CatchUpWindow returns the catch-up window, with its default.
func (s *Spec) CatchUpWindow() time.Duration {
	if s.CatchUp == nil {
		return DefaultCatchUp
	}
	return s.CatchUp.Std()
}

// PolicyOf returns the overlap policy of a firing: its own, or that of the definition.
func (s *Spec) PolicyOf(f Firing) Overlap {
	if f.Overlap != "" {
		return f.Overlap
	}
	return s.OverlapPolicy()
}

// OverlapPolicy returns the overlap policy, with its default.
func (s *Spec) OverlapPolicy() Overlap {
	if s.Overlap == "" {
		return Skip
	}
	return s.Overlap
}
