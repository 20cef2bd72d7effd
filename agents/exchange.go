package agents

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Exchange is one request of the worker protocol: it reports calls that have ended, keeps those that run, and takes new
// ones.
type Exchange struct {
	// Instance identifies the process, as in Claim. It is required: a call belongs to the process that it was sent to.
	Instance string `json:"instance"`
	// Done reports calls that have ended, Running lists all calls that the process has and whose report was not answered yet.
	Done    []Report  `json:"done,omitempty"`
	Running []Running `json:"running,omitempty"`
	// Take is how many more calls the process takes now. Wait is how long the answer may wait for calls to take or to stop.
	Take int           `json:"take,omitempty"`
	Wait time.Duration `json:"wait,omitempty"`
	// Error and Leaving are as in Heartbeat.
	Error   string `json:"error,omitempty"`
	Leaving bool   `json:"leaving,omitempty"`
}

// Running is a call that a process works on.
type Running struct {
	work.Ref

	Progress *work.Progress `json:"progress,omitempty"`
}

// Exchanged is the answer to an Exchange.
type Exchanged struct {
	// Done has one answer for each report, in their order.
	Done  []Receipt    `json:"done,omitempty"`
	Calls []Assignment `json:"calls,omitempty"`
	// Stop are calls that the process must stop now, without a report.
	Stop []work.Ref `json:"stop,omitempty"`
}

// Receipt answers a report.
type Receipt struct {
	work.Ref

	// Error says why the report was refused; nil when it is durable.
	Error *fault.Error `json:"error,omitempty"`
}

// Exchange processes a request of the worker protocol. It is idempotent: a request that is repeated because its answer was
// lost reports nothing twice, and is answered with the calls of the lost answer. Errors: REQUIRED_FIELD and
// VALIDATION_ERROR for an invalid request, of which nothing was done; CONFLICT when another process acts for the agent.
func (d *Dispatcher) Exchange(ctx context.Context, m Member, e Exchange) (Exchanged, error) {
	problem, err := d.checkExchange(e)
	if err != nil {
		return Exchanged{}, err
	}
	running := e.running()
	if err := d.updateInstance(ctx, m, e.Instance, slices.Concat(running, e.ended())); err != nil {
		return Exchanged{}, err
	}
	d.registry.MarkSeen(m.ID, problem != "", clip(problem))
	d.registry.setCalls(m.ID, running)
	out := Exchanged{Done: d.receive(ctx, m, e.Done)}
	if out.Stop, err = d.keep(ctx, m, e); err != nil || !e.waits() || e.Leaving {
		return out, err
	}
	if out.urgent() {
		e.Wait = 0
	}
	turn, end := d.enterTurn(ctx, m.ID)
	defer end()
	taken, err := d.take(turn, m, Claim{Free: e.Take, Wait: e.Wait, Has: running}, e.Instance)
	if len(taken.Calls) > 0 || turn.Err() != nil && ctx.Err() == nil { // with calls, or replaced by a newer request
		err = nil
	}
	out.Calls = taken.Calls
	for _, ref := range taken.Stop {
		if !slices.Contains(out.Stop, ref) {
			out.Stop = append(out.Stop, ref)
		}
	}
	return out, err
}

// running and ended return the calls that a request keeps, and those that it reports.
func (e *Exchange) running() []work.Ref {
	refs := make([]work.Ref, len(e.Running))
	for i, r := range e.Running {
		refs[i] = r.Ref
	}
	return refs
}

func (e *Exchange) ended() []work.Ref {
	refs := make([]work.Ref, len(e.Done))
	for i, r := range e.Done {
		refs[i] = r.Ref
	}
	return refs
}

// waits reports whether a request takes calls or waits for something. An agent has one such request at a time.
func (e *Exchange) waits() bool { return e.Take > 0 || e.Wait > 0 }

// urgent reports whether an answer must not wait for calls.
func (o *Exchanged) urgent() bool {
	return len(o.Stop) > 0 || slices.ContainsFunc(o.Done, func(r Receipt) bool { return r.Error != nil })
}

// checkExchange validates a request, and returns its error text without secrets.
func (d *Dispatcher) checkExchange(e Exchange) (problem string, err error) {
	switch {
	case e.Instance == "":
		return "", fault.New(fault.RequiredField, "is missing").WithField("instance").WithHint("send a random text that the process makes when it starts")
	case e.Take < 0:
		return "", fault.New(fault.ValidationError, "must not be negative").WithField("take")
	case e.Take > 0 && e.Leaving:
		return "", fault.New(fault.ValidationError, "is not allowed with leaving").WithField("take")
	case e.Wait < 0 || e.Wait > maxWait:
		return "", fault.New(fault.ValidationError, "must be at most %s", maxWait).WithField("wait")
	case len(e.Done) > MaxTasks:
		return "", tooMany("done")
	case len(e.Running) > MaxTasks:
		return "", tooMany("running")
	}
	ended := map[work.Ref]bool{}
	for _, ref := range e.ended() {
		ended[ref] = true
	}
	for i, ref := range e.running() {
		if ended[ref] {
			return "", fault.New(fault.ValidationError, "is reported in done").WithField("running." + strconv.Itoa(i))
		}
	}
	return d.vetText("error", e.Error, maxMessage)
}

// receive processes reports concurrently.
func (d *Dispatcher) receive(ctx context.Context, m Member, reports []Report) []Receipt {
	receipts := make([]Receipt, len(reports))
	concurrently(len(reports), func(i int) {
		receipts[i].Ref = reports[i].Ref
		if err := d.Report(context.WithoutCancel(ctx), m, reports[i]); err != nil {
			receipts[i].Error = fault.From(err)
			if field := receipts[i].Error.Field; field != "" {
				receipts[i].Error = receipts[i].Error.WithField("done." + strconv.Itoa(i) + "." + field)
			}
		}
	})
	return receipts
}

// keep renews the leases of the running calls, and returns those that the process must stop.
func (d *Dispatcher) keep(ctx context.Context, m Member, e Exchange) ([]work.Ref, error) {
	if e.Leaving {
		defer d.registry.markLeft(m.ID)
	}
	if len(e.Running) == 0 && !e.Leaving {
		return nil, nil
	}
	heartbeats := make([]work.CallHeartbeat, len(e.Running))
	for i, r := range e.Running {
		heartbeats[i] = work.CallHeartbeat{Ref: r.Ref, Tool: toolName, Progress: r.Progress}
	}
	reply, err := d.renew(ctx, m, Heartbeat{Calls: heartbeats, Leaving: e.Leaving})
	return reply.Stop, err
}

// turn is an exchange that waits.
type turn struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// enterTurn ends the waiting exchange of an agent, and begins another one after that. So whatever the former answer
// contains was decided before the new request is looked at, and a call that this request does not name was lost. The
// returned context ends when a newer exchange begins.
func (d *Dispatcher) enterTurn(ctx context.Context, agent string) (mine context.Context, end func()) {
	mine, cancel := context.WithCancel(ctx)
	own := &turn{cancel, make(chan struct{})}
	d.mu.Lock()
	former := d.turns[agent]
	d.turns[agent] = own
	d.mu.Unlock()
	if former != nil {
		former.cancel()
		<-former.ended
	}
	return mine, func() {
		cancel()
		d.mu.Lock()
		if d.turns[agent] == own {
			delete(d.turns, agent)
		}
		d.mu.Unlock()
		close(own.ended)
	}
}
