package orchestrator

import (
	"context"
	"fmt"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// conversations reads the conversations of agents for the calls that ask their models.
type conversations struct {
	*engine

	// said are the conversations up to the newest turn that was asked for, by task and step. It is a cache: a turn then costs what it
	// adds. saidBytes is about how many bytes it has. engine.mu guards both.
	said      map[conversationKey]saidUpTo
	saidBytes int
}

// saidUpTo are the messages of a conversation up to a turn, with the digest of that turn.
type saidUpTo struct {
	decide.Said

	digest string
	size   int
}

// conversationKey identifies an agent step.
type conversationKey struct {
	task events.TaskID
	step string
}

// maxHeld limits the bytes of conversations in the cache.
const maxHeld = 32 << 20

func newConversations(en *engine) *conversations {
	return &conversations{engine: en, said: map[conversationKey]saidUpTo{}}
}

// ModelRequest returns the request of the current turn of an agent step, the names of the models to ask, and the position of the
// first one: after a failed attempt it is the next model. It returns CONFLICT if the agent is not in the turn of the arguments,
// because another attempt has been faster.
func (c *conversations) ModelRequest(ctx context.Context, id events.TaskID, args models.CallArgs) (r models.Request, names []string, first int, err error) {
	key := conversationKey{id, args.Step}
	var said decide.Said
	if err = c.inspect(ctx, id, func(e *entry) error { said = c.knownOf(key, e.task).Said; return nil }); err == nil {
		said, err = readBefore(ctx, c.engine, id, args.Step, said)
	}
	if err != nil {
		return r, nil, 0, err
	}
	err = c.view(ctx, id, func(v *viewer) error {
		known := c.knownOf(key, v.Task)
		if r, err = v.ModelRequest(args.Step, said); err != nil {
			return err
		}
		agent := v.Task.Steps[args.Step].Agent
		if turn := agent.Last().Requested; turn.Turn != args.Turn || turn.Conversation != args.Conversation {
			return fault.New(fault.Conflict, "the agent of step %s is in turn %d, not in turn %d", args.Step, turn.Turn, args.Turn)
		}
		if len(v.Missing) > 0 {
			return nil // it is read again
		}
		c.hold(key, known, agent.Last().Requested, r.Messages)
		names = agent.Spec.ModelNames()
		first = decide.FirstModel(v.Task.Steps[statemachine.ModelKey(args.Step, args.Turn)], len(names))
		return nil
	})
	return r, names, first, err
}

// maxConversation limits the bytes of a request to a model. No provider accepts as much.
const maxConversation = 64 << 20

// readBefore returns said with more of what is said in an agent step before its newest turn, if that is too much to be read at once: after
// a restart nothing of it is in memory. It reads bit by bit, and returns VALIDATION_ERROR if no model accepts as much.
func readBefore(ctx context.Context, en *engine, id events.TaskID, step string, said decide.Said) (decide.Said, error) {
	for more := true; more; {
		var next decide.Said
		err := en.view(ctx, id, func(v *viewer) error {
			next, more = v.SaidUpTo(step, said)
			return nil
		})
		if err != nil {
			return said, err
		}
		said = next
		if sizeOfMessages(said.Messages) > maxConversation {
			return said, fault.New(fault.ValidationError, "the conversation has more than %d MiB", maxConversation>>20).WithReason(models.ReasonTooLong)
		}
	}
	return said, nil
}

// sizeOfMessages returns about how many bytes messages have.
func sizeOfMessages(messages []models.Message) (size int) {
	for _, m := range messages {
		size += sizeOfMessage(m)
	}
	return size
}

// knownOf returns what is known of the conversation of a step, if it is that of one of its turns. engine.mu must be held.
func (c *conversations) knownOf(key conversationKey, t *statemachine.Task) saidUpTo {
	known := c.said[key]
	s := t.Steps[key.step]
	if known.Turn == 0 || s == nil || s.Agent == nil || known.Turn > len(s.Agent.Turns) ||
		s.Agent.Turns[known.Turn-1].Requested.Conversation != known.digest {
		return saidUpTo{}
	}
	return known
}

// hold stores the messages of a turn. What is known of them before is not measured again, unless a summary has replaced it. When there are too many, it forgets all conversations. engine.mu must be
// held.
func (c *conversations) hold(key conversationKey, known saidUpTo, turn *events.Turn, messages []models.Message) {
	if known.Turn == 0 {
		c.forgetEnded()
	}
	if len(messages) <= len(known.Messages) {
		known = saidUpTo{}
	}
	now := saidUpTo{decide.Said{Turn: turn.Turn, Messages: messages}, turn.Conversation, known.size}
	for _, m := range messages[len(known.Messages):] {
		now.size += sizeOfMessage(m)
	}
	c.saidBytes += now.size - c.said[key].size
	c.said[key] = now
	if c.saidBytes > maxHeld {
		clear(c.said)
		c.saidBytes = 0
	}
}

// forgetEnded forgets the conversations of steps that have ended. engine.mu must be held.
func (c *conversations) forgetEnded() {
	for key, said := range c.said {
		if e := c.tasks[key.task]; e == nil || e.task != nil && e.task.StepState(key.step).Terminal() {
			c.saidBytes -= said.size
			delete(c.said, key)
		}
	}
}

// sizeOfMessage returns about how many bytes a message has.
func sizeOfMessage(m models.Message) int {
	size := 64
	for _, p := range m.Parts {
		size += 128 + len(p.Text)
		switch {
		case p.Call != nil:
			size += len(p.Call.Args)
		case p.Result != nil:
			size += len(p.Result.Content)
		case p.Opaque != nil:
			size += len(p.Opaque.Data)
		case p.Image != nil:
			size += len(p.Image.Data)
		}
	}
	return size
}

// agentText says what an agent does at the moment, and what it has used. Its calls are causes of their own.
func agentText(t *statemachine.Task, s *statemachine.Step) string {
	does := "waits for the calls of its model"
	switch {
	case t.StepState(statemachine.BudgetKey(s.Key, s.Agent.Extensions+1)) == statemachine.StepParked:
		does = "has reached a limit"
	case s.Agent.Waits():
		does = "waits for a message"
	case s.Agent.Phase == statemachine.AgentAsking:
		does = "asks its model"
	}
	text := fmt.Sprintf("Step %s %s in turn %d of at most %d; it has used %d tokens", s.Key, does, len(s.Agent.Turns), s.Agent.Spec.MaxTurns+s.Agent.Refused, s.Agent.Spent.Tokens)
	if s.Agent.Spent.NanoUSD > 0 {
		text += " ($" + events.Dollars(s.Agent.Spent.NanoUSD) + ")"
	}
	if s.Agent.Lost != (events.Spent{}) {
		text += fmt.Sprintf(", and at most %d for answers that were lost", s.Agent.Lost.Tokens)
	}
	return text + "."
}
