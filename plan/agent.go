package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of an agent step.
const (
	MaxTurns         = 10_000
	defaultTurns     = 50
	maxAnswerTokens  = 1_000_000
	defaultTokens    = 8192
	maxAgentTools    = 128
	maxAgentFallback = 8
	maxHandoff       = 16
	minCompactAt     = 1000
	defaultKeep      = 4

	// MaxDescription limits the characters of the description in an agent file.
	MaxDescription = 200
)

// The tools that agents have of their own, which no pattern of Agent.Tools names.
const (
	// ResultReadTool shows more of a result. Every agent with tools has it.
	ResultReadTool = "RESULT_READ"
	// HandoffTool lets one of the agents in Agent.Handoff take over.
	HandoffTool = "HANDOFF"
)

// Agent is a step that is a loop of a model: it answers, or calls tools and sees their results, until it gives a final
// answer.
type Agent struct {
	// Model is a template: the model as PROVIDER/NAME, or script:NAME. Fallback lists the models that are asked when it
	// cannot answer.
	Model    string   `json:"model"`
	Fallback []string `json:"fallback,omitempty"`
	// Instructions and Prompt are templates: how the model is to work, and what it is to do.
	Instructions string `json:"instructions,omitempty"`
	Prompt       string `json:"prompt"`
	// Tools lists the tools that the model may call: names and patterns with *. A pattern that begins with ! excludes.
	Tools []string `json:"tools,omitempty"`
	// Handoff lists the agents that may take over: the types that TASK_SPAWN knows.
	Handoff []string `json:"handoff,omitempty"`
	// Result is the JSON Schema of the final answer; nil means that it is text.
	Result json.RawMessage `json:"result,omitempty"`
	// MaxTurns limits the requests to the model, default 50. MaxTokens limits the tokens of each answer, default 8192.
	MaxTurns    int      `json:"max_turns"`
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature,omitempty"`
	Budget      *Budget  `json:"budget,omitempty"`
	// Context limits the conversation; nil for no limit.
	Context *Context `json:"context,omitempty"`
	// Chat is true, false or a template: whether the agent waits for the next message of a person when its model has answered.
	Chat any `json:"chat,omitempty"`
	// Stubs answer its calls; nil means that the calls are made.
	Stubs *Stubs `json:"stubs,omitempty"`
}

// Context limits the conversation of an agent.
type Context struct {
	// CompactAt is the number of tokens of a request from which a summary replaces the conversation. Keep is how many of the newest
	// turns stay as they are, default 4.
	CompactAt int `json:"compact_at"`
	Keep      int `json:"keep"`
}

// Budget limits what an agent may use. 0 means no limit.
type Budget struct {
	// USD limits the cost of its requests in US dollars, Tokens their tokens, Calls the calls of tools.
	USD    float64 `json:"usd,omitempty"`
	Tokens int     `json:"tokens,omitempty"`
	Calls  int     `json:"calls,omitempty"`
	// Wall limits the time since the agent began.
	Wall Duration `json:"wall,omitempty"`
	// OnExceeded says what happens at a limit: fail (default), finish: one last answer without tools, or ask: a person decides
	// whether the agent may use the budget once more.
	OnExceeded string `json:"on_exceeded,omitempty"`
}

// The reactions to a limit of a budget; fail is the default.
const (
	OnExceededFail   = "fail"
	OnExceededFinish = "finish"
	OnExceededAsk    = "ask"
)

// NanoUSD returns the limit of the cost in billionths of a US dollar; 0 means no limit.
func (b *Budget) NanoUSD() int64 { return int64(math.Round(b.USD * 1e9)) }

// isAgentFile reports whether a document is an agent file: it has the keys of an agent and is not a plan.
func (c cursor) isAgentFile() bool {
	return c.node.Kind == yaml.MappingNode && c.has("model") && !c.has("orch") && !c.has("steps")
}

