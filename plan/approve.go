package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/orch-dev/orch/fault"
)

// Allow lists the targets that the tools of a task may use without a separate approval. The list is approved together
// with the plan. A sub-plan has its own list. An entry in the plan of a spawned agent (TASK_SPAWN) counts
// only if the spawning task allows it too (S0-181).
type Allow struct {
	// Paths are deliverables, absolute or relative to the root: files, or folders with all that is below.
	Paths []string `json:"paths,omitempty"`
	// Endpoints have the form scheme://host:port, host:port or host. They are compared in normal form: case, IDNA
	// spelling and default ports do not matter.
	Endpoints []string `json:"endpoints,omitempty"`
	// Connections are databases: scheme://host:port/name, or sqlite:/absolute/path.
	Connections []string `json:"connections,omitempty"`
	// Packages are manager:name.
	Packages []string `json:"packages,omitempty"`
	// Programs are files of the user, absolute or relative to the root. Calls may run them with the content that they
	// have when the plan is submitted.
	Programs []string `json:"programs,omitempty"`
}

// Approve is a step that asks people.
type Approve struct {
	// Description, Rationale and Show are templates: the question, the reason, and what the approver should see.
	Description string `json:"description"`
	Rationale   string `json:"rationale,omitempty"`
	Show        any    `json:"show,omitempty"`
	// Timeout is how long the approval waits; default 1 h. Remind is when the approvers are reminded.
	Timeout Duration `json:"timeout,omitempty"`
	Remind  Duration `json:"remind,omitempty"`
	// Priority is low, medium, high or critical, default the priority of the task; Risk is low, medium or high.
	Priority string `json:"priority,omitempty"`
	Risk     string `json:"risk,omitempty"`
	// Quorum is how many people must agree; default 1.
	Quorum int `json:"quorum,omitempty"`
	// From lists the only people who may decide, such as user:ada; empty means anybody.
	From []string `json:"from,omitempty"`
	// Form is the JSON Schema of the form that an approver fills in.
	Form json.RawMessage `json:"form,omitempty"`
	// Covers are the steps whose calls the grant permits, with the arguments that the approval request shows.
	Covers []string `json:"covers,omitempty"`
	// OnReject is fail (default) or continue; OnExpiry is block (default), reject, approve, default or escalate.
	OnReject string `json:"on_reject,omitempty"`
	OnExpiry string `json:"on_expiry,omitempty"`
	// Default is a template: the form when nobody decided in time and on_expiry is default.
	Default any `json:"default,omitempty"`
}

// maxQuorum bounds the people of a quorum.
const maxQuorum = 20

func (c cursor) allow() *Allow {
	a := &Allow{}
	c.object(map[string]func(cursor){
		"paths":       func(c cursor) { a.Paths = c.texts() },
		"endpoints":   func(c cursor) { a.Endpoints = c.texts() },
		"connections": func(c cursor) { a.Connections = c.texts() },
		"packages":    func(c cursor) { a.Packages = c.texts() },
		"programs":    func(c cursor) { a.Programs = c.texts() },
	})
	for _, list := range a.lists() {
		if slices.Contains(list, "") {
			c.report("an entry of allow is empty", "")
		}
	}
	return a
}

// lists returns the lists by key.
func (a *Allow) lists() map[string][]string {
	return map[string][]string{
		"paths": a.Paths, "endpoints": a.Endpoints, "connections": a.Connections, "packages": a.Packages, "programs": a.Programs,
	}
}

// Allow evaluates `allow`, whose entries may be templates over the inputs. It returns nil when the plan has none, and
// VALIDATION_ERROR with the field for an entry that is empty or not a string.
func (pr *Program) Allow(sc Scope) (*Allow, error) {
	if pr.allow == nil {
		return pr.plan.Allow, nil
	}
	v, err := pr.allow.value(sc, nil)
	if err != nil {
		return nil, err
	}
	lists, _ := v.(map[string]any)
	for name, list := range lists {
		entries, _ := list.([]any)
		for i, entry := range entries {
			if text, ok := entry.(string); !ok || text == "" {
				return nil, fault.New(fault.ValidationError, "is %s, but a text is expected", describe(entry)).WithField("allow." + name + "[" + strconv.Itoa(i) + "]")
			}
		}
	}
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	a := &Allow{}
	return a, json.Unmarshal(raw, a)
}

