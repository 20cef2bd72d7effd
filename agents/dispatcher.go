package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/work"
)

// Chain runs the checks of the node before a call.
type Chain interface {
	// Pass runs the checks of a call for an actor. If AgentCall of the outcome is set, the agent must execute the call;
	// any other outcome ends the attempt.
	Pass(ctx context.Context, actor string, call work.Call) (work.Outcome, error)
	// Vet returns the output of a call without secrets, or VALIDATION_ERROR when it is too large.
	Vet(output json.RawMessage) (json.RawMessage, error)
}

// Assignment is a call that is assigned to an agent.
type Assignment struct {
	work.Ref

	// Call is Ref as a string. The agent sends it with the requests that it makes during the call.
	Call string `json:"call"`
	// Key is the idempotency key of the call: it is the same for every attempt.
	Key string `json:"key"`
	// Name is the name of the task.
	Name string `json:"name,omitempty"`
	// TraceParent is the position of the call in the trace of its task, as W3C Trace Context writes it.
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is the tracestate of the program that submitted the task; empty for none.
	TraceState string `json:"tracestate,omitempty"`
	// Handover names the agent that handed the call over, and its reason; "" if no agent did.
	Handover string `json:"handover,omitempty"`
	// HandoverData is the JSON value that an agent handed over with the call; nil for none.
	HandoverData json.RawMessage `json:"handover_data,omitempty"`
	// Args are the arguments of AGENT_TASK.
	Args json.RawMessage `json:"args"`
	// Deadline is when the call times out. Lease is how long the agent may go without a heartbeat.
	Deadline time.Time     `json:"deadline"`
	Lease    time.Duration `json:"lease"`
	// Remaining is the time until Deadline, for agents whose clock differs from the clock of the node.
	Remaining time.Duration `json:"left"`

	startedAt time.Time
	// confirmedAt is when the agent last named the call; zero if it never did. instance is the process that named it, or that
	// asked for it in an exchange.
	confirmedAt time.Time
	instance    string
	// redeliveries counts how often the call was delivered again, so that the loss of an answer does not affect a later
	// answer.
	redeliveries int
}

// Claim is a request for work.
type Claim struct {
	// Free is how many calls the agent can accept now. An agent at its limit claims with 0, to learn immediately which
	// calls it must stop.
	Free int `json:"free"`
	// Wait is how long to wait for work; at most 30 s.
	Wait time.Duration `json:"wait,omitempty"`
	// Has lists the calls that the agent works on. An assigned call that the agent has never listed was lost in
	// transit; it is delivered again. A call that the agent listed before, but not now, was lost by the agent; it ends
	// when its lease expires.
	Has []work.Ref `json:"has,omitempty"`
	// Instance identifies the process of the agent: a random string of at most 64 bytes, or "". When the agent starts a
	// new process, the calls that only the previous process listed are lost immediately, and all further requests of
	// the previous process are refused.
	Instance string `json:"instance,omitempty"`
}

// Work is the answer to a claim or a heartbeat.
type Work struct {
	Calls []Assignment `json:"calls,omitempty"`
	// Stop are calls that the agent must stop now, without a report.
	Stop []work.Ref `json:"stop,omitempty"`
}

// Heartbeat reports that an agent is alive, and which calls it works on.
type Heartbeat struct {
	// Error describes a problem of the agent; "" for none.
	Error string               `json:"error,omitempty"`
	Calls []work.CallHeartbeat `json:"calls,omitempty"`
	// Instance is as in Claim.
	Instance string `json:"instance,omitempty"`
	// Leaving is true when the agent exits: it is offline until its next request.
	Leaving bool `json:"leaving,omitempty"`
}

