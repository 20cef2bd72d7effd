package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Report processes the report of a call and returns when it is durable. Errors: CONFLICT when the call is no longer
// assigned to the agent, or has ended with another outcome. A repeated report is not a conflict. INVALID_FORMAT for an
// invalid task id, REQUIRED_FIELD for an empty report, VALIDATION_ERROR for a contradictory one.
func (d *Dispatcher) Report(ctx context.Context, m Member, r Report) error {
	if _, err := events.ParseTaskID(string(r.Task)); err != nil { // a lookup of an invalid id would be retried
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	d.registry.markPresent(m.ID)
	out, err := d.outcome(ctx, m, r)
	if err != nil {
		return err
	}
	err = d.owner.Report(ctx, out)
	if err == nil || fault.Has(err, fault.Conflict) { // it is no longer assigned
		d.unassignCalls(m, []work.Ref{r.Ref})
		d.registry.removeCall(m.ID, r.Ref)
	}
	return err
}

// check validates a report: it must name a call and have exactly one outcome.
func (r Report) check() error {
	noResult := r.Release || r.HandTo != nil || r.Error != ""
	switch {
	case r.Step == "":
		return fault.New(fault.RequiredField, "is missing").WithField("step")
	case r.Attempt < 1:
		return fault.New(fault.ValidationError, "must be at least 1").WithField("attempt")
	case r.Unsure && !r.Release:
		return fault.New(fault.ValidationError, "is only allowed with release").WithField("unsure")
	case r.Release && r.HandTo != nil:
		return fault.New(fault.ValidationError, "is not allowed with hand_to").WithField("release")
	case len(r.Data) > 0 && !r.Release && r.HandTo == nil:
		return fault.New(fault.ValidationError, "is only allowed with hand_to or release").WithField("data").WithHint("put the outcome of the call into result")
	case noResult && len(r.Result) > 0 && string(r.Result) != "null":
		return contradiction("result")
	case noResult && r.Summary != "":
		return contradiction("summary")
	}
	return nil
}

func contradiction(field string) error {
	return fault.New(fault.ValidationError, "is not allowed with release, hand_to or error").WithField(field).
		WithHint("report exactly one of: a result, a release or hand_to, or an error")
}

// maxMessage bounds the error of a report, maxSummary its summary, in bytes.
const (
	maxMessage = 4 << 10
	maxSummary = 1 << 10
	// maxHanded bounds the data that an agent hands over with a call, in bytes.
	maxHanded = 64 << 10
)

// releaseDelay is the delay before a released call is offered again. Without the delay, the agent that released the
// call would claim it again at once if no other agent can.
const releaseDelay = 5 * time.Second

// outcome converts a report to the outcome that the log records.
func (d *Dispatcher) outcome(ctx context.Context, m Member, r Report) (work.Outcome, error) {
	now := d.clock()
	began, known := d.startOf(m, r.Ref, now)
	out := work.Outcome{Ref: r.Ref, Worker: m.Actor(), StartedAt: events.Time(began), Duration: now.Sub(began), Unleased: !known}
	message, err := d.vetText("error", r.Error, maxMessage)
	if err == nil {
		out.Handed, err = d.vetHanded(r.Data)
	}
	if err != nil {
		return out, err
	}
	switch {
	case r.Release && !r.Unsure:
		out.Error, out.Class, out.HandTo = fault.New(fault.Unavailable, "the agent %s has given the call back%s", m.Name, reasonSuffix(message)).WithRetryAt(now.Add(releaseDelay)), fault.ClassHandoff, &events.Agents{}
	case r.Release:
		out.Error, out.Class = fault.New(fault.Unavailable, "the agent %s has given the call back%s", m.Name, reasonSuffix(message)).WithRetryAt(now.Add(releaseDelay)), fault.ClassShutdown
	case r.HandTo != nil:
		if err := d.vetSelection(r.HandTo); err != nil {
			return out, err
		}
		if err := d.checkReceiver(ctx, r.HandTo); err != nil {
			return out, err
		}
		out.Error, out.Class, out.HandTo = fault.New(fault.Unavailable, "the agent %s has handed the call on%s", m.Name, reasonSuffix(message)), fault.ClassHandoff, r.HandTo
	case message != "":
		out.Error, out.Class, out.Retry = fault.New(fault.ToolFailed, "%s", message), fault.ClassToolError, m.retry()
	case len(r.Result) == 0 && r.Summary == "":
		return out, fault.New(fault.RequiredField, "is missing").WithField("result").WithHint("report a summary when there is no result, or report an error, release or hand_to")
	default:
		if len(r.Result) == 0 {
			r.Result = json.RawMessage("null")
		}
		out.Output, err = d.output(m, r)
	}
	return out, err
}

// reasonSuffix returns ": " and the reason, or "".
func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// maxRequires bounds the capabilities of a selection, as in the input of AGENT_TASK.
const maxRequires = 32

// checkSelection validates a selection of agents and brings it to normal form.
func checkSelection(to *events.Agents) error {
	switch {
	case to.Agent != "" && !IsName(to.Agent):
		return fault.New(fault.InvalidFormat, "%q is not a valid name of an agent", clip(to.Agent)).WithField("hand_to.agent")
	case to.Type != "" && !slices.Contains(Types(), to.Type):
		return fault.New(fault.ValidationError, "%q is not a type of agents", clip(to.Type)).WithField("hand_to.type")
	case len(to.Requires) > maxRequires || slices.ContainsFunc(to.Requires, func(c string) bool { return !isCapability(c) }):
		return fault.New(fault.InvalidFormat, "must be at most %d valid names of capabilities", maxRequires).WithField("hand_to.requires")
	}
	slices.Sort(to.Requires)
	to.Requires = slices.Compact(to.Requires)
	return nil
}

// checkReceiver returns NOT_FOUND for a selected agent that is not registered: nobody would ever claim the call.
func (d *Dispatcher) checkReceiver(ctx context.Context, to *events.Agents) error {
	if to.Agent == "" || !IsName(to.Agent) || d.registry.cfg.Credentials == nil {
		return nil
	}
	members, err := d.registry.cfg.Credentials.Members(ctx)
	if err != nil || slices.ContainsFunc(members, func(m Member) bool { return m.Name == to.Agent }) {
		return err
	}
	return fault.New(fault.NotFound, "there is no agent %q", clip(to.Agent)).WithField("hand_to.agent").WithHint("see: orch agents")
}

// vetSelection validates the selection of a handover. It returns SECRET_DETECTED if the names, which appear in the log,
// contain a secret.
func (d *Dispatcher) vetSelection(to *events.Agents) error {
	if err := checkSelection(to); err != nil {
		return err
	}
	text, err := json.Marshal(to)
	if err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "the selection cannot be encoded").WithField("hand_to")
	}
	clean, err := d.chain.Vet(text)
	if err == nil && !bytes.Equal(clean, text) {
		err = fault.New(fault.SecretDetected, "holds what looks like a secret").WithField("hand_to")
	}
	return err
}

