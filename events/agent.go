package events

import (
	"fmt"
	"strings"
	"time"
)

// This file holds the payloads about agent steps: loops of a model. The calls of a turn are steps of their own, whose keys
// begin with the key of the agent step: review.t3.m asks the model, review.t3.c1 is the first call that it requests.

// The kinds of events of agent steps.
const (
	// AgentStarted: a model starts to work on a step.
	AgentStarted Kind = "agent.started"
	// TurnRequested: the model is asked for its next answer. TurnAnswered: it has answered.
	TurnRequested Kind = "turn.requested"
	TurnAnswered  Kind = "turn.answered"
	// AgentExtended: a person permits an agent to use more than its budget.
	AgentExtended Kind = "agent.extended"
	// TurnLost: the answer was lost on its way, or the agent has ended meanwhile. The request may have been billed.
	TurnLost Kind = "turn.lost"
	// TurnRefused: the request is too long for the model. It costs nothing, and the agent goes on with a shorter conversation.
	TurnRefused Kind = "turn.refused"
	// AgentTold: a person says something to an agent, or ends its chat.
	AgentTold Kind = "agent.told"
)

// Agent is the data of agent.started.
type Agent struct {
	Step string `json:"step"`
	// Models are the models to ask: each one when those before it could not answer.
	Models []Model `json:"models"`
	// Instructions and Prompt are texts.
	Instructions Value `json:"instructions,omitzero"`
	Prompt       Value `json:"prompt"`
	// Tools is the list of the tools as the model sees them.
	Tools Value `json:"tools,omitzero"`
	// Result is the JSON Schema of the result; zero for text.
	Result      Value    `json:"result,omitzero"`
	MaxTurns    int      `json:"max_turns"`
	MaxTokens   int64    `json:"max_tokens"`
	Temperature *float64 `json:"temperature,omitempty"`
	// Limit is what the agent may use; fields that are 0 do not limit it. Until is when its time is over.
	Limit Spent      `json:"limit,omitzero"`
	Until *time.Time `json:"until,omitempty"`
	// OnExceeded is what happens at a limit: fail, finish or ask.
	OnExceeded string `json:"on_exceeded,omitempty"`
	// Context limits the conversation; nil for no limit.
	Context *Context `json:"context,omitempty"`
	// ReadOn is set if the tools include one that shows more of an earlier result.
	ReadOn bool `json:"read_on,omitempty"`
	// Chat is set if the agent waits for the next message of a person when its model has answered.
	Chat bool `json:"chat,omitempty"`
	// Carried is what the agent has used in the task that this one continues, without the turns that it takes over. Lost is the most that the
	// answers can have cost that were lost there.
	Carried Spent `json:"carried,omitzero"`
	Lost    Spent `json:"lost,omitzero"`
}

// ModelNames returns the names of the models.
func (a *Agent) ModelNames() []string {
	names := make([]string, 0, len(a.Models))
	for _, m := range a.Models {
		names = append(names, m.Name)
	}
	return names
}

// ModelOf returns the name of the model that has given an answer; "" if it is not known.
func (a *Agent) ModelOf(d *Answered) string {
	if d.ModelName == "" && d.Model >= 0 && d.Model < len(a.Models) {
		return a.Models[d.Model].Name
	}
	return d.ModelName
}

// Context limits the conversation of an agent.
type Context struct {
	// CompactAt is the number of tokens of a request from which the conversation is replaced by a summary. Keep is the number of the
	// newest turns that stay as they are, if they have at most half of these tokens.
	CompactAt int64 `json:"compact_at"`
	Keep      int   `json:"keep,omitempty"`
}

// Model is a model with its prices when the agent started.
type Model struct {
	Name  string `json:"name"`
	Price Price  `json:"price,omitzero"`
}

// Price is the price of a model, in billionths of a US dollar for each token.
type Price struct {
	Input      int64 `json:"input,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output,omitempty"`
	// AsOf is the date of the price, such as 2026-11-01.
	AsOf string `json:"as_of,omitempty"`
}

// Of returns the cost of the tokens, in billionths of a US dollar.
func (p Price) Of(u Usage) int64 {
	return sum(times(p.Input, u.Input), times(p.CacheRead, u.CacheRead), times(p.CacheWrite, u.CacheWrite), times(p.Output, u.Output))
}

// Highest returns the cost of a request of at most input tokens with an answer of at most output tokens.
func (p Price) Highest(input, output int64) int64 {
	return Add(times(max(p.Input, p.CacheRead, p.CacheWrite), input), times(p.Output, output))
}

// Usage counts the tokens of a request and its answer.
type Usage struct {
	// Input counts the tokens of the request outside of the cache of the provider, CacheRead and CacheWrite the others.
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Output     int64 `json:"output"`
}

// Request returns the number of the tokens of the request.
func (u Usage) Request() int64 { return sum(u.Input, u.CacheRead, u.CacheWrite) }

// Total returns the number of the tokens of the request and its answer.
func (u Usage) Total() int64 { return Add(u.Request(), u.Output) }

// Spent is what requests to models cost.
type Spent struct {
	// NanoUSD is the cost in billionths of a US dollar.
	NanoUSD int64 `json:"nano_usd,omitempty"`
	Tokens  int64 `json:"tokens,omitempty"`
	// Calls counts the calls of tools.
	Calls int `json:"calls,omitempty"`
}

// Dollars formats billionths of a US dollar, with at least two decimals.
func Dollars(nano int64) string {
	text := fmt.Sprintf("%d.%09d", nano/1e9, nano%1e9)
	return text[:max(len(strings.TrimRight(text, "0")), strings.IndexByte(text, '.')+3)]
}

