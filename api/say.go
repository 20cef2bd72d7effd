package api

import "github.com/orch-dev/orch/events"

// MaxSaid is the maximum size of a message to an agent, in bytes.
const MaxSaid = 1 << 20

// SayRequest says something to an agent. Its model hears it in its next turn.
type SayRequest struct {
	ID events.TaskID `json:"id"`
	// Step is the key of the agent step. It may be empty if the task has only one.
	Step string `json:"step,omitempty"`
	// Text is at most MaxSaid bytes. It may be empty if End is set.
	Text string `json:"text,omitempty"`
	// End lets an agent that chats end with its next answer, or with its last one if it waits and there is no text.
	End   bool   `json:"end,omitempty"`
	Actor string `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}

// ActorFields returns the field that names who acts.
func (r *SayRequest) ActorFields() []*string { return []*string{&r.Actor} }
