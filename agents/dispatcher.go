package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Chain takes calls through all gates of the node.
type Chain interface {
	// Pass takes a call through the gates for an actor. The outcome has With when the agent is to make the call; any
	// other is the end of the attempt.
	Pass(ctx context.Context, actor string, call work.Call) (work.Outcome, error)
	// Vet checks what came of a call, and takes the secrets out. VALIDATION_ERROR when it is too large.
	Vet(output json.RawMessage) (json.RawMessage, error)
}

// Assignment is a call in the hands of an agent.
type Assignment struct {
	work.Ref

	// Call is Ref as text: what the agent asks the node for while it has the call names it so.
	Call string `json:"call"`
	// Key is the same for every attempt of the call: whoever does something twice by it does it once.
	Key string `json:"key"`
	// Name is that of the task.
	Name string `json:"name,omitempty"`
	// Handover says which agent has handed the call on, and why; "" for a call that none has.
	Handover string `json:"handover,omitempty"`
	// HandoverData is what an agent has handed over with the call, any JSON value; nil for nothing.
	HandoverData json.RawMessage `json:"handover_data,omitempty"`
	// Args are the arguments of AGENT_TASK.
	Args json.RawMessage `json:"args"`
	// Deadline is when the call is given up, Lease how long the agent may be silent before.
	Deadline time.Time     `json:"deadline"`
	Lease    time.Duration `json:"lease"`
	// Left is how long the call may still take: the clock of the agent may be another one than that of Deadline.
	Left time.Duration `json:"left"`

	began time.Time
	// confirmedAt is when the agent last said that it has the call, zero when it never did; instance is which process of it.
	confirmedAt time.Time
	instance    string
	// redeliveries is how often it was given again: an answer that got lost says nothing of one that came later.
	redeliveries int
}

// Claim asks for work.
type Claim struct {
	// Free is how many calls the agent can take now. An agent that is full claims with 0, to hear at once what it must end.
	Free int `json:"free"`
	// Wait is how long the answer may take when there is nothing; at most 30 s.
	Wait time.Duration `json:"wait,omitempty"`
	// Has are the calls that the agent has. What it was given and has never named was lost on its way, and comes again;
	// what it has named before and does not name now it has lost itself, which ends with the lease.
	Has []work.Ref `json:"has,omitempty"`
	// Instance names the process that speaks, a random text of at most 64 bytes; "" says nothing. What another one has
	// named of the same agent, and this one does not, is lost at once; that one is refused from then on.
	Instance string `json:"instance,omitempty"`
}

// Work answers a claim or a heartbeat.
type Work struct {
	Calls []Assignment `json:"calls,omitempty"`
	// Stop are calls that the agent must end now, without a report.
	Stop []work.Ref `json:"stop,omitempty"`
}

// Heartbeat says that an agent is there, and which calls it has.
type Heartbeat struct {
	// Error is what is wrong with the agent; "" for nothing.
	Error string               `json:"error,omitempty"`
	Calls []work.CallHeartbeat `json:"calls,omitempty"`
	// Instance is that of Claim.
	Instance string `json:"instance,omitempty"`
	// Leaving says that the agent ends: it is offline until it is heard of again.
	Leaving bool `json:"leaving,omitempty"`
}

// Report is the end of a call.
type Report struct {
	work.Ref

	// Result is what came of it, any JSON value; Summary says it in a line. A report without Error, Release and HandTo has
	// one of them: without a result it is null.
	Result  json.RawMessage `json:"result,omitempty"`
	Summary string          `json:"summary,omitempty"`
	// Error is why the call has failed; "" for one that has not.
	Error string `json:"error,omitempty"`
	// Release gives the call back to those that it was for: it counts as no failure. The agent has done nothing that must not be done
	// again, unless it is Unsure: then a call with effects is in doubt.
	Release bool `json:"release,omitempty"`
	Unsure  bool `json:"unsure,omitempty"`
	// HandTo leaves the call to other agents. Error says why.
	HandTo *events.Agents `json:"hand_to,omitempty"`
	// Data is for whoever takes the call next, any JSON value of at most 64 KiB: it goes with HandTo and with Release.
	Data json.RawMessage `json:"data,omitempty"`
}

