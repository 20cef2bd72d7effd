package decide

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// maxShown limits the bytes of the result of a call that a model sees.
const maxShown = 64 << 10

// offeredTool is a tool as a model sees it. Tool is its name in the catalogue.
type offeredTool struct {
	models.Tool

	Called string `json:"called,omitempty"`
}

// name returns the name of the tool in the catalogue.
func (o offeredTool) name() string {
	if o.Called != "" {
		return o.Called
	}
	return o.Name
}

// Said are the messages of a conversation up to a turn, from 1. The zero value is nothing.
type Said struct {
	Turn     int
	Messages []models.Message

	// begun is set if the messages are the beginning of those of the newest turn, see SaidUpTo.
	begun bool
}

// ModelRequest returns the request of the newest turn of an agent step. It is a function of the history. What is said up to an
// earlier turn is not read again if the conversation still begins with it. Values that are not in memory are added to Missing; the
// request is then incomplete.
func (t *Reading) ModelRequest(key string, said Said) (models.Request, error) {
	s := t.Task.Steps[key]
	if s == nil || s.Agent == nil || s.Agent.Phase != statemachine.AgentAsking {
		return models.Request{}, fault.New(fault.StateNotAllowed, "step %s asks no model", key)
	}
	r := conversation{t, s}.request(said)
	r.Key = string(t.Task.ID) + "/" + statemachine.ModelKey(key, len(s.Agent.Turns))
	return r, t.OutcomeOf(nil)
}

// conversation is what an agent step and its model have said. Values that are not in memory are added to Missing.
type conversation struct {
	*Reading

	step *statemachine.Step
}

// request returns the request of the newest turn. What said has is not read again.
func (c conversation) request(said Said) models.Request {
	turn := c.step.Agent.Last().Requested
	r := c.openingRequest(turn)
	if c.step.Agent.Shortened(turn.Turn) {
		r.Messages = []models.Message{c.excerpts(turn)}
	} else {
		r.Messages = c.messages(said)
	}
	return r
}

// openingRequest returns the request of a turn without its messages.
func (c conversation) openingRequest(turn *events.Turn) models.Request {
	spec := c.step.Agent.Spec
	r := models.Request{
		System: c.text(spec.Instructions), Result: c.Fetch(spec.Result), MaxTokens: spec.MaxTokens, Temperature: spec.Temperature,
		NoCalls: turn.Final || turn.Summarizes > 0, Number: turn.Turn,
	}
	if turn.Summarizes > 0 {
		r.Result = nil
	}
	if c.step.Agent.Shortened(turn.Turn) {
		return r
	}
	for _, tool := range c.offered() {
		r.Tools = append(r.Tools, tool.Tool)
	}
	return r
}

// messages returns what is said up to the newest turn. What said has is not read again.
func (c conversation) messages(said Said) []models.Message {
	all, turn := c.begin(said)
	return c.upTo(all, turn, len(c.step.Agent.Turns))
}

// begin returns the messages that said has, and up to which turn they are, or the opening if the conversation begins in another way now.
func (c conversation) begin(said Said) ([]models.Message, int) {
	if c.beginsAnew(said) {
		return c.opening()
	}
	return slices.Clone(said.Messages), said.Turn
}

// beginsAnew reports whether the conversation does not continue said: said is nothing, or a summary has replaced some of it.
func (c conversation) beginsAnew(said Said) bool {
	turns := c.step.Agent.Turns
	return said.Turn == 0 || !said.begun && slices.ContainsFunc(turns[said.Turn-1:len(turns)-1], isCompaction)
}

// upTo adds to the messages up to turn those up to a later one.
func (c conversation) upTo(all []models.Message, turn, last int) []models.Message {
	turns := c.step.Agent.Turns
	for _, next := range turns[turn:last] {
		added := c.addedBy(next.Requested)
		if before := turns[next.Requested.Turn-2]; isCompaction(before) || before.Refused != nil { // the summary is in the opening
			last := &all[len(all)-1]
			last.Parts = append(slices.Clip(last.Parts), added...)
			continue
		}
		answer := c.answer(next.Requested.Turn - 1).Message
		results := c.results(next.Requested.Turn-1, answer)
		all = append(all, answer, models.Message{Role: models.User, Parts: append(results, added...)})
	}
	return all
}

func isCompaction(turn statemachine.Turn) bool { return turn.Requested.Summarizes > 0 }

