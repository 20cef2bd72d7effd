package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// Limits of a page of a conversation, in bytes.
const (
	// maxPageRead limits the values that are read for a page with several turns.
	maxPageRead = 4 << 20
	// maxPageShown limits the texts of a page. A page of one turn shows at least minShown of each of its texts.
	maxPageShown = 1 << 20
	minShown     = 1 << 10
)

// Conversation implements api.Tasks. A revision in the past is folded from the history. The newest one is in memory, and costs as much
// as its page.
func (rd *reader) Conversation(ctx context.Context, r api.ConversationRequest) (reply api.ConversationReply, err error) {
	if r.Limit < 0 || r.Limit > api.MaxTurns {
		return reply, fault.New(fault.ValidationError, "must be 1 to %d", api.MaxTurns).WithField("limit")
	}
	past := rd.past.get(r.ID, r.Rev)
	reply, isPast, err := conversationIn(ctx, rd.engine, past, r)
	if err != nil || !isPast {
		return reply, err
	}
	folded, err := rd.replay(ctx, r.ID, r.Rev)
	if err != nil {
		return reply, err
	}
	rd.past.put(folded.Task)
	reply, _, err = conversationIn(ctx, rd.engine, folded.Task, r)
	return reply, err
}

// conversationIn returns a page of a conversation in past, or in the newest revision of the task if past is nil. isPast is set if the
// request is for an earlier one.
func conversationIn(ctx context.Context, en *engine, past *statemachine.Task, r api.ConversationRequest) (reply api.ConversationReply, isPast bool, err error) {
	err = en.view(ctx, r.ID, func(v *viewer) error {
		switch rev := v.Task.Rev; {
		case past != nil:
			v.Task = past
		case r.Rev > rev:
			return fault.New(fault.NotFound, "the task has %d revisions", rev).WithField("rev")
		case r.Rev > 0 && r.Rev < rev:
			isPast = true
			return nil
		}
		reply, err = v.conversation(r)
		return err
	})
	return reply, isPast, err
}

// pastTask is the task at a revision in the past that was last folded. The pages of a conversation are at one revision. It does not keep
// the task in memory: a page folds it again then.
type pastTask struct {
	mu   sync.Mutex
	task weak.Pointer[statemachine.Task]
}

// get returns a task at a revision; nil if it is not there.
func (p *pastTask) get(id events.TaskID, rev uint64) *statemachine.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.task.Value(); t != nil && t.ID == id && t.Rev == rev {
		return t
	}
	return nil
}

func (p *pastTask) put(t *statemachine.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.task = weak.Make(t)
}

// conversation returns a page of the conversation of an agent step.
func (t *viewer) conversation(r api.ConversationRequest) (api.ConversationReply, error) {
	key, err := agentStep(&t.Reading, r.Step)
	if err != nil {
		return api.ConversationReply{}, err
	}
	reply := api.ConversationReply{
		ID: t.Task.ID, Step: key, Rev: t.Task.Rev, State: statemachine.StepPending, Models: []string{}, Tools: []string{}, Turns: []api.TurnView{},
	}
	s := t.Task.Steps[key]
	if s == nil {
		return reply, nil
	}
	reply.State, reply.Reason, reply.ReusedFrom, reply.Error = s.State, s.Reason, s.ReusedFrom(), s.Error
	if s.Agent == nil { // it has ended before it began, or its result is that of another task
		return reply, nil
	}
	first, limit := turnRange(r, len(s.Agent.Turns))
	page := &turnPage{viewer: t, step: s, longest: api.MaxTurnText, left: maxPageShown}
	if limit == 1 {
		page.longest = api.MaxOneTurnText
	}
	page.head(&reply)
	reply.Turns, reply.Next = page.turns(first, limit)
	return reply, nil
}

// turnRange returns the first turn of a request, from 1, and the number of turns.
func turnRange(r api.ConversationRequest, total int) (first, limit int) {
	first = r.From
	if first < 0 {
		first += total + 1
	}
	return max(first, 1), cmp.Or(r.Limit, api.DefaultTurns)
}