// Dispatcher hands out work to agents and takes it back. All methods are safe for concurrent use.
type Dispatcher struct {
	owner    work.Owner
	chain    Chain
	registry *Registry
	clock    func() time.Time

	mu sync.Mutex
	// assigned are the calls of each agent, by id, instances the processes that speak for them.
	assigned  map[string][]Assignment
	instances map[string]*instanceRecord
}

// NewDispatcher returns a dispatcher.
func NewDispatcher(owner work.Owner, chain Chain, registry *Registry) *Dispatcher {
	d := &Dispatcher{
		owner: owner, chain: chain, registry: registry, clock: registry.cfg.Clock, assigned: map[string][]Assignment{}, instances: map[string]*instanceRecord{},
	}
	registry.OnSweep(d.drop)
	return d
}

// The paths at which agents speak to the node over HTTP. All take a POST with a JSON object and the credential as a bearer
// token.
const (
	// StatusPath takes a heartbeat, Heartbeat, and answers Work.
	StatusPath = "/agents/status"
	// TasksPath takes Claim and answers Work, as soon as there is any.
	TasksPath = "/agents/tasks"
	// ResultsPath takes Report and answers {} when it is durable.
	ResultsPath = "/agents/results"
	// CredentialPath takes {} and answers another credential: the one that was used ends.
	CredentialPath = "/agents/credential" //nolint:gosec // a path
)

// maxWait is how long a claim may wait.
const maxWait = 30 * time.Second

// Claim returns calls that are for agents like this one (S3-085). UNAVAILABLE when the node is stopping,
// VALIDATION_ERROR for a claim that is none, CONFLICT when another process speaks for the agent.
func (d *Dispatcher) Claim(ctx context.Context, m Member, c Claim) (Work, error) {
	switch {
	case c.Free < 0, c.Free == 0 && len(c.Has) == 0:
		return Work{}, fault.New(fault.ValidationError, "must be at least 1 for an agent that has no calls").WithField("free")
	case c.Wait < 0:
		return Work{}, fault.New(fault.ValidationError, "must not be negative").WithField("wait")
	case len(c.Has) > MaxTasks:
		return Work{}, tooMany("has")
	}
	if err := d.noteInstance(ctx, m, c.Instance, c.Has); err != nil {
		return Work{}, err
	}
	d.registry.touch(m.ID)
	d.registry.names(m.ID, c.Has)
	lost, err := d.lost(ctx, m, c)
	if err != nil || len(lost) > 0 {
		return Work{Calls: lost}, err
	}
	batch, err := d.owner.Poll(ctx, work.Poll{
		Worker: m.Actor(), Queues: []string{work.AgentsQueue}, Free: min(c.Free, d.capacity(m, c.Has)), Wait: min(c.Wait, maxWait),
		Agent: &work.Agent{Name: m.Name, Type: m.Type, Capabilities: m.Names(), For: m.For},
	})
	if err != nil {
		return Work{}, err
	}
	d.forget(m, batch.Cancel)
	answer := Work{Stop: batch.Cancel}
	for _, call := range batch.Calls {
		a, ok, err := d.assign(ctx, m, call)
		if err != nil {
			d.returned(batch.Number)
			return answer, err
		}
		if ok {
			answer.Calls = append(answer.Calls, a)
		}
	}
	return answer, nil
}

// returned gives back the calls of a batch that were not begun, without a word in the log.
func (d *Dispatcher) returned(no uint64) {
	if s, ok := d.owner.(work.Source); ok {
		s.Undelivered(no)
	}
}

// giveBack gives back a call that was not begun, because the agent that has asked is gone.
func (d *Dispatcher) giveBack(ctx context.Context, m Member, call work.Call) error {
	return d.tell(ctx, work.Outcome{
		Ref: call.Ref, Worker: m.Actor(), StartedAt: events.Time(d.clock()), Class: fault.ClassShutdown,
		Error: fault.New(fault.Unavailable, "the agent %s has not waited for the call", m.Name),
	})
}