// opening returns the first message of a conversation: the prompt, and the summary of the turns up to the returned one.
func (c conversation) opening() ([]models.Message, int) {
	first := userText(c.text(c.step.Agent.Spec.Prompt))
	if compacted := c.step.Agent.Compacted(); compacted != nil {
		first.Parts = append(first.Parts, models.Part{Text: summaryIs + c.summary(compacted)})
		return []models.Message{first}, compacted.Summarizes + 1
	}
	first.Parts = append(first.Parts, c.addedBy(c.step.Agent.Turns[0].Requested)...)
	return []models.Message{first}, 1
}

// addedBy returns what a turn adds to the conversation beside the results of calls. What asks for a summary is only in the request for
// it, and what a refused turn adds is in a later one.
func (c conversation) addedBy(turn *events.Turn) (parts []models.Part) {
	if c.step.Agent.Turns[turn.Turn-1].Refused != nil {
		return nil
	}
	for _, m := range turn.Heard {
		if failpoint.On(failpoint.SkipSaid) && turn.Turn < len(c.step.Agent.Turns) {
			break
		}
		parts = append(parts, models.Part{Text: c.text(m.Text)})
	}
	if turn.Summarizes > 0 && turn.Turn < len(c.step.Agent.Turns) {
		return parts
	}
	if added := c.text(turn.Added); added != "" {
		parts = append(parts, models.Part{Text: added})
	}
	return parts
}

// answer returns the answer of the model in a turn.
func (c conversation) answer(turn int) models.Answer {
	var out models.Called
	if raw := c.Fetch(c.Task.Steps[statemachine.ModelKey(c.step.Key, turn)].Output); raw != nil {
		_ = json.Unmarshal(raw, &out) // it was decoded before, or the turn would have no answer
	}
	return out.Answer
}

// Exchange is what is said in a turn: what the turn adds to the results of calls, the answer of the model, and the calls that it requests.
// Differs names in what the request differs from that of a record, which the answer is from.
type Exchange struct {
	Added   string
	Heard   []Heard
	Text    string
	Calls   []ExchangedCall
	Differs []string
}

// Heard is what a person has said to an agent.
type Heard struct{ By, Text string }

// heard returns messages with their texts.
func (c conversation) heard(messages []events.Message) (all []Heard) {
	for _, m := range messages {
		all = append(all, Heard{m.By, c.text(m.Text)})
	}
	return all
}

// Unheard returns what people have said to an agent and its model has not heard.
func (t *Reading) Unheard(s *statemachine.Step) []Heard {
	return conversation{t, s}.heard(s.Agent.Told)
}

// ExchangedCall is a call that a model requests. Result is its result as the model sees it; nil for a call that has not ended.
type ExchangedCall struct {
	Key     string
	Request *models.Call
	Result  *models.Result
}

// maxRead limits the bytes of a result that Exchange reads.
const maxRead = 1 << 20

// Exchange returns what is said in a turn, from 1, of an agent step. A result of more than 1 MiB is replaced by its size.
func (t *Reading) Exchange(s *statemachine.Step, turn int) Exchange {
	said, asked := conversation{t, s}, s.Agent.Turns[turn-1].Requested
	x := Exchange{Added: t.text(asked.Added), Heard: said.heard(asked.Heard)}
	if s.Agent.Turns[turn-1].Answered == nil {
		return x
	}
	given := said.answer(turn)
	x.Text, x.Differs = textOf(given.Message), given.Differs
	calls := callsOf(given.Message)
	limit := upTo(s, min(turn+1, len(s.Agent.Turns))).Agent.Limit()
	for i, call := range calls {
		c := ExchangedCall{Key: statemachine.CallKey(s.Key, turn, i+1), Request: call}
		made := t.Task.Steps[c.Key]
		switch {
		case made == nil && turn == len(s.Agent.Turns) && i < s.Agent.Turns[turn-1].Answered.Calls, made != nil && !made.State.Terminal():
		case made != nil && made.Output.Size() > maxRead:
			c.Result = &models.Result{Content: fmt.Sprintf("[%d bytes are not shown]", made.Output.Size())}
		default:
			c.Result = said.shownResult(c.Key, call, longestResult(limit, len(calls)))
		}
		x.Calls = append(x.Calls, c)
	}
	return x
}

// Opening is what a model sees before the first turn. Tools are the names of the tools that it may call.
type Opening struct {
	Instructions, Prompt string
	Tools                []string
}

// Opening returns what the model of an agent sees before the first turn.
func (t *Reading) Opening(s *statemachine.Step) Opening {
	spec := s.Agent.Spec
	o := Opening{Instructions: t.text(spec.Instructions), Prompt: t.text(spec.Prompt)}
	for _, tool := range (conversation{t, s}).offered() {
		o.Tools = append(o.Tools, tool.name())
	}
	return o
}

