package decide

import (
	"github.com/orch-dev/orch/events"
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
	a, limit := t.agent(), t.agent().Spec.Context
	last := a.Last()
	if limit == nil || last == nil || last.Requested.Summarizes > 0 {
		return 0
	}
	size := t.known() + int64(bytes)/bytesPerToken
	if size <= limit.CompactAt {
		return 0
	}
	oldest, kept := 1, len(a.Turns)+1
	if before := a.Compacted(); before != nil {
		oldest = before.Turn + 1
	}
	for kept > oldest+1 && len(a.Turns)+1-kept < limit.Keep && size-a.Turns[kept-2].Answered.Usage.Request() <= limit.CompactAt/2 {
		kept--
	}
	return kept - 1
}

// known returns how many tokens of the next request the provider has counted in earlier requests and answers.
func (t turns) known() int64 {
	a := t.agent()
	last := a.Last()
	switch {
	case last == nil:
		return 0
	case last.Requested.Summarizes > 0: // the first request, the summary, and the turns that are kept
		kept := last.Answered.Usage.Request() - a.Turns[last.Requested.Summarizes].Answered.Usage.Request()
		return a.Turns[0].Answered.Usage.Request() + last.Answered.Usage.Output + max(kept, 0)
	default:
		return last.Answered.Usage.Request() + last.Answered.Usage.Output
	}
}

// longestResult limits the bytes of a result that a model sees in a turn with several calls: with a limited conversation, all of them
// have at most half of its tokens.
func longestResult(spec *events.Agent, calls int) int {
	if spec.Context == nil || calls == 0 {
		return maxShown
	}
	return int(min(maxShown, spec.Context.CompactAt/2*bytesPerToken/int64(calls)))
}
