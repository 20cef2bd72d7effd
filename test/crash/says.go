package crash

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// Say is a message that a client says to the agent of a task.
type Say struct {
	Task events.TaskID
	// Text is unique in a test, also between attempts to say the same; "" only ends the chat.
	Text string
	// End is set if the message ends the chat.
	End bool
	// Acked is set if the node has acknowledged the message. Otherwise the client does not know what has become of it.
	Acked bool
}

// checkHeard compares the messages to the agent of the task with those that the provider of its model has seen (I19).
func (h *history) checkHeard() {
	says := h.says[h.task]
	if len(says) == 0 {
		return
	}
	heard := h.heard()
	if h.state == statemachine.Done {
		h.checkSaid(says, heard)
	} else if slices.ContainsFunc(says, func(s Say) bool { return s.End && s.Acked }) && !h.state.Terminal() {
		h.violate("I19", "its chat is %s, although its end was acknowledged", h.state)
	}
	once := map[string]bool{}
	for _, text := range heard {
		if once[text] {
			h.violate("I19", "%q was heard twice", text)
		}
		once[text] = true
		if !slices.ContainsFunc(says, func(s Say) bool { return s.Text == text }) {
			h.violate("I19", "%q was heard, which nobody has said or the node has refused", text)
		}
	}
}

// checkSaid checks that all acknowledged messages were heard, in order.
func (h *history) checkSaid(says []Say, heard []string) {
	last := -1
	for _, s := range says {
		if !s.Acked || s.Text == "" {
			continue
		}
		at := slices.Index(heard, s.Text)
		switch {
		case at < 0:
			h.violate("I19", "%q was acknowledged, and the model has heard only %q", s.Text, heard)
		case at < last:
			h.violate("I19", "%q was heard before what was said before it, in %q", s.Text, heard)
		}
		last = max(last, at)
	}
}

// heard returns the messages that the models of the task have heard in the end, and checks that no request has other ones than those
// before it, followed by new ones.
func (h *history) heard() (heard []string) {
	for key, s := range h.steps {
		if s.agent == nil {
			continue
		}
		for turn := 1; turn <= s.agent.asked; turn++ {
			for _, r := range h.requests[string(h.task)+"/"+statemachine.ModelKey(key, turn)] {
				if len(r.Heard) < len(heard) || !slices.Equal(r.Heard[:len(heard)], heard) {
					h.violate("I19", "turn %d of step %s hears %q after %q", turn, key, r.Heard, heard)
				}
				heard = r.Heard
			}
		}
	}
	return heard
}
