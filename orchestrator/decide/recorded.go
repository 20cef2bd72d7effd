package decide

import (
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/statemachine"
)

// Recorded is a turn of an agent step in its history: the request, of whose messages only the newest one is here, and the answer.
type Recorded struct {
	Asked  models.Request
	Answer models.Answer
	// Refused is set instead if the request was too long for the model.
	Refused bool
}

// RecordedTurn returns a turn, from 1, of an agent step. It returns NOT_FOUND for a turn that has not begun, and for a step whose
// conversation is in another task, and STATE_NOT_ALLOWED for a turn without an answer. Values that are not in memory are added to
// Missing; the turn is then incomplete.
func RecordedTurn(t *Reading, key string, turn int) (Recorded, error) {
	s := t.Task.Steps[key]
	switch {
	case s != nil && s.Agent == nil && s.ReusedFrom() != "":
		return Recorded{}, fault.New(fault.NotFound, "the conversation of step %s of %s is in %s, whose result the step has", key, t.Task.ID, s.ReusedFrom())
	case s == nil || s.Agent == nil || turn > len(s.Agent.Turns):
		return Recorded{}, fault.New(fault.NotFound, "the record ends: the agent of step %s of %s has %s, and turn %d is asked for", key, t.Task.ID, count(turnsOf(s), "turn"), turn)
	case s.Agent.Turns[turn-1].Refused != nil:
		return Recorded{Refused: true}, nil
	case s.Agent.Turns[turn-1].Answered == nil:
		return Recorded{}, noAnswer(t.Task, key, turn)
	}
	rec := Recorded{Asked: conversation{t, upTo(s, turn)}.request(before(turn))}
	if said := rec.Asked.Messages; len(said) > 0 {
		rec.Asked.Messages = said[len(said)-1:]
	}
	rec.Answer = conversation{t, s}.answer(turn)
	rec.Answer.Usage = models.Usage(s.Agent.Turns[turn-1].Answered.Usage)
	return rec, t.OutcomeOf(nil)
}

// upTo returns an agent step as it was when it began a turn.
func upTo(s *statemachine.Step, turn int) *statemachine.Step {
	agent, step := *s.Agent, *s
	agent.Turns = agent.Turns[:turn]
	agent.Refused = refusedIn(agent.Turns)
	step.Agent = &agent
	return &step
}

// before stands for what was said before a turn, which is not read.
func before(turn int) Said {
	if turn == 1 {
		return Said{}
	}
	return Said{Turn: turn - 1, Messages: []models.Message{{Role: models.User}}}
}

func turnsOf(s *statemachine.Step) int {
	if s == nil || s.Agent == nil {
		return 0
	}
	return len(s.Agent.Turns)
}

// noAnswer returns why a turn has no answer.
func noAnswer(t *statemachine.Task, key string, turn int) error {
	asked := t.Steps[statemachine.ModelKey(key, turn)]
	if asked == nil || asked.Error == nil {
		return fault.New(fault.StateNotAllowed, "turn %d of step %s of %s has no answer", turn, key, t.ID).WithField("agent.model")
	}
	return fault.New(fault.StateNotAllowed, "turn %d of step %s of %s has no answer: %s", turn, key, t.ID, asked.Error.Error()).WithField("agent.model")
}