// agentStep returns the key of the agent step of a request: the only one, if the request names none.
func agentStep(t *decide.Reading, key string) (string, error) {
	if key != "" {
		n, s := t.NodeByKey(key), t.Task.Steps[key]
		switch {
		case s != nil && s.Agent != nil, n != nil && n.Kind == plan.KindAgent:
			return key, nil
		case n == nil && s == nil:
			return "", fault.New(fault.NotFound, "the task has no step %q", decide.Clip(key)).WithField("step").WithHint("%s", agentsHint(t))
		default:
			return "", fault.New(fault.ValidationError, "the step %q is no agent", decide.Clip(key)).WithField("step").WithHint("%s", agentsHint(t))
		}
	}
	switch all := agentSteps(t); len(all) {
	case 1:
		return all[0], nil
	case 0:
		return "", fault.New(fault.NotFound, "the task has no agent step").WithField("step")
	default:
		return "", fault.New(fault.NotUnique, "the task has %d agent steps", len(all)).WithField("step").WithHint("%s", agentsHint(t))
	}
}

// agentSteps returns the keys of the agent steps that have begun, and of those of the plan that have not.
func agentSteps(t *decide.Reading) []string {
	var all []string
	for _, n := range allNodes(t.Plan.Program) {
		if n.Kind == plan.KindAgent {
			all = append(all, n.ID)
		}
	}
	for _, key := range t.Task.Order {
		if t.Task.Steps[key].Agent != nil && !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	return all
}

// agentsHint names the agent steps of a task.
func agentsHint(t *decide.Reading) string {
	const most = 5
	all := agentSteps(t)
	if len(all) == 0 {
		return "the task has no agent step"
	}
	text := "its agent steps: " + strings.Join(all[:min(len(all), most)], ", ")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}

// turnPage builds a page of the turns of an agent step.
type turnPage struct {
	*viewer

	step *statemachine.Step
	// longest limits the bytes of a text. left is how many bytes of texts the page may still show.
	longest, left int
}

// head sets what a model sees at first, the limits of the agent and what it has used.
func (p *turnPage) head(reply *api.ConversationReply) {
	a := p.step.Agent
	reply.Models = a.Spec.ModelNames()
	opening := p.Opening(p.step)
	reply.Instructions, reply.Prompt = p.cut(opening.Instructions), p.cut(opening.Prompt)
	reply.Tools = append(reply.Tools, opening.Tools...)
	reply.Limits = api.ConversationLimits{
		Spent: a.Spec.Limit, MaxTurns: a.Spec.MaxTurns + a.Refused, MaxTokens: a.Spec.MaxTokens, Until: a.Spec.Until, OnExceeded: a.Spec.OnExceeded,
		Context: a.Limit(),
	}
	reply.Used, reply.Carried, reply.Lost, reply.Total = a.Spent, a.Spec.Carried, a.Lost, len(a.Turns)
	if !p.step.State.Terminal() {
		reply.Reserved, reply.Approval, reply.Waits = a.Reserved, p.budgetApproval(), a.Waits()
		reply.Unheard = p.said(p.Unheard(p.step))
	}
	if lost := p.OutcomeOf(nil); lost != nil {
		reply.Error = fault.From(lost)
	}
}

// said returns the view of what people have said.
func (p *turnPage) said(heard []decide.Heard) (views []api.SaidView) {
	for _, h := range heard {
		views = append(views, api.SaidView{By: h.By, Text: p.cut(h.Text)})
	}
	return views
}

// budgetApproval returns the approval that the agent waits for because it has reached a limit; "" for none.
func (p *turnPage) budgetApproval() string {
	s := p.Task.Steps[statemachine.BudgetKey(p.step.Key, p.step.Agent.Extensions+1)]
	if s == nil || s.State != statemachine.StepParked {
		return ""
	}
	return s.Approval
}

// turns returns turns from first on, and the number of the next one; 0 at the end. The page ends early if it becomes too large.
func (p *turnPage) turns(first, limit int) (views []api.TurnView, next int) {
	views = []api.TurnView{}
	read := int64(0)
	for n := first; n <= len(p.step.Agent.Turns); n++ {
		read += p.sizeOf(n)
		if len(views) == limit || len(views) > 0 && (p.left <= 0 || read > maxPageRead) {
			return views, n
		}
		views = append(views, p.turn(n))
	}
	return views, 0
}

// sizeOf returns the size of the values of a turn, in bytes.
func (p *turnPage) sizeOf(turn int) (size int64) {
	size = sizeOf(p.Task.Steps[statemachine.ModelKey(p.step.Key, turn)])
	if answered := p.step.Agent.Turns[turn-1].Answered; answered != nil {
		for call := range answered.Calls {
			size += sizeOf(p.Task.Steps[statemachine.CallKey(p.step.Key, turn, call+1)])
		}
	}
	return size
}

// sizeOf returns the size of the output of a step, in bytes.
func sizeOf(s *statemachine.Step) int64 {
	if s == nil {
		return 0
	}
	return s.Output.Len()
}

// turn returns the view of a turn, from 1.
func (p *turnPage) turn(number int) api.TurnView {
	agent := p.step.Agent
	turn := agent.Turns[number-1]
	v := api.TurnView{
		Turn: number, State: p.stateOf(number), Asks: statemachine.ModelKey(p.step.Key, number), Final: turn.Requested.Final,
		Summarizes: turn.Requested.Summarizes,
	}
	p.asked(&v)
	said := p.Exchange(p.step, number)
	v.Heard, v.Added, v.Text, v.Differs = p.said(said.Heard), p.cut(said.Added), p.cut(said.Text), said.Differs
	for _, call := range said.Calls {
		v.Calls = append(v.Calls, p.call(call))
	}
	v.Charged = turn.Charged
	switch {
	case turn.Answered != nil:
		p.answered(&v, turn.Answered)
	case turn.Refused == nil:
		v.Reserved = turn.Requested.Reserved
	}
	if lost := p.OutcomeOf(nil); lost != nil {
		v.Error = fault.From(lost)
	}
	return v
}

// stateOf returns the state of a turn.
func (p *turnPage) stateOf(number int) api.TurnState {
	turn := p.step.Agent.Turns[number-1]
	last, over := number == len(p.step.Agent.Turns), p.step.State.Terminal()
	switch answered := turn.Answered != nil; {
	case turn.Refused != nil:
		return api.TurnRefused
	case !answered && over:
		return api.TurnFailed
	case !answered:
		return api.TurnAsking
	case last && !over && p.step.Agent.Phase == statemachine.AgentActing && p.budgetApproval() == "":
		return api.TurnActing
	default:
		return api.TurnAnswered
	}
}

// asked describes the call that asks the model.
func (p *turnPage) asked(v *api.TurnView) {
	s := p.Task.Steps[v.Asks]
	if s == nil {
		return
	}
	v.Attempt, v.ReusedFrom, v.Duration, v.Error = s.Attempt, s.ReusedFrom(), s.Duration, s.Error
	if !s.CalledAt.IsZero() {
		v.AskedAt = new(s.CalledAt)
	}
	if !s.Due.IsZero() && !s.State.Terminal() {
		v.Due = new(s.Due)
	}
}

// answered describes the answer of the model: who has answered, and what it cost.
func (p *turnPage) answered(v *api.TurnView, a *events.Answered) {
	v.Model = p.step.Agent.Spec.ModelOf(a)
	v.Stop, v.Usage, v.Estimated, v.NanoUSD = a.Stop, &a.Usage, a.Estimated, a.NanoUSD
}

// call describes a call that the model requests.
func (p *turnPage) call(c decide.ExchangedCall) api.TurnCall {
	v := api.TurnCall{Step: c.Key, Tool: c.Request.Name, Args: p.cut(c.Request.Args), State: p.Task.StepState(c.Key)}
	if c.Result != nil {
		v.Result, v.Failed = p.cut(c.Result.Content), c.Result.Failed
	}
	if s := p.Task.Steps[c.Key]; s != nil {
		if v.Tool != plan.HandoffTool { // its step calls TASK_SPAWN, with other arguments
			v.Tool = cmp.Or(s.Tool, v.Tool)
		}
		v.Duration, v.Error, v.Approval, v.Child = s.Duration, s.Error, s.Approval, s.Child
		v.Recorded = s.Reused() || s.State == statemachine.StepSucceeded && s.Attempt == 0
	}
	return v
}

// cut truncates a text to what the page may show of it, with a note of what is missing.
func (p *turnPage) cut(text string) string {
	most := max(min(p.longest, p.left), minShown)
	p.left -= min(len(text), most)
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return fmt.Sprintf("%s\n[%d of %d bytes are shown]", text[:most], most, len(text))
}
