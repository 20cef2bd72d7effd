package events

import (
	"strings"
	"time"
)

// Checkpointed is the data of checkpoint.created (S0-170).
type Checkpointed struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	State Value     `json:"state"`
	At    time.Time `json:"at"`
}

// beforeCall begins the names of checkpoints that precede destructive calls.
const beforeCall = "before "

// BeforeCall returns the name of the checkpoint that precedes a destructive call.
func BeforeCall(step, tool string) string { return beforeCall + step + " (" + tool + ")" }

// Automatic reports whether a checkpoint has a name of BeforeCall, so that most likely nobody asked for it.
func (c *Checkpointed) Automatic() bool {
	return strings.HasPrefix(c.Name, beforeCall) && strings.HasSuffix(c.Name, ")")
}

// Restored is the data of checkpoint.restored (S0-175).
type Restored struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Resumed is true when the task was resumed with the checkpoint.
	Resumed bool `json:"resumed,omitempty"`
}