// describe names an invalid entry for messages.
func describe(v any) string {
	if v == "" {
		return "an empty text"
	}
	return typeName(v)
}

func (c cursor) approve() *Approve {
	a := &Approve{}
	c.object(map[string]func(cursor){
		"description": func(c cursor) { a.Description = c.text() },
		"rationale":   func(c cursor) { a.Rationale = c.text() },
		"show":        func(c cursor) { a.Show = c.value() },
		"timeout":     func(c cursor) { a.Timeout = c.duration() },
		"remind":      func(c cursor) { a.Remind = c.duration() },
		"priority":    func(c cursor) { a.Priority = c.oneOf("low", "medium", "high", "critical") },
		"risk":        func(c cursor) { a.Risk = c.oneOf("low", "medium", "high") },
		"quorum":      func(c cursor) { a.Quorum = c.count(maxQuorum) },
		"from":        func(c cursor) { a.From = c.people() },
		"form":        func(c cursor) { a.Form = c.compiled("form") },
		"covers":      func(c cursor) { a.Covers = c.texts() },
		"on_reject":   func(c cursor) { a.OnReject = c.oneOf("fail", "continue") },
		"on_expiry":   func(c cursor) { a.OnExpiry = c.oneOf("block", "reject", "approve", "default", "escalate") },
		"default":     func(c cursor) { a.Default = c.value() },
	})
	if a.Description == "" {
		c.report("approve needs a `description`", "it is what people read before they decide")
	}
	if c.has("default") != (a.OnExpiry == "default") {
		c.report("`default` and `on_expiry: default` belong together", "")
	}
	c.checkQuorum(a.From, a.Quorum)
	return a
}

// compiled parses a JSON Schema of what, such as a form.
func (c cursor) compiled(what string) json.RawMessage {
	raw := c.schema()
	if raw != nil {
		if _, err := formOf(raw); err != nil {
			c.report("the "+what+" is not a JSON Schema: "+err.Error(), "")
		}
	}
	return raw
}

// templates returns the templates of an approve step by name.
func (a *Approve) templates() map[string]any {
	return map[string]any{"description": a.Description, "rationale": a.Rationale, "show": a.Show}
}

// Question is an evaluated approve step.
type Question struct {
	Description string          `json:"description"`
	Rationale   string          `json:"rationale"`
	Show        json.RawMessage `json:"show"`
	// Default is the content of the form when nobody decides; nil for none.
	Default json.RawMessage `json:"-"`
}

// Question evaluates the templates of an approve step.
func (n *Node) Question(sc Scope) (Question, error) {
	var q Question
	raw, err := n.question.json(sc)
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return q, n.invalid("description and rationale of approve must give texts")
	}
	if n.fallback != nil {
		q.Default, err = n.fallback.json(sc)
	}
	return q, err
}

// formOf compiles the schema of a form.
func formOf(schema json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := decodeValue(schema)
	if err != nil {
		return nil, err
	}
	compiled, err := compileSchema(doc)
	if err != nil {
		return nil, errors.New(schemaMessage(err))
	}
	return compiled, nil
}

// CheckForm validates the form that an approver filled in against its JSON Schema. It returns VALIDATION_ERROR with the
// invalid field. Without a schema the form must be absent.
func CheckForm(schema, given json.RawMessage) error {
	if len(schema) == 0 {
		if len(given) > 0 && string(given) != "null" {
			return fault.New(fault.ValidationError, "this approval has no form").WithField("form")
		}
		return nil
	}
	return checkFormContent(schema, given, "form")
}

// checkFormContent validates a form against its schema. The field of an error begins with name.
func checkFormContent(schema, given json.RawMessage, name string) error {
	if len(given) == 0 {
		given = json.RawMessage("{}")
	}
	return checkAgainst(schema, given, name)
}

// checkAgainst validates JSON against a schema. It returns VALIDATION_ERROR with the invalid field, which begins with name, or
// INVALID_FORMAT.
func checkAgainst(schema, given json.RawMessage, name string) error {
	compiled, err := formOf(schema)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the schema of "+name+" cannot be read")
	}
	v, err := decodeValue(given)
	if err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "is not valid JSON: "+err.Error()).WithField(name)
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](compiled.Validate(v)); ok {
		leaf := innermost(invalid)
		return fault.New(fault.ValidationError, "%s", english(leaf)).WithField(strings.Join(append([]string{name}, leaf.InstanceLocation...), "."))
	}
	return nil
}
