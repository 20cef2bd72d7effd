package decide

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// leastExcerpt is how many bytes of each text the excerpts show at least. If that is too much, they leave out the oldest turns.
	leastExcerpt = 200
	// maxExcerpted limits the bytes of the results that excerpts are taken from. Of older results only their sizes are shown.
	maxExcerpted = 16 << 20

	excerptsAre = "The conversation has become too long for you. Here it is as a text, with excerpts of what is long.\n"
	leftOut     = "\n[the oldest turns are left out]\n"
)

// summary returns the summary that a compaction has for an answer. In a conversation that was too long, it has at most half of the limit.
func (c conversation) summary(compaction *events.Turn) string {
	text := textOf(c.answer(compaction.Turn).Message)
	if c.step.Agent.Refused == 0 {
		return text
	}
	return beginning(text, int(c.step.Agent.Limit().CompactAt/2*bytesPerToken))
}

// passage is a text of a conversation with a title that says what it is.
type passage struct{ title, text string }

// size returns how many bytes the passage has if it shows at most some of its text.
func (p passage) size(longest int) int {
	return len("\n\n…\n") + len(p.title) + min(len(p.text), longest)
}

// sizeOfAll returns how many bytes passages have.
func sizeOfAll(all []passage, longest int) (size int) {
	for _, p := range all {
		size += p.size(longest)
	}
	return size
}

// excerpts returns the message of a shortened compaction: the conversation up to the turns that are kept, as one text.
func (c conversation) excerpts(turn *events.Turn) models.Message {
	size := excerptsSize(c.step.Agent.Limit(), len(c.Fetch(c.step.Agent.Spec.Instructions))) - len(excerptsAre) - len(leftOut)
	opening, later := c.openingExcerpts(turn), c.laterExcerpts(turn)
	from, used := len(later), sizeOfAll(opening, leastExcerpt)
	for from > 0 && used+later[from-1].size(leastExcerpt) <= size {
		from--
		used += later[from].size(leastExcerpt)
	}
	shown := slices.Concat(opening, later[from:])
	longest := sort.Search(size, func(n int) bool { return sizeOfAll(shown, n+1) > size })
	var text strings.Builder
	text.WriteString(excerptsAre)
	for i, p := range shown {
		if from > 0 && i == len(opening) {
			text.WriteString(leftOut)
		}
		text.WriteString("\n" + p.title + "\n" + beginning(p.text, max(longest, leastExcerpt)) + "\n")
	}
	return models.Message{Role: models.User, Parts: append([]models.Part{{Text: text.String()}}, c.addedBy(turn)...)}
}

// openingExcerpts returns how a conversation begins: with the prompt, and the summary of what was said before.
func (c conversation) openingExcerpts(turn *events.Turn) []passage {
	all := []passage{{"The user:", c.text(c.step.Agent.Spec.Prompt)}}
	if before := upTo(c.step, turn.Turn-1).Agent.Compacted(); before != nil {
		all = append(all, passage{"Your summary of what followed:", c.summary(before)})
	}
	return all
}

// laterExcerpts returns what was said after the opening, up to the turns that are kept.
func (c conversation) laterExcerpts(turn *events.Turn) (all []passage) {
	turns, first := c.step.Agent.Turns, 1
	before := upTo(c.step, turn.Turn-1).Agent.Compacted()
	if before != nil {
		first = before.Summarizes + 1
	}
	readable := c.readable(first, turn.Summarizes)
	for n := first; n <= turn.Summarizes+1; n++ {
		if n > first || before == nil { // the summary has it otherwise
			for _, part := range c.addedBy(turns[n-1].Requested) {
				all = append(all, passage{"The user:", part.Text})
			}
		}
		if n <= turn.Summarizes && turns[n-1].Answered != nil && !isCompaction(turns[n-1]) {
			all = append(all, c.turnExcerpts(n, n >= readable)...)
		}
	}
	return all
}

// readable returns the first turn whose results are read for excerpts, among those from first to last.
func (c conversation) readable(first, last int) int {
	left := int64(maxExcerpted)
	for n := last; n >= first; n-- {
		if answered := c.step.Agent.Turns[n-1].Answered; answered != nil {
			for call := range answered.Calls {
				if s := c.Task.Steps[statemachine.CallKey(c.step.Key, n, call+1)]; s != nil {
					left -= s.Output.Size()
				}
			}
		}
		if left < 0 {
			return n + 1
		}
	}
	return first
}

// turnExcerpts returns the answer of a turn and the results of its calls, with their texts if they are to be read.
func (c conversation) turnExcerpts(turn int, read bool) (all []passage) {
	answer := c.answer(turn).Message
	if text := textOf(answer); text != "" {
		all = append(all, passage{"You:", text})
	}
	for i, call := range callsOf(answer) {
		key := statemachine.CallKey(c.step.Key, turn, i+1)
		_, short := statemachine.SplitCall(key)
		all = append(all, passage{fmt.Sprintf("You call %s (%s):", call.Name, short), call.Args})
		if result := c.Task.Steps[key]; !read && result != nil && result.Output.Size() > 0 {
			all = append(all, passage{fmt.Sprintf("Its result has %d bytes.", result.Output.Size()), ""})
			continue
		}
		content := c.shownResult(key, call, maxShown).Content
		all = append(all, passage{fmt.Sprintf("Its result (%s):", count(len(content), "byte")), content})
	}
	return all
}

// beginning returns the first bytes of a text.
func beginning(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	for longest > 0 && !utf8.RuneStart(text[longest]) {
		longest--
	}
	return text[:longest] + "…"
}