// callsOf returns the calls that a message of a model requests.
func callsOf(m models.Message) []*models.Call {
	var calls []*models.Call
	for _, part := range m.Parts {
		if part.Call != nil {
			calls = append(calls, part.Call)
		}
	}
	return calls
}

// results returns the results of the calls of a turn.
func (c conversation) results(turn int, answer models.Message) []models.Part {
	var parts []models.Part
	calls := callsOf(answer)
	longest := longestResult(c.step.Agent.Limit(), len(calls))
	for i, call := range calls {
		key := statemachine.CallKey(c.step.Key, turn, i+1)
		parts = append(parts, models.Part{Result: c.shownResult(key, call, longest)})
	}
	return parts
}

// shownResult returns the result of a call that has ended, as the model sees it: at most longest bytes of it.
func (c conversation) shownResult(key string, call *models.Call, longest int) *models.Result {
	r := &models.Result{ID: call.ID, Name: call.Name}
	switch s := c.Task.Steps[key]; {
	case s == nil:
		r.Content, r.Failed = "the call was not made", true
	case s.State != statemachine.StepSucceeded:
		r.Content, r.Failed = bounded(failureText(s), 0, longest, ""), true
	case !c.step.Agent.Spec.ReadOn:
		r.Content = bounded(shown(c.Fetch(s.Output)), 0, longest, "")
	case call.Name == plan.ResultReadTool:
		part, _ := partOf(json.RawMessage(call.Args)) // it was parsed before
		r.Content = bounded(shown(c.Fetch(s.Output)), part.Offset, longest, part.Call)
	default:
		_, short := statemachine.SplitCall(key)
		r.Content = bounded(shown(c.Fetch(s.Output)), 0, longest, short)
	}
	return r
}

// failureText tells a model why its call has no result.
func failureText(s *statemachine.Step) string {
	if s.Error == nil {
		return "the call was " + string(s.State) + ": " + s.Reason
	}
	text := string(s.Error.Code) + ": " + s.Error.Sentence()
	if s.Error.Hint != "" {
		text += " (" + s.Error.Hint + ")"
	}
	return text
}

// shown returns the result of a call as a model sees it: a text as it is, anything else as JSON.
func shown(raw json.RawMessage) string {
	var text string
	begin := bytes.TrimLeft(raw, " \t\r\n")
	mayBeText := len(begin) > 0 && (begin[0] == '"' || begin[0] == 'n') // null is no text
	if !mayBeText || json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text
}

// bounded truncates a text for a model: it shows at most longest bytes from an offset on. call names the call whose result it is, if
// the model can read on.
func bounded(text string, offset, longest int, call string) string {
	rest, offset := from(text, offset)
	if len(rest) > longest {
		cut := longest
		for cut > 0 && !utf8.RuneStart(rest[cut]) {
			cut--
		}
		rest = rest[:cut]
	}
	return excerpt(rest, offset, len(text), call)
}

// digestOf returns the digest of a conversation that continues the one with the digest before.
func digestOf(before string, added any) string {
	sum := sha256.New()
	sum.Write([]byte(before))
	sum.Write(MustJSON(added))
	return "sha256-" + hex.EncodeToString(sum.Sum(nil))
}

// text returns the text of a value; "" for none.
func (t *Reading) text(v events.Value) string {
	var text string
	if raw := t.Fetch(v); raw != nil {
		_ = json.Unmarshal(raw, &text) // agent.started and turn.requested contain texts only
	}
	return text
}

// offered returns the tools that the agent offers to its model.
func (c conversation) offered() []offeredTool {
	var tools []offeredTool
	if raw := c.Fetch(c.step.Agent.Spec.Tools); raw != nil {
		_ = json.Unmarshal(raw, &tools) // written by tools
	}
	return tools
}

// nameForWire gives tools names that all providers accept, each another one. A tool whose name they accept keeps it.
func nameForWire(offered []offeredTool) {
	taken := map[string]bool{}
	for _, o := range offered {
		taken[o.Name] = true
	}
	for i := range offered {
		name := offered[i].Name
		short := models.ToolName(name)
		if short == name {
			continue
		}
		if taken[short] || len(name) > len(short) {
			sum := sha256.Sum256([]byte(name))
			digest := "_" + hex.EncodeToString(sum[:4])
			short = short[:min(len(short), models.MaxToolName-len(digest))] + digest
		}
		taken[short] = true
		offered[i].Name, offered[i].Called = short, name
	}
}

func userText(text string) models.Message {
	return models.Message{Role: models.User, Parts: []models.Part{{Text: text}}}
}