// agentFile returns the plan of an agent file. Its inputs are `prompt` and, optionally, `model`, which replaces the model of the
// file, and `chat`. Its output is `report`, the final answer. The `description` of the file is the summary of the plan.
func (l *loader) agentFile(c cursor) *Plan {
	s := &Step{ID: "agent", Kind: KindAgent, OnError: OnErrorFail}
	name := strings.TrimSuffix(path.Base(c.doc.file), path.Ext(c.doc.file))
	p := &Plan{
		Orch: Version, Name: "agent " + name, Priority: PriorityNormal, Limits: Limits{MaxSteps: defaultMaxSteps}, Steps: []*Step{s},
		Inputs: json.RawMessage(`{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1},"model":{"type":"string","default":""},"chat":{"type":"boolean","default":false}}}`),
	}
	l.planLocations[p], l.stepLocations[s] = c.location, c.location
	s.Agent = &Agent{MaxTurns: defaultTurns, MaxTokens: defaultTokens, Prompt: "${{ inputs.prompt }}", Chat: "${{ inputs.chat }}"}
	fields := s.Agent.fields()
	fields["description"] = func(c cursor) { p.Summary = c.short(MaxDescription) }
	c.agentInto(s.Agent, fields)
	if !strings.Contains(s.Agent.Model, opening) {
		s.Agent.Model = "${{ inputs.model != '' ? inputs.model : " + strconv.Quote(s.Agent.Model) + " }}"
	}
	p.Outputs = map[string]any{"report": "${{ steps.agent.output.text }}"}
	if s.Agent.Result != nil {
		p.Outputs["report"] = "${{ steps.agent.output.result }}"
	}
	l.steps++
	return p
}

// agent parses the agent of a step.
func (c cursor) agent() *Agent {
	a := &Agent{MaxTurns: defaultTurns, MaxTokens: defaultTokens, Chat: false}
	if c.node.Kind != yaml.MappingNode {
		c.report("is "+c.kind()+", but an object is expected", "such as `agent: {model: openai/gpt-5, prompt: ..., tools: [FILE_READ]}`")
		return a
	}
	c.agentInto(a, a.fields())
	return a
}

// fields returns the keys of an agent with the functions that parse them into a.
func (a *Agent) fields() map[string]func(cursor) {
	return map[string]func(cursor){
		"model":        func(c cursor) { a.Model = c.text() },
		"fallback":     func(c cursor) { a.Fallback = c.bounded(maxAgentFallback) },
		"instructions": func(c cursor) { a.Instructions = c.text() },
		"prompt":       func(c cursor) { a.Prompt = c.text() },
		"tools":        func(c cursor) { a.Tools = c.patterns() },
		"handoff":      func(c cursor) { a.Handoff = c.agents() },
		"result":       func(c cursor) { a.Result = c.compiled("result") },
		"max_turns":    func(c cursor) { a.MaxTurns = c.count(MaxTurns) },
		"max_tokens":   func(c cursor) { a.MaxTokens = c.count(maxAnswerTokens) },
		"temperature":  func(c cursor) { a.Temperature = new(c.real(0, 2)) },
		"budget":       func(c cursor) { a.Budget = c.budget() },
		"context":      func(c cursor) { a.Context = c.context() },
		"chat":         func(c cursor) { a.Chat = c.chat() },
		"stubs":        func(c cursor) { a.Stubs = c.stubs() },
	}
}

// agentInto parses the keys of an agent, and reports those that are missing.
func (c cursor) agentInto(a *Agent, fields map[string]func(cursor)) {
	c.object(fields)
	if a.Model == "" {
		c.report("agent needs a `model`", "PROVIDER/NAME, such as openai/gpt-5; `orch models list` shows the providers")
	}
	if a.Prompt == "" {
		c.report("agent needs a `prompt`", "it says what the agent is to do")
	}
}

// bounded returns a list of at most limit strings.
func (c cursor) bounded(limit int) []string {
	all := c.texts()
	if len(all) > limit {
		c.report(fmt.Sprintf("the list has %d entries, more than %d", len(all), limit), "")
	}
	return all
}

// patterns parses the names and patterns of tools.
func (c cursor) patterns() []string {
	all := c.bounded(maxAgentTools)
	for i, pattern := range all {
		name := strings.TrimPrefix(pattern, "!")
		if _, err := path.Match(name, ""); err != nil || name == "" {
			c.location.item(i).report("the pattern "+quote(pattern)+" has a wrong form", "a name such as FILE_READ, or a pattern such as FILE_* or !FILE_DELETE")
		}
	}
	return all
}

// agents parses the names of agents that may take over.
func (c cursor) agents() []string {
	all := c.bounded(maxHandoff)
	for i, name := range all {
		if !agentName.MatchString(name) {
			c.location.item(i).report(quote(name)+" is no name of an agent", "the name of a file in .orch/agents, or of a registered agent")
		}
	}
	return all
}

// agentName is the form of the types of agents that TASK_SPAWN accepts.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// leastUSD is the lowest limit of a budget in US dollars. 0 is refused, because in Budget it is no limit.
const leastUSD = 1e-6

