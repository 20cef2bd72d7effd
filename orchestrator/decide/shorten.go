package decide

import (
	"fmt"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// This file handles requests that are too long for the model. Such a turn is refused: it costs nothing, and sets a limit for the
// conversation that is half of what was too long. A shortened compaction follows. It shows the conversation as one text of excerpts,
// which fits into the limit whatever its parts are, and its answer replaces that part of the conversation. Then the turn is asked again.

const (
	// maxRefused is how many requests in a row may be too long. Each makes the limit smaller.
	maxRefused = 6
	// leastLimit is the smallest limit of a conversation, in tokens.
	leastLimit = 500
	// summarizeExcerpts asks for a summary of at most some words.
	summarizeExcerpts = summarize + " Use at most %d words."
)

// refused records that the request of the current turn is too long for the model, with its answer or without, so that the conversation
// is shortened. It returns false if that is not why the model did not answer, or if a shorter conversation does not help.
func (t turns) refused(err *fault.Error) bool {
	a := t.agent()
	limit := a.Limit()
	switch before := refusedInRow(a.Turns[:len(a.Turns)-1]); {
	case err == nil || err.Reason != models.ReasonTooLong && err.Reason != models.ReasonOverrun, a.Turns[0].Answered == nil, before == maxRefused-1:
		return false
	case limit != nil && limit.CompactAt <= leastLimit:
		return false
	default:
		next := t.lengthOf(a.Last().Requested) / 2
		if limit != nil {
			next = min(next, limit.CompactAt/2)
		}
		if before > 0 {
			next = min(next, limit.CompactAt/4)
		}
		t.Emit(events.TurnRefused, &events.RefusedTurn{Step: t.step.Key, Turn: a.Last().Requested.Turn, CompactAt: max(next, leastLimit)})
		return true
	}
}

// refusedInRow counts the refused turns since the last answer that is no summary.
func refusedInRow(turns []statemachine.Turn) (n int) {
	for _, turn := range slices.Backward(turns) {
		switch {
		case turn.Refused != nil:
			n++
		case !isCompaction(turn):
			return n
		}
	}
	return n
}

// refusedIn counts refused turns.
func refusedIn(turns []statemachine.Turn) (n int) {
	for _, turn := range turns {
		if turn.Refused != nil {
			n++
		}
	}
	return n
}

// refusedBefore returns the turn whose refusal has led to the shortened compaction turn; 0 if turn is none. Compactions in between were
// refused as well.
func refusedBefore(turns []statemachine.Turn, turn int) int {
	refused := 0
	for at := turn - 1; at > 0 && turns[at-1].Refused != nil; at-- {
		refused = at
	}
	return refused
}

// lengthOf estimates the tokens of the request of a turn.
func (t turns) lengthOf(turn *events.Turn) int64 {
	counted := known(t.agent().Spec, t.agent().Turns[:turn.Turn-1])
	return counted + max(longest(t.agent().Spec, turn)-overhead-counted, 0)/bytesPerToken
}

// longest returns the most tokens that the request of a turn has.
func longest(spec *events.Agent, turn *events.Turn) int64 {
	return turn.Reserved.Tokens - spec.MaxTokens
}

// shorten asks the model for a summary of a conversation that was too long for it.
func (t turns) shorten() {
	a, limit := t.agent(), t.agent().Limit()
	turn := t.next()
	refused := a.Turns[refusedBefore(a.Turns, turn.Turn)-1].Requested
	last := refused.Turn - 1
	turn.Summarizes = replaced(a, limit, last, t.lengthOf(refused))
	if turn.Summarizes == last && last > oldestTurn(a) && limit.Keep > 0 {
		turn.Summarizes-- // the newest results are shown once more, cut to the new limit
	}
	err := t.limitReached()
	if a.Spec.OnExceeded == plan.OnExceededFinish {
		err = nil // the last answer needs it
	}
	instructions := len(t.Fetch(a.Spec.Instructions))
	said := news{bytes: instructions + excerptsSize(limit, instructions)}
	t.request(turn, said, fmt.Sprintf(summarizeExcerpts, limit.CompactAt/4), err)
}

// excerptsSize returns how many bytes the excerpts of a conversation have at most.
func excerptsSize(limit *events.Context, instructions int) int {
	return max(int(limit.CompactAt)*bytesPerToken-instructions, int(limit.CompactAt))
}

// postponed returns the text that the turn before a compaction would have added, which was refused; "" if there is none.
func (t turns) postponed() string {
	for _, turn := range slices.Backward(t.agent().Turns) {
		switch {
		case isCompaction(turn):
		case turn.Refused == nil || turn.Requested.Final: // at a limit the next turn is final again
			return ""
		default:
			return t.text(turn.Requested.Added)
		}
	}
	return ""
}
