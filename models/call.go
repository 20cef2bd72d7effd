package models

import "time"

// CallTool is the tool that asks a model.
const CallTool = "MODEL_CALL"

// ReasonTooLong is the reason of the error of CallTool when a request does not fit into the context of the model.
const ReasonTooLong = "CONTEXT_TOO_LONG"

// The reasons of errors of CallTool about answers that may be billed, and that nobody asks for again in the same way.
const (
	// ReasonOverrun means that the context of the model was full while it answered.
	ReasonOverrun = "CONTEXT_OVERRUN"
	// ReasonTooLarge means that the answer exceeds a limit.
	ReasonTooLarge = "SIZE_LIMIT_EXCEEDED"
)

// CallTimeout is the time limit of a call of CallTool. A provider ends answers that stand still much earlier.
const CallTimeout = 15 * time.Minute

// CallArgs are the arguments of CallTool. The conversation itself is in the history of the task.
type CallArgs struct {
	// Step is the key of the agent step, Turn the number of the turn.
	Step string `json:"step" jsonschema:"Key of the agent step"`
	Turn int    `json:"turn" jsonschema:"Number of the turn" minimum:"1"`
	// Conversation is the digest of the conversation.
	Conversation string `json:"conversation" jsonschema:"Digest of the conversation"`
}

// Called is the output of CallTool.
type Called struct {
	// Model is the position of the model that answered in the list of the agent.
	Model  int    `json:"model" jsonschema:"Position of the model that answered"`
	Answer Answer `json:"answer" jsonschema:"The answer"`
}
