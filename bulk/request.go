package bulk

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// The acts.
const (
	Cancel  = "cancel"
	Retry   = "retry"
	Redrive = "redrive"
	// Approve grants the pending approvals of the tasks.
	Approve = "approve"
)

// Acts returns all acts.
func Acts() []string { return []string{Cancel, Retry, Redrive, Approve} }

const (
	// DefaultMax is the maximum number of items of a request that names none.
	DefaultMax = 1000
	// MaxItems bounds Request.Max.
	MaxItems = 10_000
)

// Request asks for an act on many tasks.
type Request struct {
	// Act is one of Acts.
	Act   string `json:"act"`
	Where Where  `json:"where"`
	// DryRun only shows the set.
	DryRun bool `json:"dry_run,omitempty"`
	// Set is the digest of the set, as a dry run has shown it. If the set is another one now, nothing is done.
	Set *string `json:"set,omitempty"`
	// Max is the maximum number of items. More are refused. Default: DefaultMax.
	Max int `json:"max,omitempty"`
	// Reason says why tasks are cancelled or approvals granted.
	Reason string `json:"reason,omitempty"`
	// From is the step from which tasks are retried, as in api.RetryRequest.
	From string `json:"from,omitempty"`
	// Via is the same as in api.SubmitRequest.
	Via string `json:"-"`
	// Actor is who acts.
	Actor string `json:"actor,omitempty"`
}

// ActorFields returns the field that names who acts.
func (r *Request) ActorFields() []*string { return []*string{&r.Actor} }

// Where selects tasks. Zero fields do not select. The fields are those of api.ListRequest, but for IDs.
type Where struct {
	// IDs names the tasks, at most MaxItems. For Approve, an id may be that of an approval. It goes with no other field.
	IDs       []string             `json:"ids,omitempty"`
	States    []statemachine.State `json:"states,omitempty"`
	Labels    map[string]string    `json:"labels,omitempty"`
	Name      string               `json:"name,omitempty"`
	Parent    events.TaskID        `json:"parent,omitempty"`
	Session   events.TaskID        `json:"session,omitempty"`
	Requestor string               `json:"requestor,omitempty"`
	Since     time.Time            `json:"since,omitzero"`
	Until     time.Time            `json:"until,omitzero"`
	Dead      bool                 `json:"dead,omitempty"`
}

// isZero reports whether a filter selects all tasks.
func (w *Where) isZero() bool { return len(w.IDs) == 0 && w.filtersNothing() }

// filtersNothing reports whether a filter has no fields, apart from ids.
func (w *Where) filtersNothing() bool {
	return len(w.States) == 0 && len(w.Labels) == 0 && w.Name == "" && w.Parent == "" && w.Session == "" && w.Requestor == "" &&
		w.Since.IsZero() && w.Until.IsZero() && !w.Dead
}

// list returns the request for the first page of the tasks.
func (w *Where) list() api.ListRequest {
	const page = 1000
	return api.ListRequest{
		States: w.States, Labels: w.Labels, Name: w.Name, Parent: w.Parent, Session: w.Session, Requestor: w.Requestor,
		Since: w.Since, Until: w.Until, Dead: w.Dead, Limit: page,
	}
}

// String returns the filter in one line.
func (w *Where) String() string {
	var parts []string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+"="+value)
		}
	}
	if n := len(w.IDs); n > 0 {
		add("ids", strconv.Itoa(n))
	}
	for _, s := range w.States {
		add("state", string(s))
	}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		add("label", key+"="+w.Labels[key])
	}
	add("name", w.Name)
	add("parent", string(w.Parent))
	add("session", string(w.Session))
	add("requestor", w.Requestor)
	for key, at := range map[string]time.Time{"since": w.Since, "until": w.Until} {
		if !at.IsZero() {
			add(key, at.UTC().Format(time.RFC3339))
		}
	}
	if w.Dead {
		add("dead", "true")
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// Check returns the first problem of a request.
func (r *Request) Check() error {
	switch {
	case r.Act == "":
		return fault.New(fault.RequiredField, "is missing").WithField("act").WithHint("use %s", strings.Join(Acts(), ", "))
	case !slices.Contains(Acts(), r.Act):
		const longest = 60
		return fault.New(fault.ValidationError, "%q is not an act", fault.Clip(r.Act, longest)).WithField("act").WithHint("use %s", strings.Join(Acts(), ", "))
	case r.Where.isZero():
		return fault.New(fault.RequiredField, "is missing").WithField("where").WithHint(`such as {"states": ["FAILED"]}`)
	case len(r.Where.IDs) > MaxItems:
		return fault.New(fault.ValidationError, "has %d ids, the limit is %d", len(r.Where.IDs), MaxItems).WithField("where.ids")
	case len(r.Where.IDs) > 0 && !r.Where.filtersNothing():
		return fault.New(fault.ValidationError, "does not go with other filters").WithField("where.ids")
	case r.Max < 0 || r.Max > MaxItems:
		return fault.New(fault.ValidationError, "must be between 1 and %d", MaxItems).WithField("max")
	case r.From != "" && r.Act != Retry:
		return fault.New(fault.ValidationError, "only a retry begins at a step").WithField("from")
	case r.Reason != "" && r.Act != Cancel && r.Act != Approve:
		return fault.New(fault.ValidationError, "a %s takes no reason", r.Act).WithField("reason")
	}
	if err := checkIDs(r); err != nil {
		return err
	}
	for _, s := range r.Where.States {
		if !slices.Contains(statemachine.States(), s) {
			return fault.New(fault.ValidationError, "%q is not a state", string(s)).WithField("where.states")
		}
	}
	return nil
}

// Noun returns what the items of the act are.
func (r *Request) Noun() string {
	if r.Act == Approve {
		return "approval"
	}
	return "task"
}

// Params returns the parameters of the act in the audit stream: the filter, and the number of items.
func (r *Request) Params(items int) map[string]string {
	return map[string]string{"where": r.Where.String(), r.Noun() + "s": strconv.Itoa(items)}
}
