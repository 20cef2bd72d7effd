package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// ReasonNoStub is the reason of the FORBIDDEN of a call that the stubs of its agent do not answer.
const ReasonNoStub = "NO_STUB"

// maxStubs limits the calls of stubs.
const maxStubs = 10_000

// Stubs answer the calls of an agent instead of tools. A call that they have no result for is refused, unless Live or Reads names its
// tool.
type Stubs struct {
	// From is the task that the calls were recorded in; "" for none.
	From string `json:"from,omitempty"`
	// Calls are calls with their results. Of several that a call matches, the first one answers the first such call of the agent, the
	// second one the second; the last one all further calls.
	Calls []Stub `json:"calls,omitempty"`
	// Live and Reads list tools by names and patterns, as Agent.Tools does. Calls of the tools in Live are made, those of the tools in
	// Reads only if the tool never changes anything.
	Live  []string `json:"live,omitempty"`
	Reads []string `json:"reads,omitempty"`
}

// Stub is a call with its result: an output or an error.
type Stub struct {
	Tool string `json:"tool"`
	// Args are the arguments in canonical form; nil stands for any.
	Args   json.RawMessage `json:"args,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *StubError      `json:"error,omitempty"`
}

// StubError is the error of a call.
type StubError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

var (
	stubTask = regexp.MustCompile(`^TASK_[0-9A-HJKMNP-TV-Z]{26}$`)
	stubCode = regexp.MustCompile(`^[A-Z][A-Z_]{1,40}$`)
)

// stubs parses the stubs of an agent.
func (c cursor) stubs() *Stubs {
	s := &Stubs{}
	c.object(map[string]func(cursor){
		"from":  func(c cursor) { s.From = c.taskID() },
		"calls": func(c cursor) { s.Calls = c.stubCalls() },
		"live":  func(c cursor) { s.Live = c.patterns() },
		"reads": func(c cursor) { s.Reads = c.patterns() },
	})
	return s
}

func (c cursor) taskID() string {
	id := c.text()
	if !stubTask.MatchString(id) {
		c.report(quote(id)+" is not the id of a task", "")
	}
	return id
}

func (c cursor) stubCalls() []Stub {
	items := c.list()
	if len(items) > maxStubs {
		c.report(fmt.Sprintf("the list has %d entries, more than %d", len(items), maxStubs), "")
		return nil
	}
	all := make([]Stub, len(items))
	for i, item := range items {
		all[i] = item.stub()
	}
	return all
}

func (c cursor) stub() Stub {
	var s Stub
	c.object(map[string]func(cursor){
		"tool":   func(c cursor) { s.Tool = c.text() },
		"args":   func(c cursor) { s.Args = c.stubArgs() },
		"output": func(c cursor) { s.Output = c.raw() },
		"error":  func(c cursor) { s.Error = c.stubError() },
	})
	switch {
	case s.Tool == "":
		c.report("the call needs a `tool`", "such as `{tool: FILE_READ, args: {file_path: /w/a.txt}, output: ...}`")
	case (s.Output == nil) == (s.Error == nil):
		c.report("the call needs either an `output` or an `error`", "")
	}
	return s
}

// stubArgs returns the arguments of a call.
func (c cursor) stubArgs() json.RawMessage {
	raw := c.raw()
	if !bytes.HasPrefix(raw, []byte("{")) {
		c.report("is "+c.kind()+", but an object is expected", "leave it out for any arguments")
	}
	return json.RawMessage(canonical(raw))
}

func (c cursor) stubError() *StubError {
	e := &StubError{}
	c.object(map[string]func(cursor){
		"code":    func(c cursor) { e.Code = c.text() },
		"message": func(c cursor) { e.Message = c.text() },
		"hint":    func(c cursor) { e.Hint = c.text() },
	})
	if !stubCode.MatchString(e.Code) || e.Message == "" {
		c.report("the error needs a `code` such as NOT_FOUND, and a `message`", "")
	}
	return e
}

// raw returns the value as JSON with sorted keys.
func (c cursor) raw() json.RawMessage {
	raw, err := encode(c.value())
	if err != nil {
		c.report("is not valid JSON: "+err.Error(), "")
	}
	return raw
}

// Matching returns the stubs of a call, in order.
func (s *Stubs) Matching(tool string, args json.RawMessage) (all []*Stub) {
	given := canonical(args)
	for i := range s.Calls {
		stub := &s.Calls[i]
		if stub.Tool == tool && (stub.Args == nil || string(stub.Args) == given) {
			all = append(all, stub)
		}
	}
	return all
}

// Makes reports whether a call without a stub is made. reads is whether the tool never changes anything.
func (s *Stubs) Makes(tool string, reads bool) bool {
	return selects(s.Live, tool) || reads && selects(s.Reads, tool)
}

// selects reports whether patterns select a tool: the last one that matches decides.
func selects(patterns []string, tool string) bool {
	selected := false
	for _, pattern := range patterns {
		name, excludes := strings.CutPrefix(pattern, "!")
		if ok, _ := path.Match(name, tool); ok {
			selected = !excludes
		}
	}
	return selected
}

// SameArgs reports whether two JSON texts are the same arguments of a call, in whatever order and form they are written.
func SameArgs(a, b json.RawMessage) bool { return canonical(a) == canonical(b) }

// canonical returns JSON with sorted keys. A text that is not valid JSON stays as it is, and no text is an object without fields.
func canonical(raw json.RawMessage) string {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "{}"
	}
	v, err := decodeValue(raw)
	if err != nil {
		return string(raw)
	}
	sorted, err := encode(v)
	if err != nil {
		return string(raw)
	}
	return string(sorted)
}
