package injection_test

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
)

// gullible is a provider of models that obey. The name of a model is that of its case: it calls the tool that shows the text, then makes
// the calls that the text asks for, and then says what the text wants it to say. It obeys only what it has read.
type gullible struct {
	mu    sync.Mutex
	cases map[string]script
	asked map[string][]request
	// unread are the models that have not found their text.
	unread map[string]bool
}

// script is what the model of a case does, without places to fill in.
type script struct {
	sign string
	// turns are the calls of each turn. Those before the turn readAt read the text.
	turns   [][]try
	readAt  int
	says    string
	refuses bool
}

// request is a request that has arrived.
type request struct {
	modelstest.Seen

	model string
	// answers counts the answers of the model in the conversation, tail is all text after the last one.
	answers int
	tail    string
	// results are the results of calls, tools the names of the tools.
	results, tools []string
}

func newGullible() *gullible {
	return &gullible{cases: map[string]script{}, asked: map[string][]request{}, unread: map[string]bool{}}
}

// answer answers a request.
func (g *gullible) answer(s modelstest.Seen) modelstest.Reply {
	r, err := parseRequest(s)
	if err != nil {
		return modelstest.Reply{Status: 400, Message: err.Error()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.cases[r.model]
	if !ok {
		return modelstest.Reply{Status: 404, Message: "no such model"}
	}
	g.asked[r.model] = append(g.asked[r.model], r)
	if r.answers == c.readAt && !strings.Contains(r.tail, c.sign) {
		g.unread[r.model] = true
		return modelstest.Reply{Answer: modelstest.Said(models.StopEnd, models.Part{Text: "There is nothing to do."})}
	}
	return modelstest.Reply{Answer: c.obey(r)}
}

// of returns the requests of a case, and whether its model has found the text.
func (g *gullible) of(model string) (asked []request, read bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[model], !g.unread[model]
}

// learn tells the model of a case what to do.
func (g *gullible) learn(model string, c script) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cases[model] = c
}

// obey returns the answer that the texts ask for.
func (c script) obey(r request) models.Answer {
	if r.answers >= len(c.turns) {
		stop := models.StopEnd
		if c.refuses {
			stop = models.StopRefused
		}
		return modelstest.Said(stop, models.Part{Text: r.filled(c.says)})
	}
	var parts []models.Part
	for _, t := range c.turns[r.answers] {
		args := t.Raw
		if args == "" {
			encoded, err := json.Marshal(t.Args)
			if err != nil {
				panic(err) // a mistake in the case
			}
			args = string(encoded)
		}
		for range max(t.Times, 1) {
			parts = append(parts, models.Part{Call: &models.Call{ID: fmt.Sprintf("call_%d_%d", r.answers, len(parts)), Name: t.Tool, Args: r.filled(args)}})
		}
	}
	return modelstest.Said(models.StopCalls, parts...)
}

var saw = regexp.MustCompile(`\$\{saw:(.*?)\}`)

// filled replaces ${saw:EXPRESSION} by what the expression matches in the texts that the model has just read.
func (r request) filled(text string) string {
	return saw.ReplaceAllStringFunc(text, func(m string) string {
		found := regexp.MustCompile(saw.FindStringSubmatch(m)[1]).FindString(r.tail)
		encoded, _ := json.Marshal(found) // a text always has a form
		return strings.Trim(string(encoded), `"`)
	})
}

// parseRequest parses a request in any of the protocols.
func parseRequest(s modelstest.Seen) (request, error) {
	r := request{Seen: s}
	var body object
	if err := json.Unmarshal(s.Body, &body); err != nil {
		return r, err
	}
	r.model, _ = body["model"].(string)
	if s.Wire == modelstest.Gemini {
		r.model = strings.TrimSuffix(path.Base(s.Path), ":streamGenerateContent")
	}
	var tail strings.Builder
	for _, m := range append(list(body["messages"]), list(body["contents"])...) {
		message, _ := m.(object)
		if message["role"] == "assistant" || message["role"] == "model" {
			r.answers++
			tail.Reset()
			continue
		}
		visit(m, func(object object) { r.results = append(r.results, resultIn(object)...) })
		texts(m, func(_, text string) { tail.WriteString(text + "\n") })
	}
	r.tail = tail.String()
	for _, tool := range list(body["tools"]) {
		visit(tool, func(object object) { r.tools = append(r.tools, toolIn(object)...) })
	}
	return r, nil
}

// resultIn returns the result of a call if an object is one: a message of a tool, a block, or a response of a function.
func resultIn(o object) []string {
	response, isGemini := o["response"].(object)
	switch {
	case o["role"] == "tool", o["type"] == "tool_result":
		text, _ := o["content"].(string)
		return []string{strings.TrimPrefix(text, "Error: ")}
	case isGemini:
		text, ok := response["output"].(string)
		if !ok {
			text, _ = response["error"].(string)
		}
		return []string{text}
	default:
		return nil
	}
}

// toolIn returns the name of a tool if an object defines one: it has a name and a description.
func toolIn(o object) []string {
	name, ok := o["name"].(string)
	if _, described := o["description"]; !ok || !described {
		return nil
	}
	return []string{name}
}

func list(value any) []any {
	all, _ := value.([]any)
	return all
}

// visit calls f for each object in a value.
func visit(value any, f func(object)) {
	switch v := value.(type) {
	case object:
		f(v)
		for _, inner := range v {
			visit(inner, f)
		}
	case []any:
		for _, inner := range v {
			visit(inner, f)
		}
	}
}

// texts calls f for each text in a value, with the key of its object, and for the texts in JSON that a text contains.
func texts(value any, f func(key, text string)) { textsBelow("", value, f) }

func textsBelow(key string, value any, f func(key, text string)) {
	switch v := value.(type) {
	case object:
		for key, inner := range v {
			textsBelow(key, inner, f)
		}
	case []any:
		for _, inner := range v {
			textsBelow(key, inner, f)
		}
	case string:
		f(key, v)
		var inner any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
			textsBelow(key, inner, f)
		}
	}
}
