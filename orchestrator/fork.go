package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Fork implements api.Tasks.
func (sm *submitter) Fork(ctx context.Context, r api.ForkRequest) (api.ForkReply, error) {
	if reply, done, err := sm.existingFork(ctx, r); done || err != nil {
		return reply, err
	}
	past, err := sm.pastOf(ctx, r)
	if err != nil {
		return api.ForkReply{}, err
	}
	var f *fork
	var req api.SubmitRequest
	var extra *submitExtra
	err = sm.engine.view(ctx, r.ID, func(t *viewer) error {
		if err := mayFork(t.e, r); err != nil {
			return err
		}
		if f, err = newFork(t.e, past, r); err != nil {
			return err
		}
		sub := t.e.task.Submitted
		req = api.SubmitRequest{ID: r.Fork, Name: sub.Name, Labels: sub.Labels, Priority: sub.Priority, Queue: sub.Queue, Actor: r.Actor, Via: r.Via, Plan: t.e.plan.Program.Plan().JSON()}
		root := sub.Root
		if t.e.imported != nil { // the root is that of another node
			root = ""
		}
		if req.Inputs, err = withInputs(t.Fetch(sub.Inputs), r.Set); err != nil {
			return err
		}
		req.Hook = hookOf(&t.Reading)
		f.continueAgents(&t.Reading, cmp.Or(past, t.e.task), r, req.Inputs)
		reused := f.reused()
		extra = &submitExtra{
			fork: &forkOrigin{r.ID, f.reply.At}, reuse: reused, reads: decide.ReadsOf(cmp.Or(past, t.e.task), reused), agents: f.agents, tools: sub.Tools, within: sub.Within, programs: programsOf(sub),
			root: root, limited: sub.Limited, limitKey: sub.LimitKey, created: new(createdOf(t.e.task)), schedule: sub.Schedule,
		}
		return nil
	})
	if err != nil {
		return api.ForkReply{}, err
	}
	effects, err := sm.effectsOf(ctx, f.program, r.ID) // after the cut, so that it includes what has begun since
	if err != nil {
		return api.ForkReply{}, err
	}
	f.describe(effects)
	if err := f.checkRepeats(r); err != nil {
		return api.ForkReply{}, err
	}
	if r.DryRun {
		_, err := sm.prepare(ctx, req, extra)
		return f.reply, err
	}
	reply, err := sm.submit(ctx, req, extra)
	f.reply.ID, f.reply.State, f.reply.Existing = reply.ID, reply.State, reply.Existing
	return f.reply, err
}

// existingFork answers a repeated request from the task that the first one made. done is false if there is none. It returns CONFLICT if
// the id belongs to another task.
func (sm *submitter) existingFork(ctx context.Context, r api.ForkRequest) (reply api.ForkReply, done bool, err error) {
	if r.Fork == "" {
		return reply, false, nil
	}
	if _, err := events.ParseTaskID(string(r.Fork)); err != nil {
		return reply, false, fault.From(err).WithField("fork")
	}
	err = sm.engine.inspect(ctx, r.Fork, func(e *entry) error {
		if e.task.Submitted.ForkOf != r.ID {
			return fault.New(fault.Conflict, "the id belongs to another task").WithField("fork").WithHint("choose another id, or leave it out")
		}
		reply = recordedFork(e)
		return nil
	})
	if absent(err) {
		return reply, false, nil
	}
	return reply, err == nil, err
}

// recordedFork describes a fork by its own history: what it reuses, and what it runs.
func recordedFork(e *entry) api.ForkReply {
	reply := emptyFork()
	reply.ID, reply.State, reply.Existing, reply.At = e.id, e.task.State, true, e.task.Submitted.ForkAt
	for _, n := range allNodes(e.plan.Program) {
		if s := e.task.Steps[n.ID]; s != nil && s.State == statemachine.StepSucceeded && s.Reused() {
			reply.Reused = append(reply.Reused, n.ID)
		} else {
			reply.Live = append(reply.Live, n.ID)
		}
	}
	return reply
}

func emptyFork() api.ForkReply {
	return api.ForkReply{Reused: []string{}, Live: []string{}, StandsOn: []api.ForkEffect{}, Repeats: []api.ForkEffect{}}
}

// pastOf returns the original at the revision of a request, folded from its history; nil if the request names no revision.
func (sm *submitter) pastOf(ctx context.Context, r api.ForkRequest) (*statemachine.Task, error) {
	rev, err := strconv.ParseUint(r.At, 10, 64)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // it is a step
	}
	if rev == 0 {
		return nil, fault.New(fault.ValidationError, "the first revision is 1").WithField("at")
	}
	replay, err := sm.reader.Replay(ctx, api.ReplayRequest{ID: r.ID, At: rev})
	return replay.Task, err
}