// Report reports the end of a call.
type Report struct {
	work.Ref

	// Result is the result of the call, any JSON value; Summary describes it in one line. A report without Error,
	// Release and HandTo must set at least one of the two; a missing result is null.
	Result  json.RawMessage `json:"result,omitempty"`
	Summary string          `json:"summary,omitempty"`
	// Error is why the call failed; "" if it did not.
	Error string `json:"error,omitempty"`
	// Release makes the call available again to all agents that may claim it, and counts no failure. If Unsure is set,
	// a call with effects is not repeated: it is in doubt.
	Release bool `json:"release,omitempty"`
	Unsure  bool `json:"unsure,omitempty"`
	// HandTo hands the call over to other agents. Error is the reason.
	HandTo *events.Agents `json:"hand_to,omitempty"`
	// Data is passed to the agent that gets the call next: any JSON value of at most 64 KiB. It requires HandTo or
	// Release.
	Data json.RawMessage `json:"data,omitempty"`
}

// Dispatcher assigns work to agents and accepts their reports. All methods are safe for concurrent use.
type Dispatcher struct {
	owner    work.Owner
	chain    Chain
	registry *Registry
	clock    func() time.Time

	mu sync.Mutex
	// assigned contains the calls of each agent, instances its newest process, both by agent id.
	assigned  map[string][]Assignment
	instances map[string]*instanceRecord
	// turns contains the waiting exchange of each agent, by its id.
	turns map[string]*turn
}

// NewDispatcher returns a dispatcher.
func NewDispatcher(owner work.Owner, chain Chain, registry *Registry) *Dispatcher {
	d := &Dispatcher{
		owner: owner, chain: chain, registry: registry, clock: registry.cfg.Clock, assigned: map[string][]Assignment{}, instances: map[string]*instanceRecord{}, turns: map[string]*turn{},
	}
	registry.OnSweep(d.dropRemoved)
	return d
}

// The HTTP paths for agents. All accept a POST with a JSON object and the credential as a bearer token.
const (
	// StatusPath accepts a Heartbeat and answers with Work.
	StatusPath = "/agents/status"
	// TasksPath accepts a Claim and answers with Work as soon as there is any.
	TasksPath = "/agents/tasks"
	// ResultsPath accepts a Report and answers with {} when it is durable.
	ResultsPath = "/agents/results"
	// CredentialPath accepts a Renewal and answers with a new credential. The old credential becomes invalid.
	CredentialPath = "/agents/credential" //nolint:gosec // a path
)

// maxWait is how long a claim may wait.
const maxWait = 30 * time.Second

// Claim returns calls for the agent to execute (S3-085). Errors: UNAVAILABLE when the node is stopping,
// VALIDATION_ERROR for an invalid claim, CONFLICT when another process acts for the agent.
func (d *Dispatcher) Claim(ctx context.Context, m Member, c Claim) (Work, error) {
	switch {
	case c.Free < 0, c.Free == 0 && len(c.Has) == 0:
		return Work{}, fault.New(fault.ValidationError, "must be at least 1 for an agent that has no calls").WithField("free")
	case c.Wait < 0:
		return Work{}, fault.New(fault.ValidationError, "must not be negative").WithField("wait")
	case len(c.Has) > MaxTasks:
		return Work{}, tooMany("has")
	}
	if err := d.updateInstance(ctx, m, c.Instance, c.Has); err != nil {
		return Work{}, err
	}
	d.registry.markPresent(m.ID)
	d.registry.setCalls(m.ID, c.Has)
	return d.take(ctx, m, c, "")
}

// take returns calls for an agent: those that were lost on their way to it, or else new ones. The new ones belong to the
// process instance; with "" they belong to the process that names them first.
func (d *Dispatcher) take(ctx context.Context, m Member, c Claim, instance string) (Work, error) {
	lost, err := d.redeliverLost(ctx, m, c)
	if err != nil || len(lost) > 0 {
		return Work{Calls: lost}, err
	}
	batch, err := d.owner.Poll(ctx, work.Poll{
		Worker: m.Actor(), Queues: []string{work.AgentsQueue}, Free: min(c.Free, d.capacity(m, c.Has)), Wait: min(c.Wait, maxWait),
		Agent: &work.Agent{Name: m.Name, Type: m.Type, Capabilities: m.CapabilityNames(), For: m.For},
	})
	if err != nil {
		return Work{}, err
	}
	d.unassignCalls(m, batch.Cancel)
	answer := Work{Stop: batch.Cancel}
	if answer.Calls, err = d.assignAll(ctx, m, batch.Calls, instance); err != nil {
		d.returnBatch(batch.Number)
	}
	return answer, err
}

