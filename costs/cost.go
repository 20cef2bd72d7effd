// Package costs counts what requests to language models cost, from the events of the log.
//
// Of returns what an event has cost. A Book sums these costs by day, model, agent, identity and labels, in bounded memory, and keeps
// for each Budget what was spent in its period. Both are pure: package stats calls a Book once for each commit of the log, and
// stores it for the next start.
package costs

import (
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// Sum is what some requests to models cost.
type Sum struct {
	// Turns counts the answers.
	Turns int64 `json:"turns"`
	// NanoUSD is the cost of the answers in billionths of a US dollar.
	NanoUSD int64 `json:"nano_usd"`
	// Usage counts the tokens of the requests with an answer, and of the answers.
	events.Usage

	// Lost counts the answers that were lost on their way. LostNanoUSD and LostTokens are the most that they can have cost.
	Lost        int64 `json:"lost,omitempty"`
	LostNanoUSD int64 `json:"lost_nano_usd,omitempty"`
	LostTokens  int64 `json:"lost_tokens,omitempty"`
}

// Add adds another sum.
func (s *Sum) Add(more Sum) {
	s.Turns += more.Turns
	s.NanoUSD = events.Add(s.NanoUSD, more.NanoUSD)
	s.Input = events.Add(s.Input, more.Input)
	s.CacheRead = events.Add(s.CacheRead, more.CacheRead)
	s.CacheWrite = events.Add(s.CacheWrite, more.CacheWrite)
	s.Output = events.Add(s.Output, more.Output)
	s.Lost += more.Lost
	s.LostNanoUSD = events.Add(s.LostNanoUSD, more.LostNanoUSD)
	s.LostTokens = events.Add(s.LostTokens, more.LostTokens)
}

// Most returns the most that the requests can have cost: what their answers cost, and what was lost.
func (s Sum) Most() events.Spent {
	return events.Spent{NanoUSD: events.Add(s.NanoUSD, s.LostNanoUSD), Tokens: events.Add(s.Total(), s.LostTokens)}
}

// Cost is what a request to a model has cost, or can have cost if its answer was lost.
type Cost struct {
	Sum

	At   time.Time
	Task events.TaskID
	// Models are the model that has answered, or those that were asked if the answer was lost.
	Models []string
	// Agent is the name of the plan and the agent step.
	Agent string
	Origin
}

// Origin says for whom a task works: it is that of its topmost parent.
type Origin struct {
	// Identity is who submitted the topmost parent, Labels are its labels.
	Identity string
	Labels   map[string]string
}

// OriginOf returns for whom a task works.
func OriginOf(t *statemachine.Task) Origin {
	p := t.Submitted.Parent
	if p == nil || p.Requester == "" {
		return Origin{t.Requestor, t.Submitted.Labels}
	}
	return Origin{p.Requester, p.Labels}
}

// Of returns what an event has cost; false if it is about no request to a model, or one that another task has paid. t is the task before
// the event, at the time of its commit.
func Of(t *statemachine.Task, at time.Time, e events.Event) (Cost, bool) {
	switch e.Kind {
	case events.TurnAnswered, events.TurnLost, events.StepCancelled:
	default:
		return Cost{}, false
	}
	step := statemachine.AgentOf(events.StepOf(e.Data))
	s := t.Steps[step]
	if s == nil || s.Agent == nil {
		return Cost{}, false
	}
	c := Cost{At: at, Task: t.ID, Agent: agentName(t, step), Origin: OriginOf(t)}
	switch d := e.Data.(type) {
	case *events.Answered:
		asked := t.Steps[statemachine.ModelKey(step, d.Turn)]
		if asked == nil || asked.Reused() {
			return Cost{}, false
		}
		models := s.Agent.Spec.ModelNames()
		c.Models = models[min(max(d.Model, 0), len(models)-1):][:1]
		c.Sum = Sum{Turns: 1, NanoUSD: d.NanoUSD, Usage: d.Usage}
	case *events.LostTurn:
		c.lose(s.Agent, d.Cost)
	case *events.Skipped:
		if !unheard(t, s, d.Step) {
			return Cost{}, false
		}
		c.lose(s.Agent, s.Agent.Reserved)
	default:
		return Cost{}, false
	}
	return c, true
}

// lose counts an answer that was lost.
func (c *Cost) lose(a *statemachine.Agent, most events.Spent) {
	c.Models = a.Spec.ModelNames()
	c.Sum = Sum{Lost: 1, LostNanoUSD: most.NanoUSD, LostTokens: most.Tokens}
}

// unheard reports whether the cancellation of a step loses an answer that the provider may have billed: the model is being asked, or it
// has answered and the answer is not recorded.
func unheard(t *statemachine.Task, agent *statemachine.Step, cancelled string) bool {
	last := agent.Agent.Last()
	if last == nil || agent.Agent.Phase != statemachine.AgentAsking {
		return false
	}
	key := statemachine.ModelKey(agent.Key, last.Requested.Turn)
	switch asked := t.Steps[key]; {
	case asked == nil:
		return false
	case cancelled == key:
		return asked.State == statemachine.StepRunning
	default:
		return cancelled == agent.Key && asked.State == statemachine.StepSucceeded
	}
}

// The names of the tasks of agent files begin with fileName. The step of an agent file is fileStep.
const (
	fileName = "agent "
	fileStep = "agent"
)

// agentName returns the name of the agent file, or that of the plan and the agent step, without the items of a for_each.
func agentName(t *statemachine.Task, step string) string {
	step = step[strings.LastIndexByte(step, '.')+1:]
	name := strings.TrimPrefix(t.Submitted.Name, events.PartName)
	if file, ok := strings.CutPrefix(name, fileName); ok && step == fileStep {
		return file
	}
	if name == "" {
		return step
	}
	return name + "/" + step
}
