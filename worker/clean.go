package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// cleaner removes secrets from everything that leaves the worker, and limits its size.
type cleaner struct{ *core }

// redact removes from data the secrets of the call a and everything that looks like a secret. a may be nil. It also reports
// whether anything was removed.
func (cl *cleaner) redact(a *attempt, data []byte) ([]byte, bool) {
	if a == nil {
		return cl.rules.Redact(data)
	}
	own, found := a.secrets.Load().Redact(data)
	clean, others := cl.rules.Redact(own)
	return clean, found || others
}

// clean returns a text for people without secrets, truncated to a limit.
func (cl *cleaner) clean(a *attempt, text string) string {
	if text == "" {
		return text
	}
	clean, _ := cl.redact(a, []byte(text))
	return truncate(string(clean), maxMessage)
}

// vet checks the size, the syntax and the nesting of an output, and removes its secrets.
func (cl *cleaner) vet(a *attempt, output json.RawMessage) (json.RawMessage, error) {
	if len(output) > cl.cfg.MaxOutput {
		return nil, tooLarge("output", cl.cfg.MaxOutput)
	}
	if clean, found := cl.redact(a, output); found {
		output = clean
	}
	if len(output) > 0 && !events.Valid(output) {
		return nil, fault.New(fault.Internal, "the tool returned invalid JSON")
	}
	brackets := bytes.Count(output, []byte("{")) + bytes.Count(output, []byte("[")) // counted faster than the nesting, and never fewer
	if brackets > maxDepth && events.Nesting(output) > maxDepth {
		return nil, fault.New(fault.ValidationError, "is nested more than %d deep", maxDepth).WithField("output").
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("return it as a text, or in a file")
	}
	return output, nil
}

// publicError returns the error in the form that may leave the worker: with a code, of limited size, without secrets and
// without its cause, which is only logged.
func (cl *cleaner) publicError(ctx context.Context, a *attempt, err error) *fault.Error {
	known := fault.From(err)
	if known.Err != nil {
		cl.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a call failed", append(a.logAttrs(nil),
			slog.String("code", string(known.Code)), slog.String("cause", cl.clean(a, known.Err.Error())))...)
	}
	return &fault.Error{
		Code: known.Code, Message: cl.clean(a, known.Message), Reason: cl.clean(a, known.Reason),
		Field: cl.clean(a, known.Field), Hint: cl.clean(a, known.Hint), RetryAt: known.RetryAt,
	}
}

// publicAsk returns a request for approval without secrets.
func (cl *cleaner) publicAsk(a *attempt, ask work.ApprovalRequest) *work.ApprovalRequest {
	ask.Reason = cl.clean(a, ask.Reason)
	for i, name := range ask.Impact {
		ask.Impact[i] = cl.clean(a, name)
	}
	return &ask
}

// cleanResult checks the output and the facts of a tool, and removes the secrets.
func (cl *cleaner) cleanResult(a *attempt, output json.RawMessage) (result, error) {
	output, err := cl.vet(a, output)
	if err != nil {
		return result{}, err
	}
	res := result{output: output, facts: a.takeFacts()}
	limit := min(cl.cfg.MaxOutput, work.MaxFacts)
	if len(res.facts) > maxFacts {
		return result{}, tooLarge("facts", limit)
	}
	room := limit
	for i := range res.facts {
		aside := cl.setAside(a, &res, i)
		size, err := cl.cleanFact(a, &res.facts[i])
		if err != nil {
			return result{}, err
		}
		if room -= size + aside; room < 0 {
			return result{}, tooLarge("facts", limit)
		}
	}
	return cl.withChild(a, res)
}

// cleanFact removes the secrets from a fact and returns its size in bytes.
func (cl *cleaner) cleanFact(a *attempt, fact *events.Event) (int, error) {
	data, err := fact.MarshalJSON() // json.Marshal would only copy it
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "the tool recorded invalid JSON")
	}
	clean, found := cl.redact(a, data)
	if !found {
		return len(data), nil
	}
	if err := json.Unmarshal(clean, fact); err != nil {
		return 0, fault.Wrap(fault.SecretDetected, err, "the tool recorded a secret")
	}
	return len(clean), nil
}

// withChild returns the result with the child of the call instead of the output, if the call has a child.
func (cl *cleaner) withChild(a *attempt, res result) (result, error) {
	child := a.spawnedChild()
	if child == nil {
		return res, nil
	}
	if len(child.Plan)+len(child.Inputs) > cl.cfg.MaxOutput {
		return result{}, tooLarge("prompt", cl.cfg.MaxOutput)
	}
	text, err := json.Marshal(string(child.Plan))
	if err != nil {
		return result{}, fault.Wrap(fault.Internal, err, "the plan of the child cannot be encoded")
	}
	inputs := child.Inputs
	if clean, found := cl.redact(a, inputs); found {
		inputs = clean
	}
	res.output, res.spawn = nil, &work.Spawn{Agent: child.Agent, File: child.File, Plan: text, Inputs: inputs}
	return res, nil
}

// setAside moves the large state data of a checkpoint from fact i to the values, and returns its size in bytes; 0 if the data
// is small.
func (cl *cleaner) setAside(a *attempt, res *result, i int) int {
	c, ok := res.facts[i].Data.(*events.Checkpointed)
	if !ok || !c.State.MustOffload() {
		return 0
	}
	raw := c.State.Raw
	if clean, found := cl.redact(a, raw); found {
		raw = clean
	}
	light := *c
	light.State = events.Offloaded(raw)
	if res.values == nil {
		res.values = map[string]json.RawMessage{}
	}
	res.values[light.State.Ref()] = raw
	res.facts[i].Data = &light
	return len(raw)
}

func (cl *cleaner) cleanNote(a *attempt, note json.RawMessage) json.RawMessage {
	if clean, found := cl.redact(a, note); found {
		return clean
	}
	return note
}

// cleanerOf returns clean for the texts of one call.
func (cl *cleaner) cleanerOf(a *attempt) func(string) string {
	return func(text string) string { return cl.clean(a, text) }
}

// truncate truncates text to at most limit bytes and adds an ellipsis.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func tooLarge(field string, limit int) error {
	return fault.New(fault.ValidationError, "is larger than %d bytes", limit).
		WithField(field).WithReason("SIZE_LIMIT_EXCEEDED").WithHint("ask for less at a time")
}

// result is the result of a successful call, without secrets.
type result struct {
	output json.RawMessage
	facts  []events.Event
	values map[string]json.RawMessage
	spawn  *work.Spawn
	// agentCall is set instead of the output for a call that is handed to an agent.
	agentCall *work.AgentCall
}

// The limits in bytes for texts that leave the worker.
const (
	maxName    = 64
	maxMessage = 4 << 10
)

// maxDepth limits the nesting of an output. A reader must be able to decode the commit that contains it, and people see it
// indented.
const maxDepth = 256