// atOnce bounds the calls of one request that are assigned or reported concurrently. Each of them waits for the log.
const atOnce = 32

// assignAll assigns the calls of a batch concurrently, and returns those that a check has not ended, in the order of the
// batch. After an error it returns the first error and the calls that were assigned all the same.
func (d *Dispatcher) assignAll(ctx context.Context, m Member, calls []*work.Call, instance string) ([]Assignment, error) {
	passed, errs := make([]*Assignment, len(calls)), make([]error, len(calls))
	concurrently(len(calls), func(i int) { passed[i], errs[i] = d.pass(ctx, m, *calls[i]) })
	var assigned []Assignment
	for _, a := range passed {
		if a != nil {
			a.instance = instance
			assigned = append(assigned, *a)
		}
	}
	if len(assigned) > 0 {
		d.mu.Lock()
		d.assigned[m.ID] = append(d.assigned[m.ID], assigned...)
		d.mu.Unlock()
	}
	return assigned, cmp.Or(errs...)
}

// concurrently calls do for 0 to n-1, at most atOnce at the same time, and waits.
func concurrently(n int, do func(i int)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	group.Wait()
}

// returnBatch puts the calls of a batch that have not started back into the queue, without an event in the log.
func (d *Dispatcher) returnBatch(no uint64) {
	if s, ok := d.owner.(work.Source); ok {
		s.Undelivered(no)
	}
}

// returnCall releases a call that has not started, because the agent no longer waits for the answer.
func (d *Dispatcher) returnCall(ctx context.Context, m Member, call work.Call) error {
	return d.report(ctx, work.Outcome{
		Ref: call.Ref, Worker: m.Actor(), StartedAt: events.Time(d.clock()), Class: fault.ClassShutdown,
		Error: fault.New(fault.Unavailable, "the agent %s has not waited for the call", m.Name),
	})
}

// tooMany returns the error for a list of more calls than an agent can have.
func tooMany(field string) error {
	return fault.New(fault.ValidationError, "has more than %d calls", MaxTasks).WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
}

// redeliverLost returns calls that were lost on their way to the agent and are still assigned to it, at most c.Free.
// Calls that the agent has named are not returned: they may have started, and must not start twice.
func (d *Dispatcher) redeliverLost(ctx context.Context, m Member, c Claim) ([]Assignment, error) {
	lost := d.unconfirmed(m)
	if len(lost) == 0 {
		return nil, nil
	}
	heartbeats := make([]work.CallHeartbeat, len(lost))
	for i, a := range lost {
		heartbeats[i] = work.CallHeartbeat{Ref: a.Ref, Tool: toolName, Undelivered: true}
	}
	reply, err := d.renew(ctx, m, Heartbeat{Calls: heartbeats})
	if err != nil {
		return nil, err
	}
	return d.redeliver(m, lost, reply.Stop, c.Free), nil
}

