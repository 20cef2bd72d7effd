package api

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// The limits of a page of a conversation.
const (
	// MaxTurns is the maximum number of turns, DefaultTurns the number without a limit.
	MaxTurns     = 100
	DefaultTurns = 20
	// MaxTurnText is the maximum size of a text in a page with several turns, in bytes. MaxOneTurnText is that of a page of one turn. Longer
	// texts end with a note of what is missing.
	MaxTurnText    = 16 << 10
	MaxOneTurnText = 128 << 10
)

// ConversationRequest asks for the conversation of an agent step with its model.
type ConversationRequest struct {
	ID events.TaskID `json:"id"`
	// Step is the key of the agent step. It may be empty if the task has only one.
	Step string `json:"step,omitempty"`
	// Rev is the revision of the task; 0 is the newest.
	Rev uint64 `json:"rev,omitempty"`
	// From is the first turn, from 1. A negative number counts from the end: -20 begins with the 20th newest turn.
	From int `json:"from,omitempty"`
	// Limit is 1 to MaxTurns turns, DefaultTurns by default.
	Limit int `json:"limit,omitempty"`
}

// ConversationReply is a page of a conversation: what the model sees at first, and turns in order.
type ConversationReply struct {
	ID   events.TaskID `json:"id"`
	Step string        `json:"step"`
	// Rev is the revision that the reply shows.
	Rev   uint64                 `json:"rev"`
	State statemachine.StepState `json:"state"`
	// Reason is why the step has its state, such as that it was cancelled. ReusedFrom is the task whose result the step has; the
	// conversation is in that task.
	Reason     string        `json:"reason,omitempty"`
	ReusedFrom events.TaskID `json:"reused_from,omitempty"`
	Error      *fault.Error  `json:"error,omitempty"`
	// Models are the models to ask, each one when those before it could not answer.
	Models       []string `json:"models"`
	Instructions string   `json:"instructions,omitempty"`
	Prompt       string   `json:"prompt"`
	// Tools are the names of the tools that the model may call.
	Tools  []string           `json:"tools"`
	Limits ConversationLimits `json:"limits"`
	// Used is what the answered turns cost and the tasks that their calls have started, with Carried: what was used before in a task that
	// this one continues, without the turns that it has taken over. Lost is the highest cost of answers that were lost, also in that
	// task; it counts against the limits as well. Reserved is the highest cost of the turn that has no answer yet.
	Used     events.Spent `json:"used"`
	Carried  events.Spent `json:"carried,omitzero"`
	Lost     events.Spent `json:"lost,omitzero"`
	Reserved events.Spent `json:"reserved,omitzero"`
	// Approval is the approval that the agent waits for, because it has reached a limit.
	Approval string `json:"approval,omitempty"`
	// Unheard is what people have said and the model has not heard. Waits is set if the agent waits for a message: it chats, and its
	// model has answered.
	Unheard []SaidView `json:"unheard,omitempty"`
	Waits   bool       `json:"waits,omitempty"`
	// Total is the number of all turns, with those that were refused. Next is the From of the next page, 0 at the end.
	Total int        `json:"total"`
	Turns []TurnView `json:"turns"`
	Next  int        `json:"next,omitempty"`
}

// ConversationLimits are the limits of an agent. Fields that are 0 do not limit it.
type ConversationLimits struct {
	events.Spent

	// MaxTurns limits the turns, with those that were refused.
	MaxTurns int `json:"max_turns"`
	// MaxTokens limits the tokens of one answer.
	MaxTokens int64      `json:"max_tokens"`
	Until     *time.Time `json:"until,omitempty"`
	// OnExceeded is what happens at a limit, such as fail or finish.
	OnExceeded string `json:"on_exceeded,omitempty"`
	// Context limits the conversation; nil for no limit. It is smaller than that of the plan when requests were too long for the model.
	Context *events.Context `json:"context,omitempty"`
}

// SaidView is what a person says to an agent.
type SaidView struct {
	By   string `json:"by"`
	Text string `json:"text"`
}

// TurnState is what happens in a turn.
type TurnState string

// The states of a turn. A failed turn has no answer. The calls of an answered turn have ended. The request of a refused turn was too long
// for the model; a shorter one follows.
const (
	TurnAsking   TurnState = "asking"
	TurnActing   TurnState = "acting"
	TurnAnswered TurnState = "answered"
	TurnFailed   TurnState = "failed"
	TurnRefused  TurnState = "refused"
)

// TurnView is a turn: a request to a model, its answer, and the calls that the model requests.
type TurnView struct {
	Turn  int       `json:"turn"`
	State TurnState `json:"state"`
	// Asks is the key of the step that asks the model. Attempt is the number of its newest attempt.
	Asks    string `json:"asks"`
	Attempt int    `json:"attempt,omitempty"`
	// ReusedFrom is the task from which the answer was taken over, which paid for it.
	ReusedFrom events.TaskID `json:"reused_from,omitempty"`
	// Differs names in what the request differs from the recorded one, of a turn whose answer is from the record of another task.
	Differs []string `json:"differs,omitempty"`
	// Model is the model that has answered. Stop is why the answer ended: end, calls, length, refused or other.
	Model string `json:"model,omitempty"`
	Stop  string `json:"stop,omitempty"`
	// Added is what the turn adds to the conversation beside the results of calls, such as why the last answer is not accepted.
	Added string `json:"added,omitempty"`
	// Heard is what people have said since the turn before.
	Heard []SaidView `json:"heard,omitempty"`
	// Summarizes, if it is not 0, makes the turn a compaction: in later requests its answer replaces the turns up to this one.
	Summarizes int `json:"summarizes,omitempty"`
	// Final is set if the model may call no more tools, because a limit is reached.
	Final bool       `json:"final,omitempty"`
	Text  string     `json:"text,omitempty"`
	Calls []TurnCall `json:"calls,omitempty"`
	// Usage counts the tokens. Estimated is set if the provider does not say them: Usage is then the highest that they can be.
	Usage     *events.Usage `json:"usage,omitempty"`
	Estimated bool          `json:"estimated,omitempty"`
	// NanoUSD is the cost in billionths of a US dollar. Reserved is the highest cost of a turn without an answer.
	NanoUSD int64 `json:"nano_usd,omitempty"`
	// Charged is what the tasks have cost that the calls of the turn have started.
	Charged  events.Spent `json:"charged,omitzero"`
	Reserved events.Spent `json:"reserved,omitzero"`
	// AskedAt is when the newest attempt to ask the model began. Duration is how long its answer took.
	AskedAt  *time.Time    `json:"asked_at,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	// Due is when the model is asked again, after the Error of its newest attempt.
	Due *time.Time `json:"due,omitempty"`
	// Error is why the turn has no answer, or why its texts cannot be read.
	Error *fault.Error `json:"error,omitempty"`
}

// TurnCall is a call that a model requests.
type TurnCall struct {
	// Step is the key of the step of the call.
	Step string `json:"step"`
	Tool string `json:"tool"`
	// Args are the arguments as the model wrote them. They may be no valid JSON.
	Args  string                 `json:"args"`
	State statemachine.StepState `json:"state"`
	// Result is the result as the model sees it, with Failed for an error. It is empty for a call that has not ended.
	Result string `json:"result,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	// Recorded is set if nothing was called: the result is that of a stub, or of an earlier call.
	Recorded bool `json:"recorded,omitempty"`
	// Error is why the call failed.
	Error    *fault.Error  `json:"error,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	Approval string        `json:"approval,omitempty"`
	// Child is the task that the call has started.
	Child events.TaskID `json:"child,omitempty"`
}