// effectOf returns the effect of a tool; empty for one that only writes to the log of its task. A tool that is not in the catalogue
// any more may have had any effect.
func (sm *submitter) effectOf(tool string) string {
	t, ok := sm.cfg.Catalogue.Get(tool)
	switch {
	case tool == "" || ok && t.Spec().LogOnly:
		return ""
	case !ok:
		return string(tools.Destructive)
	default:
		return string(t.Spec().Effect)
	}
}

// mayFork returns why a task cannot be forked, or nil if it can.
func mayFork(e *entry, r api.ForkRequest) error {
	switch {
	case e.plan.Unusable != nil:
		return e.plan.Unusable
	case e.task.Part != nil:
		return fault.New(fault.StateNotAllowed, "%s is a part of a for_each of %s", r.ID, decide.HomeOf(e.task)).WithHint("orch fork %s", decide.HomeOf(e.task))
	case strings.HasPrefix(e.task.Submitted.Name, api.OwnPrefix):
		return fault.New(fault.StateNotAllowed, "%s is a task of the node itself", r.ID)
	default:
		return nil
	}
}

// withInputs returns inputs with some of them replaced.
func withInputs(inputs json.RawMessage, set map[string]json.RawMessage) (json.RawMessage, error) {
	if len(set) == 0 {
		return inputs, nil
	}
	all := map[string]json.RawMessage{}
	if len(inputs) > 0 {
		if err := json.Unmarshal(inputs, &all); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the recorded inputs are not an object")
		}
	}
	maps.Copy(all, set)
	return json.Marshal(all)
}

// forkOrigin is the task that a fork stands on, and the revision.
type forkOrigin struct {
	task events.TaskID
	at   uint64
}

// fork is a fork that is being planned.
type fork struct {
	origin  events.TaskID
	program *plan.Program
	// past are the top-level steps of the original at the cut. It is a copy: the original may go on.
	past map[string]pastStep
	live map[string]bool
	// agents are the live agent steps that go on where they stood at the cut.
	agents []*decide.Continued
	reply  api.ForkReply
}

// pastStep is a step of the original at the cut.
type pastStep struct {
	state  statemachine.StepState
	output events.Value
}

// stepsAt copies what a fork needs of the top-level steps of a task.
func stepsAt(t *statemachine.Task, p *plan.Program) map[string]pastStep {
	past := map[string]pastStep{}
	for _, n := range p.Steps() {
		if s := t.Steps[n.ID]; s != nil {
			past[n.ID] = pastStep{state: s.State, output: s.Output}
		}
	}
	return past
}

// newFork plans a fork of a task. past is nil for the newest revision.
func newFork(e *entry, past *statemachine.Task, r api.ForkRequest) (*fork, error) {
	p, cut := e.plan.Program, ""
	if past == nil {
		past = e.task
		var call string
		if cut, call = statemachine.SplitCall(r.At); call != "" {
			if err := checkTurn(past, r.At); err != nil {
				return nil, err
			}
		}
	}
	f := &fork{origin: e.id, program: p, past: stepsAt(past, p), live: map[string]bool{}, reply: emptyFork()}
	f.reply.At = past.Rev
	for field, step := range map[string]string{"at": cut, "live_from": r.LiveFrom} {
		if step != "" && p.Node(step) == nil {
			return nil, fault.New(fault.NotFound, "the plan has no step %q", decide.Clip(step)).WithField(field)
		}
	}
	changed := slices.Collect(maps.Keys(r.Set))
	for _, n := range p.Steps() {
		f.live[n.ID] = f.past[n.ID].state != statemachine.StepSucceeded || n.ID == cut || n.ID == r.LiveFrom || n.ReadsAny(changed)
	}
	for _, n := range slices.Concat(p.Verify(), p.Always()) {
		f.live[n.ID] = true // what checks and ends a task runs in each
	}
	f.spread()
	return f, nil
}