// pass runs the checks of a call for an agent. If a check ends the call, pass reports its outcome and returns nil. The log
// contains the start of every call before the agent receives the call, so that the owner knows which agent has it. If the
// agent disconnects meanwhile, the call is redelivered later. The checks have a time limit, because they block while the
// log accepts no appends.
func (d *Dispatcher) pass(ctx context.Context, m Member, call work.Call) (*Assignment, error) {
	gone := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // a call must not stay half assigned
	if gone {
		return nil, d.returnCall(ctx, m, call)
	}
	if ended, err := d.rejectInvalidData(ctx, m, call); ended || err != nil {
		return nil, err
	}
	call.Announce = true
	call.Timeout = cmp.Or(call.Timeout, m.Timeout)
	ctx, stop := context.WithTimeout(ctx, min(cmp.Or(call.Lease, maxWait), maxWait))
	defer stop()
	out, err := d.chain.Pass(ctx, m.Actor(), call)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil: // it has not started, so there is nothing to report
		return nil, fault.New(fault.Unavailable, "the call %s of task %s cannot begin now", call.Step, call.Task).WithHint("try again in a moment")
	case out.AgentCall == nil:
		return nil, d.report(ctx, out)
	}
	now := d.clock()
	position, _ := traces.OfCall(call.Trace, call.Task, call.Step, call.Attempt) // the id of a task of the node is valid
	return &Assignment{
		Ref: call.Ref, Call: call.String(), Key: call.Key(), Name: call.Name, TraceParent: position.String(), TraceState: call.TraceState, Handover: call.Handover, HandoverData: call.Handed, Args: out.AgentCall.Args,
		Deadline: events.Time(now.Add(out.AgentCall.Timeout)), Remaining: out.AgentCall.Timeout, Lease: call.Lease, startedAt: now,
	}, nil
}

// report reports an outcome to the owner. A CONFLICT is ignored: the outcome came too late, and the log records that.
func (d *Dispatcher) report(ctx context.Context, o work.Outcome) error {
	if err := d.owner.Report(ctx, o); err != nil && !fault.Has(err, fault.Conflict) {
		return err
	}
	return nil
}

// Heartbeat processes a heartbeat: it renews the leases of the named calls, and ends calls that are past their
// deadline. Errors: VALIDATION_ERROR for more calls than an agent can have, CONFLICT when another process acts for the
// agent.
func (d *Dispatcher) Heartbeat(ctx context.Context, m Member, b Heartbeat) (Work, error) {
	if len(b.Calls) > MaxTasks {
		return Work{}, tooMany("calls")
	}
	problem, err := d.vetText("error", b.Error, maxMessage)
	if err != nil {
		return Work{}, err
	}
	refs := make([]work.Ref, len(b.Calls))
	for i := range b.Calls {
		b.Calls[i].Tool, b.Calls[i].Effect, b.Calls[i].Undelivered, refs[i] = toolName, "", false, b.Calls[i].Ref
	}
	if err := d.updateInstance(ctx, m, b.Instance, refs); err != nil {
		return Work{}, err
	}
	d.registry.MarkSeen(m.ID, b.Error != "", clip(problem))
	d.registry.setCalls(m.ID, refs)
	if b.Leaving {
		d.registry.markLeft(m.ID)
	}
	return d.renew(ctx, m, b)
}

// renew renews the leases of calls, and ends the agent's calls that are past their deadline.
func (d *Dispatcher) renew(ctx context.Context, m Member, b Heartbeat) (Work, error) {
	late := d.overdue(m)
	reply, err := d.owner.Heartbeat(ctx, work.Heartbeat{Worker: m.Actor(), Queues: []string{work.AgentsQueue}, Calls: b.Calls, Final: b.Leaving})
	if err != nil {
		return Work{}, err
	}
	for _, a := range late {
		if err := d.expire(ctx, m, a); err != nil {
			return Work{}, err
		}
		reply.Stop = append(reply.Stop, a.Ref)
	}
	d.unassignCalls(m, reply.Stop)
	return Work{Stop: reply.Stop}, nil
}

// toolName is the tool of all calls that agents execute.
const toolName = "AGENT_TASK"

// expire reports a timeout of a call.
func (d *Dispatcher) expire(ctx context.Context, m Member, a Assignment) error {
	return d.report(ctx, work.Outcome{
		Ref: a.Ref, Worker: m.Actor(), StartedAt: events.Time(a.startedAt), Duration: d.clock().Sub(a.startedAt), Class: fault.ClassTimeout,
		Error: fault.New(fault.Timeout, "the agent %s did not end the call in time", m.Name), Retry: m.retry(),
	})
}
