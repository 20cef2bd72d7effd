package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
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

// ModelRequest returns the request of the newest turn of an agent step. It is a function of the history. said are the messages of an
// earlier turn, which then are not read again; nil reads all. Values that are not in memory are added to Missing; the request is then
// incomplete.
func (t *Reading) ModelRequest(key string, said []models.Message) (models.Request, error) {
	s := t.Task.Steps[key]
	if s == nil || s.Agent == nil || s.Agent.Phase != statemachine.AgentAsking {
		return models.Request{}, fault.New(fault.StateNotAllowed, "step %s asks no model", key)
	}
	spec := s.Agent.Spec
	r := models.Request{
		System: t.text(spec.Instructions), Result: t.Fetch(spec.Result), MaxTokens: spec.MaxTokens, Temperature: spec.Temperature,
		Messages: t.conversation(s, said), Key: string(t.Task.ID) + "/" + statemachine.ModelKey(key, len(s.Agent.Turns)),
	}
	if !s.Agent.Last().Requested.Final {
		for _, tool := range t.offered(spec) {
			r.Tools = append(r.Tools, tool.Tool)
		}
	}
	return r, t.OutcomeOf(nil)
}

// conversation returns the messages of an agent up to its newest turn. said are those of an earlier turn: the prompt, and two for
// each further turn.
func (t *Reading) conversation(s *statemachine.Step, said []models.Message) []models.Message {
	all := slices.Clone(said)
	if len(all) == 0 {
		all = []models.Message{userText(t.text(s.Agent.Spec.Prompt))}
	}
	for i := (len(all) + 1) / 2; i < len(s.Agent.Turns); i++ {
		all = append(all, t.before(s, i)...)
	}
	return all
}

// before returns the messages that turn i, from 0, adds to the conversation: the answer of the turn before it, the results of the
// calls, and what the turn itself adds.
func (t *Reading) before(s *statemachine.Step, i int) []models.Message {
	if i == 0 {
		return nil
	}
	last := s.Agent.Turns[i-1]
	answer := t.answer(s.Key, last.Requested.Turn)
	said := models.Message{Role: models.User, Parts: t.results(s.Key, last.Requested.Turn, answer)}
	if added := t.text(s.Agent.Turns[i].Requested.Added); added != "" {
		said.Parts = append(said.Parts, models.Part{Text: added})
	}
	return []models.Message{answer, said}
}

// answer returns the answer of the model in a turn.
func (t *Reading) answer(key string, turn int) models.Message {
	var out models.Called
	if raw := t.Fetch(t.Task.Steps[statemachine.ModelKey(key, turn)].Output); raw != nil {
		_ = json.Unmarshal(raw, &out) // it was decoded before, or the turn would have no answer
	}
	return out.Answer.Message
}

// Exchange is what is said in a turn: what the turn adds to the results of calls, the answer of the model, and the calls that it requests.
type Exchange struct {
	Added string
	Text  string
	Calls []ExchangedCall
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
	x := Exchange{Added: t.text(s.Agent.Turns[turn-1].Requested.Added)}
	if s.Agent.Turns[turn-1].Answered == nil {
		return x
	}
	answer := t.answer(s.Key, turn)
	x.Text = textOf(answer)
	for i, call := range callsOf(answer) {
		c := ExchangedCall{Key: statemachine.CallKey(s.Key, turn, i+1), Request: call}
		made := t.Task.Steps[c.Key]
		switch {
		case made == nil && turn == len(s.Agent.Turns) && i < s.Agent.Turns[turn-1].Answered.Calls, made != nil && !made.State.Terminal():
		case made != nil && made.Output.Size > maxRead:
			c.Result = &models.Result{Content: fmt.Sprintf("[%d bytes are not shown]", made.Output.Size)}
		default:
			c.Result = resultOf(t, c.Key, call)
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
func (t *Reading) Opening(spec *events.Agent) Opening {
	o := Opening{Instructions: t.text(spec.Instructions), Prompt: t.text(spec.Prompt)}
	for _, tool := range t.offered(spec) {
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
func (t *Reading) results(key string, turn int, answer models.Message) []models.Part {
	var parts []models.Part
	for i, call := range callsOf(answer) {
		parts = append(parts, models.Part{Result: resultOf(t, statemachine.CallKey(key, turn, i+1), call)})
	}
	return parts
}

// resultOf returns the result of a call that has ended, as the model sees it.
func resultOf(t *Reading, key string, call *models.Call) *models.Result {
	r := &models.Result{ID: call.ID, Name: call.Name}
	switch s := t.Task.Steps[key]; {
	case s == nil:
		r.Content, r.Failed = "the call was not made", true
	case s.State == statemachine.StepSucceeded:
		r.Content = shown(t.Fetch(s.Output))
	default:
		r.Content, r.Failed = failureText(s), true
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
	return bounded(text)
}

// shown returns the result of a call as a model sees it: a text as it is, anything else as JSON.
func shown(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return bounded(text)
}

// bounded truncates a text for a model.
func bounded(text string) string {
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s\n[%d of %d bytes are shown; ask for a smaller part]", text[:cut], cut, len(text))
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

// offered returns the tools that an agent offers to its model.
func (t *Reading) offered(spec *events.Agent) []offeredTool {
	var tools []offeredTool
	if raw := t.Fetch(spec.Tools); raw != nil {
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