// continueAgents lets live agents go on where they stood at the cut, unless the request names them, or they need a live step. At
// the cut STEP.tN the agent of a step goes on with turn N.
func (f *fork) continueAgents(t *decide.Reading, past *statemachine.Task, r api.ForkRequest, inputs json.RawMessage) {
	f.agents = nil
	step, before := statemachine.SplitTurn(r.At)
	for _, n := range f.program.Steps() {
		named := n.ID == r.At || n.ID == r.LiveFrom
		if !f.live[n.ID] || named || slices.ContainsFunc(n.Needs, func(id string) bool { return f.live[id] }) {
			continue
		}
		limit := 0
		if n.ID == step {
			limit = before
		}
		if c := t.Continue(past, n.ID, inputs, limit); c != nil {
			f.agents = append(f.agents, c)
		}
	}
}

// checkTurn returns NOT_FOUND for a cut STEP.tN if the agent of the step has not asked its model N times.
func checkTurn(t *statemachine.Task, at string) error {
	step, turn := statemachine.SplitTurn(at)
	s := t.Steps[step]
	switch {
	case s == nil || s.Agent == nil:
		return fault.New(fault.NotFound, "%q is neither a step nor a turn of an agent step", decide.Clip(at)).WithField("at").
			WithHint("a turn is written as STEP.tN, such as review.t3")
	case turn > len(s.Agent.Turns):
		return fault.New(fault.NotFound, "the agent of step %s has %d turns, and no turn %d", step, len(s.Agent.Turns), turn).WithField("at")
	}
	return nil
}

// stands reports whether the call with a key is taken over with its agent.
func (f *fork) stands(key string) bool {
	return slices.ContainsFunc(f.agents, func(c *decide.Continued) bool { return c.Stands(key) })
}

// spread makes live what needs a live step, and an approve step that covers calls of one or that one needs: its grant belongs to the
// original.
func (f *fork) spread() {
	steps := f.program.Steps()
	for grown := true; grown; {
		grown = false
		for _, n := range steps {
			needs := slices.ContainsFunc(n.Needs, func(id string) bool { return f.live[id] })
			if !f.live[n.ID] && (needs || coversAny(n, f.live)) {
				f.live[n.ID], grown = true, true
			}
		}
	}
	for _, n := range steps {
		asked := func(dependant int) bool { return f.live[steps[dependant].ID] }
		if n.Kind == plan.KindApprove && slices.ContainsFunc(n.Dependants, asked) {
			f.live[n.ID] = true // what else needs it has its result already
		}
	}
}

// describe lists the steps of the fork and the effects of the original, by step.
func (f *fork) describe(effects map[string][]api.ForkEffect) {
	for _, c := range f.agents {
		f.reply.Continued = append(f.reply.Continued, api.ContinuedAgent{Step: c.Step, Turn: c.Turns + 1})
	}
	for _, n := range allNodes(f.program) {
		if f.live[n.ID] {
			f.reply.Live = append(f.reply.Live, n.ID)
			for _, e := range effects[n.ID] {
				if f.stands(e.Step) {
					f.reply.StandsOn = append(f.reply.StandsOn, e)
				} else {
					f.reply.Repeats = append(f.reply.Repeats, e)
				}
			}
			continue
		}
		f.reply.Reused = append(f.reply.Reused, n.ID)
		f.reply.StandsOn = append(f.reply.StandsOn, effects[n.ID]...)
	}
}

// reused returns the recorded results that the fork reuses.
func (f *fork) reused() []events.Reused {
	var list []events.Reused
	for _, n := range f.program.Steps() {
		if !f.live[n.ID] {
			list = append(list, events.Reused{Step: n.ID, From: f.origin, Output: f.past[n.ID].output})
		}
	}
	return list
}

// checkRepeats returns an error for a step in the request that the plan does not have, and for a fork that would repeat effects which
// the request does not allow. A dry run shows them instead.
func (f *fork) checkRepeats(r api.ForkRequest) error {
	for _, step := range r.Repeat {
		if step != api.RepeatAll && f.program.Node(step) == nil {
			return fault.New(fault.NotFound, "the plan has no step %q", decide.Clip(step)).WithField("repeat")
		}
	}
	if r.DryRun || slices.Contains(r.Repeat, api.RepeatAll) {
		return nil
	}
	var steps []string
	for _, e := range f.reply.Repeats {
		top := cmp.Or(decide.ItemOf(e.Step), statemachine.AgentOf(e.Step))
		if !slices.Contains(r.Repeat, top) && !slices.Contains(steps, top) {
			steps = append(steps, top)
		}
	}
	if len(steps) == 0 {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "the fork would repeat what had effects in %s: %s", f.origin, decide.Clip(strings.Join(steps, ", "))).
		WithField("repeat").WithReason(api.ReasonRepeats).WithHint("allow it with --repeat STEP, or --repeat all; --dry-run shows the effects")
}
