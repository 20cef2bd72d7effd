package events

import "time"

// Checkpointed is the data of checkpoint.created (S0-170).
type Checkpointed struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	State Value     `json:"state"`
	At    time.Time `json:"at"`
}

// Restored is the data of checkpoint.restored (S0-175).
type Restored struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Resumed is true when the task was resumed with the checkpoint.
	Resumed bool `json:"resumed,omitempty"`
}