// vetHanded validates the data of a handover and removes secrets.
func (d *Dispatcher) vetHanded(data json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(data) == 0 || string(data) == "null":
		return nil, nil
	case len(data) > maxHanded:
		return nil, fault.New(fault.ValidationError, "has more than %d bytes", maxHanded).WithField("data").WithReason("SIZE_LIMIT_EXCEEDED").
			WithHint("hand over the path of a file")
	case !json.Valid(data):
		return nil, fault.New(fault.InvalidFormat, "is not valid JSON").WithField("data")
	}
	return d.chain.Vet(data)
}

// vetText validates a string from an agent and removes secrets.
func (d *Dispatcher) vetText(field, text string, limit int) (string, error) {
	if len(text) > limit {
		return "", fault.New(fault.ValidationError, "has more than %d bytes", limit).WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	if text == "" {
		return "", nil
	}
	quoted, err := json.Marshal(strings.ToValidUTF8(text, "\ufffd"))
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "a text cannot be encoded")
	}
	if quoted, err = d.chain.Vet(quoted); err != nil {
		return "", err
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// output returns the output of AGENT_TASK for a report.
func (d *Dispatcher) output(m Member, r Report) (json.RawMessage, error) {
	if len(r.Result) > 0 && !json.Valid(r.Result) {
		return nil, fault.New(fault.InvalidFormat, "is not valid JSON").WithField("result")
	}
	if len(r.Summary) > maxSummary {
		return nil, fault.New(fault.ValidationError, "has more than %d bytes", maxSummary).WithField("summary").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	output, err := json.Marshal(struct {
		Agent   string          `json:"agent"`
		Result  json.RawMessage `json:"result,omitempty"`
		Summary string          `json:"summary,omitempty"`
	}{m.Name, r.Result, r.Summary})
	if err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the result cannot be encoded")
	}
	return d.chain.Vet(output)
}