// Plus returns the sum.
func (s Spent) Plus(more Spent) Spent {
	return Spent{NanoUSD: Add(s.NanoUSD, more.NanoUSD), Tokens: Add(s.Tokens, more.Tokens), Calls: s.Calls + more.Calls}
}

// Minus returns the difference.
func (s Spent) Minus(less Spent) Spent {
	return Spent{NanoUSD: s.NanoUSD - less.NanoUSD, Tokens: s.Tokens - less.Tokens, Calls: s.Calls - less.Calls}
}

// Turn is the data of turn.requested.
type Turn struct {
	Step string `json:"step"`
	// Turn is the number of the turn, from 1.
	Turn int `json:"turn"`
	// Conversation is the digest of the conversation that the model sees, which includes that of the turn before.
	Conversation string `json:"conversation"`
	// Reserved is the highest cost of the request. It counts as spent until the answer is known.
	Reserved Spent `json:"reserved,omitzero"`
	// Added is a text that ends the conversation, such as why the last answer is not accepted.
	Added Value `json:"added,omitzero"`
	// Heard is what people have said to the agent since the turn before.
	Heard []Message `json:"heard,omitempty"`
	// Final is set if the model may call no more tools, because a limit is reached.
	Final bool `json:"final,omitempty"`
	// Summarizes, if it is not 0, makes the turn a compaction: the answer is a summary. In later requests it replaces the turns up to
	// this one.
	Summarizes int `json:"summarizes,omitempty"`
}

// Message is what a person says to an agent.
type Message struct {
	// Text is a text; zero for the end of a chat without one.
	Text Value `json:"text,omitzero"`
	// By is the identity of the person, such as user:ada.
	By string `json:"by"`
}

// Answered is the data of turn.answered.
type Answered struct {
	Step string `json:"step"`
	Turn int    `json:"turn"`
	// Model is the position in Agent.Models of the model that has answered.
	Model int `json:"model,omitempty"`
	// ModelName is the name of that model if it is none of Agent.Models: the turn is from a task whose agent asked other models.
	ModelName string `json:"model_name,omitempty"`
	// Stop is why the answer ended: end, calls, length, refused or other.
	Stop  string `json:"stop"`
	Usage Usage  `json:"usage"`
	// Estimated is set if the provider does not say the tokens: Usage is then the highest that they can be.
	Estimated bool `json:"estimated,omitempty"`
	// NanoUSD is the cost in billionths of a US dollar.
	NanoUSD int64 `json:"nano_usd,omitempty"`
	// Calls is the number of calls that the model requests.
	Calls int `json:"calls,omitempty"`
}

// Cost returns what the turn has cost.
func (d *Answered) Cost() Spent {
	return Spent{NanoUSD: d.NanoUSD, Tokens: d.Usage.Total(), Calls: d.Calls}
}

// LostTurn is the data of turn.lost.
type LostTurn struct {
	Step string `json:"step"`
	Turn int    `json:"turn"`
	// Attempt is the attempt of the call of the model whose answer was lost.
	Attempt int `json:"attempt"`
	// Cost is the highest that the provider may have billed. It counts against the budget.
	Cost Spent `json:"cost,omitzero"`
}

// RefusedTurn is the data of turn.refused. The turn after it is a compaction that shows only excerpts of the conversation.
type RefusedTurn struct {
	Step string `json:"step"`
	Turn int    `json:"turn"`
	// CompactAt limits the conversation from now on, as Context.CompactAt does.
	CompactAt int64 `json:"compact_at"`
}

// Extended is the data of agent.extended. The limits replace those of the agent.
type Extended struct {
	Step string `json:"step"`
	// Approval is the approval that was granted.
	Approval string     `json:"approval"`
	MaxTurns int        `json:"max_turns"`
	Limit    Spent      `json:"limit,omitzero"`
	Until    *time.Time `json:"until,omitempty"`
	// BeyondBudgets is set if the budgets of the node do not hold the agent until its next limit. They count what it uses.
	BeyondBudgets bool `json:"beyond_budgets,omitempty"`
}

// Told is the data of agent.told. The model hears the message in its next turn.
type Told struct {
	Step string `json:"step"`
	Message

	// End is set if the agent ends instead of waiting for another message.
	End bool `json:"end,omitempty"`
}

// Charged is the data of task.charged.
type Charged struct {
	// Step is the step for which the child task was started.
	Step  string `json:"step"`
	Child TaskID `json:"child"`
	// Cost is what the models have cost that the child and the tasks below it have asked, with the most for answers that were lost.
	Cost Spent `json:"cost"`
}

// newAgentPayload returns an empty payload for a kind of this file, or nil.
func newAgentPayload(k Kind) Payload {
	switch k {
	case AgentStarted:
		return new(Agent)
	case TurnRequested:
		return new(Turn)
	case TurnAnswered:
		return new(Answered)
	case TurnLost:
		return new(LostTurn)
	case TurnRefused:
		return new(RefusedTurn)
	case AgentExtended:
		return new(Extended)
	case AgentTold:
		return new(Told)
	case TaskCharged:
		return new(Charged)
	default:
		return nil
	}
}

func (*Agent) payload()       {}
func (*Turn) payload()        {}
func (*Answered) payload()    {}
func (*LostTurn) payload()    {}
func (*RefusedTurn) payload() {}
func (*Extended) payload()    {}
func (*Told) payload()        {}
func (*Charged) payload()     {}