// tooMany is the error of a list of calls that no agent can have.
func tooMany(field string) error {
	return fault.New(fault.ValidationError, "has more than %d calls", MaxTasks).WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
}

// lost returns the calls that were lost on their way to the agent, as many as it can take, if they are still its own. A
// call that it has named before is none of them: it may have begun, and is not begun twice.
func (d *Dispatcher) lost(ctx context.Context, m Member, c Claim) ([]Assignment, error) {
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

// assign takes a call through the gates. One that ends there is reported. The start is in the log before the agent hears
// of the call, whatever its effect: by that the owner knows whose it is. An agent that goes away meanwhile hears of it
// later; but while the log takes nothing, the way through the gates has no end.
func (d *Dispatcher) assign(ctx context.Context, m Member, call work.Call) (Assignment, bool, error) {
	gone := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // half-way is nowhere
	if gone {
		return Assignment{}, false, d.giveBack(ctx, m, call)
	}
	if ended, err := d.unfit(ctx, m, call); ended || err != nil {
		return Assignment{}, false, err
	}
	call.Announce = true
	call.Timeout = cmp.Or(call.Timeout, m.Timeout)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), min(cmp.Or(call.Lease, maxWait), maxWait))
	defer stop()
	out, err := d.chain.Pass(ctx, m.Actor(), call)
	switch {
	case err != nil:
		return Assignment{}, false, err
	case ctx.Err() != nil: // it was not begun, so nothing is to be said of it
		return Assignment{}, false, fault.New(fault.Unavailable, "the call %s of task %s cannot begin now", call.Step, call.Task).WithHint("try again in a moment")
	case out.AgentCall == nil:
		return Assignment{}, false, d.tell(ctx, out)
	}
	now := d.clock()
	a := Assignment{
		Ref: call.Ref, Call: call.String(), Key: call.Key(), Name: call.Name, Handover: call.Handover, HandoverData: call.Handed, Args: out.AgentCall.Args,
		Deadline: events.Time(now.Add(out.AgentCall.Timeout)), Left: out.AgentCall.Timeout, Lease: call.Lease, began: now,
	}
	d.mu.Lock()
	d.assigned[m.ID] = append(d.assigned[m.ID], a)
	d.mu.Unlock()
	return a, true, nil
}

// tell reports an outcome. One that came too late is dropped: the log notes it.
func (d *Dispatcher) tell(ctx context.Context, o work.Outcome) error {
	if err := d.owner.Report(ctx, o); err != nil && !fault.Has(err, fault.Conflict) {
		return err
	}
	return nil
}

// Heartbeat takes a heartbeat: it renews the leases of the calls that it names, and ends those whose time is over.
// VALIDATION_ERROR for more calls than an agent can have, CONFLICT when another process speaks for the agent.
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
	if err := d.noteInstance(ctx, m, b.Instance, refs); err != nil {
		return Work{}, err
	}
	d.registry.MarkSeen(m.ID, b.Error != "", clip(problem))
	d.registry.names(m.ID, refs)
	if b.Leaving {
		d.registry.leave(m.ID)
	}
	return d.renew(ctx, m, b)
}

// renew renews the leases of calls, and ends those of the agent whose time is over.
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
	d.forget(m, reply.Stop)
	return Work{Stop: reply.Stop}, nil
}

// toolName is the tool whose calls agents make.
const toolName = "AGENT_TASK"

// expire ends a call that has taken too long.
func (d *Dispatcher) expire(ctx context.Context, m Member, a Assignment) error {
	return d.tell(ctx, work.Outcome{
		Ref: a.Ref, Worker: m.Actor(), StartedAt: events.Time(a.began), Duration: d.clock().Sub(a.began), Class: fault.ClassTimeout,
		Error: fault.New(fault.Timeout, "the agent %s did not end the call in time", m.Name), Retry: m.retry(),
	})
}
