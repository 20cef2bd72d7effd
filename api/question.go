package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// QuestionsRequest filters questions; zero fields do not filter.
type QuestionsRequest struct {
	// ID selects one question, open or not. Task selects the open questions of one task.
	ID   string        `json:"id,omitempty"`
	Task events.TaskID `json:"task,omitempty"`
}

// QuestionsReply lists questions, the first to expire first.
type QuestionsReply struct {
	Questions []QuestionView `json:"questions"`
	// Omitted counts the questions that did not fit: a reply contains at most 1,000.
	Omitted int `json:"omitted,omitempty"`
	// Unread counts the open tasks that could not be read. Their questions are missing here.
	Unread int `json:"unread,omitempty"`
}

// QuestionView is a question of a call as clients see it.
type QuestionView struct {
	ID       string                      `json:"id"`
	Task     events.TaskID               `json:"task"`
	TaskName string                      `json:"task_name"`
	Step     string                      `json:"step"`
	Tool     string                      `json:"tool,omitempty"`
	Key      string                      `json:"key"`
	Kind     string                      `json:"kind"`
	Status   statemachine.QuestionStatus `json:"status"`
	// Params are the parameters of the MCP request. A reply contains at most 2 MiB of parameters. Parameters that do not fit are
	// replaced by {"$omitted": size}; QuestionsRequest with the ID of the question returns them. Of a question that an agent asks
	// the model of an MCP client they have an excerpt of the conversation; with the ID they have all of it, as long as it is open.
	Params    json.RawMessage `json:"params"`
	AskedAt   time.Time       `json:"asked_at"`
	ExpiresAt time.Time       `json:"expires_at"`
	// AnsweredBy and Action are set once the question is answered, Reason if it ended without an answer.
	AnsweredBy string     `json:"answered_by,omitempty"`
	Action     string     `json:"action,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	ClosedAt   *time.Time `json:"closed_at,omitempty"`
}

// AnswerRequest answers a question.
type AnswerRequest struct {
	// ID is the id of the task that the question belongs to; empty for any task. Question is the id of the question.
	ID       events.TaskID `json:"id,omitempty"`
	Question string        `json:"question"`
	// Response is the MCP result: {action, content} for an elicitation, {role, content, model} for a sampling,
	// {roots} for roots.
	Response json.RawMessage `json:"response,omitempty"`
	// Declined declines to answer. The call receives {"action": "decline"} for an elicitation, null for other kinds.
	Declined bool   `json:"declined,omitempty"`
	Actor    string `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}
