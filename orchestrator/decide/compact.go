package decide

import (
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// bytesPerToken is how many bytes a token of a request has at least, except in texts without words. It estimates what no provider
	// has counted yet.
	bytesPerToken = 2
	// summarize asks a model for a summary, summaryIs introduces it to the model.
	summarize = "The conversation becomes too long. Write a summary that replaces everything before your newest turns. Say what you were asked " +
		"to do, what you have done, what you have found with its exact names, paths, figures and errors, what you have decided and why, and " +
		"what is left to do. Write the summary alone, and call no tools."
	summaryIs = "The conversation so far was too long. This is your summary of it:\n\n"
)

// tooLong returns how many turns a summary has to replace before the next request; 0 if it is short enough. bytes are new in it. The
// turn after a compaction is no compaction.
func (t turns) tooLong(bytes int) int {
	a, limit := t.agent(), t.agent().Limit()
	last := a.Last()
	if limit == nil || last == nil || last.Requested.Summarizes > 0 {
		return 0
	}
	size := t.known() + int64(bytes)/bytesPerToken
	if size <= limit.CompactAt {
		return 0
	}
	return replaced(a, limit, len(a.Turns), size)
}

// replaced returns how many turns a summary replaces if the conversation up to the turn last has size tokens: all but the newest ones
// that are kept.
func replaced(a *statemachine.Agent, limit *events.Context, last int, size int64) int {
	oldest, kept := oldestTurn(a), last+1
	for kept > oldest+1 && last+1-kept < limit.Keep && size-a.Turns[kept-2].Answered.Usage.Request() <= limit.CompactAt/2 {
		kept--
	}
	return kept - 1
}

// oldestTurn returns the first turn after the newest compaction.
func oldestTurn(a *statemachine.Agent) int {
	if before := a.Compacted(); before != nil {
		return before.Turn + 1
	}
	return 1
}

// known returns how many tokens of the next request the provider has counted in earlier requests and answers.
func (t turns) known() int64 {
	return known(t.agent().Spec, t.agent().Turns)
}

// known returns how many tokens of the request that follows turns the provider has counted.
func known(spec *events.Agent, turns []statemachine.Turn) int64 {
	if len(turns) == 0 || turns[len(turns)-1].Refused != nil { // after a refused turn, the request has another form
		return 0
	}
	last := turns[len(turns)-1]
	if last.Requested.Summarizes == 0 {
		return last.Answered.Usage.Request() + last.Answered.Usage.Output
	}
	whole := last.Answered.Usage.Request()
	if refused := refusedBefore(turns, len(turns)); refused > 0 {
		whole = longest(spec, turns[refused-1].Requested)
	}
	kept := int64(0)
	if first := turns[last.Requested.Summarizes]; first.Answered != nil { // the first turn that is kept, or the compaction itself
		kept = max(whole-first.Answered.Usage.Request(), 0)
	}
	return turns[0].Answered.Usage.Request() + last.Answered.Usage.Output + kept
}

// longestResult limits the bytes of a result that a model sees in a turn with several calls: with a limited conversation, all of them
// have at most half of its tokens.
func longestResult(limit *events.Context, calls int) int {
	if limit == nil || calls == 0 {
		return maxShown
	}
	return int(min(maxShown, limit.CompactAt/2*bytesPerToken/int64(calls)))
}