func (c cursor) budget() *Budget {
	b, limited := &Budget{}, false
	limit := func(read func(cursor)) func(cursor) {
		return func(c cursor) {
			limited = true
			read(c)
		}
	}
	c.object(map[string]func(cursor){
		"usd":         limit(func(c cursor) { b.USD = c.real(leastUSD, 1e6) }),
		"tokens":      limit(func(c cursor) { b.Tokens = c.count(math.MaxInt32) }),
		"calls":       limit(func(c cursor) { b.Calls = c.count(highestMaxSteps) }),
		"wall":        limit(func(c cursor) { b.Wall = c.duration() }),
		"on_exceeded": func(c cursor) { b.OnExceeded = c.oneOf(OnExceededFail, OnExceededFinish, OnExceededAsk) },
	})
	if !limited {
		c.report("the budget has no limit", "give it one of usd, tokens, calls, wall")
	}
	return b
}

// chat parses a boolean or a template.
func (c cursor) chat() any {
	value := c.value()
	switch v := value.(type) {
	case bool:
		return v
	case string:
		if strings.Contains(v, opening) {
			return v
		}
	}
	c.report("must be true, false, or an expression", "")
	return false
}

func (c cursor) context() *Context {
	x := &Context{Keep: defaultKeep}
	c.object(map[string]func(cursor){
		"compact_at": func(c cursor) { x.CompactAt = c.between(minCompactAt, math.MaxInt32) },
		"keep":       func(c cursor) { x.Keep = c.between(0, MaxTurns) },
	})
	if x.CompactAt == 0 {
		c.report("context needs `compact_at`", "the tokens of a request from which the conversation is summarized, such as half of what fits into the model")
	}
	return x
}

// templates returns the templates of an agent step by name.
func (a *Agent) templates() map[string]any {
	fallback := make([]any, len(a.Fallback))
	for i, model := range a.Fallback {
		fallback[i] = model
	}
	return map[string]any{
		"model": a.Model, "fallback": fallback, "instructions": a.Instructions, "prompt": a.Prompt, "chat": a.Chat,
	}
}

// Persona is an evaluated agent step.
type Persona struct {
	Model        string   `json:"model"`
	Fallback     []string `json:"fallback"`
	Instructions string   `json:"instructions"`
	Prompt       string   `json:"prompt"`
	Chat         bool     `json:"chat"`
}

// Persona evaluates the templates of an agent step.
func (n *Node) Persona(sc Scope) (Persona, error) {
	var p Persona
	raw, err := n.persona.json(sc)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, n.invalid("model, fallback, instructions and prompt of agent must give texts, chat must give true or false")
	}
	if p.Model == "" || p.Prompt == "" {
		return p, n.invalid("model and prompt of agent must not be empty")
	}
	return p, nil
}

// Selects reports whether the model of the agent may call a tool: the last pattern that matches its name decides.
func (a *Agent) Selects(tool string) bool { return selects(a.Tools, tool) }

// CheckResult checks the final answer of an agent against the schema of its result. It returns VALIDATION_ERROR with the
// invalid field, and INVALID_FORMAT for an answer that is not JSON.
func (a *Agent) CheckResult(answer []byte) error {
	return checkAgainst(a.Result, answer, "result")
}

// outputShape returns the shape of the output of an agent step.
func (a *Agent) outputShape() *shape {
	text, number := &shape{kinds: []string{"string"}}, &shape{kinds: []string{"number"}}
	fields := map[string]*shape{"text": text, "turns": number, "calls": number, "tokens": number, "usd": number}
	if a.Result != nil {
		fields["result"] = shapeOfSchema(a.Result)
	}
	return object(fields)
}

// checkAgent reports names of tools that do not exist or that `limits.tools` does not list, and an agent that would run while
// the task is COMPLETED.
func (l *linker) checkAgent(s *Step, at location, anyState bool) {
	at = at.field(string(KindAgent))
	if anyState {
		at.report("an agent does not run while the task is COMPLETED", "move the step to `steps`")
	}
	for i, pattern := range s.Agent.Tools {
		if strings.HasPrefix(pattern, "!") || strings.ContainsAny(pattern, `*?[\`) {
			continue
		}
		s.Agent.Tools[i] = l.properName(pattern)
		where := at.field("tools").item(i)
		if info, ok := l.lookUp(s.Agent.Tools[i], where); ok && info.Direct {
			where.report("the tool "+pattern+" is not a step of a task", "a registered agent calls it with its own credential")
		}
	}
}
