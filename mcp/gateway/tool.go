package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// callTimeout is the timeout of a call in the catalogue. It is long because the server may turn the call into a task; for any other
// call the timeout of the server's definition applies.
const callTimeout = 24 * time.Hour

// maxName is the most bytes of the name of a tool in the catalogue.
const maxName = 128

// Entry describes a tool of a server. It can be sent to other processes as JSON, see Mirror.
type Entry struct {
	Server string     `json:"server"`
	Tool   string     `json:"tool"`
	Spec   tools.Spec `json:"spec"`
	// Input is the schema of the arguments.
	Input json.RawMessage `json:"input"`
	// Structured is the schema of the structured content; may be empty.
	Structured json.RawMessage `json:"structured,omitempty"`
	// Refused is the error of all calls while they are refused, nil otherwise.
	Refused *fault.Error `json:"refused,omitempty"`
}

// outsideTool is a tool of an external MCP server.
type outsideTool struct {
	Entry

	// pinned is the digest of the definition from which this tool was made.
	pinned string
	// verified is the last tool of a connection with the pinned definition, so that each is compared only once.
	verified atomic.Pointer[registry.Tool]
	// call calls the tool; nil in processes that make no calls.
	call func(ctx context.Context, env *tools.Env, t *outsideTool, args json.RawMessage) (json.RawMessage, error)
	// input and result return the compiled schemas Input and Structured.
	input, result func() (*compiledSchema, error)
}

// Mirror returns a tool for an entry of another process. The tool can be listed and its arguments are checked, but it can be called
// only in the other process. Mirror returns VALIDATION_ERROR for an invalid entry.
func Mirror(e Entry) (tools.Tool, error) {
	if e.Spec.Name != tools.OutsideName(e.Server, e.Tool) || e.Server == "" || e.Tool == "" {
		return nil, fault.New(fault.ValidationError, "the entry of the tool %q is not valid", escape(e.Spec.Name, maxTitle))
	}
	return newOutsideTool(e, nil), nil
}

func newOutsideTool(e Entry, call func(context.Context, *tools.Env, *outsideTool, json.RawMessage) (json.RawMessage, error)) *outsideTool {
	return &outsideTool{
		Entry: e, call: call,
		input:  sync.OnceValues(func() (*compiledSchema, error) { return compile(e.Input) }),
		result: sync.OnceValues(func() (*compiledSchema, error) { return compile(e.Structured) }),
	}
}

// entryOf converts a definition to an entry. effect is the configured effect, "" for none. It returns VALIDATION_ERROR if the tool
// cannot be offered.
func entryOf(server string, d json.RawMessage, effect tools.Effect) (Entry, error) {
	var def definition
	if err := decode(d, &def); err != nil {
		return Entry{}, fault.Wrap(fault.ValidationError, err, "the definition is not valid")
	}
	e := Entry{Server: server, Tool: def.Name, Input: encode(def.InputSchema)}
	if def.OutputSchema != nil {
		e.Structured = encode(def.OutputSchema)
	}
	hints := def.Annotations
	e.Spec = tools.Spec{
		Name: tools.OutsideName(server, def.Name), Title: titleOf(def), Purpose: escape(def.Description, maxDescription),
		Conditions: []string{"A tool of the MCP server " + server},
		Effect:     effectOf(hints, effect), Gate: tools.InProgress, Approval: tools.NoApproval,
		OpenWorld: hints == nil || hints.OpenWorldHint == nil || *hints.OpenWorldHint,
		Timeout:   callTimeout, NoWorkspace: true,
	}
	if e.Spec.Effect == tools.Destructive {
		e.Spec.Approval = tools.Always
	}
	if e.Spec.Rate = tools.Writes; e.Spec.Effect == tools.Read {
		e.Spec.Rate, e.Spec.Gate = tools.Reads, tools.AnyState
	}
	if len(e.Spec.Name) > maxName {
		return Entry{}, fault.New(fault.ValidationError, "its name has more than %d characters together with that of the server", maxName)
	}
	for _, schema := range []json.RawMessage{e.Input, e.Structured} {
		if schema == nil {
			continue
		}
		if _, err := compile(schema); err != nil {
			return Entry{}, fault.New(fault.ValidationError, "its schema cannot be used: %s", escape(err.Error(), maxTitle))
		}
	}
	return e, nil
}

func titleOf(d definition) string {
	if d.Title == "" && d.Annotations != nil {
		d.Title = d.Annotations.Title
	}
	return escape(d.Title, maxTitle)
}

// Spec implements tools.Tool.
func (t *outsideTool) Spec() tools.Spec { return t.Entry.Spec }

// InputSchema implements tools.Tool.
func (t *outsideTool) InputSchema() json.RawMessage { return bytes.Clone(t.Input) }

// OutputSchema implements tools.Tool. The output is a whole tool result of MCP.
func (t *outsideTool) OutputSchema() json.RawMessage {
	properties := map[string]any{"content": map[string]any{"type": "array", "items": map[string]any{"type": "object"}}}
	whole := map[string]any{"type": "object", "properties": properties, "required": []string{"content"}}
	if t.Structured != nil {
		properties["structuredContent"] = t.Structured
	}
	return encode(whole)
}

// Check implements tools.Tool. It returns t.Refused while calls are refused.
func (t *outsideTool) Check(args json.RawMessage) (json.RawMessage, error) {
	if t.Refused != nil {
		return nil, t.Refused
	}
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	var value map[string]any
	if !json.Valid(args) || decode(args, &value) != nil || value == nil {
		return nil, fault.New(fault.ValidationError, "the arguments must be an object")
	}
	s, err := t.input()
	if err != nil {
		return nil, fault.New(fault.ToolDisabled, "the schema of %s cannot be used: %s", t.Entry.Spec.Name, err)
	}
	if err := s.check(value); err != nil {
		return nil, err
	}
	return encode(value), nil
}

// Call implements tools.Tool.
func (t *outsideTool) Call(ctx context.Context, env *tools.Env, args json.RawMessage) (json.RawMessage, error) {
	switch {
	case t.Refused != nil:
		return nil, t.Refused
	case t.call == nil:
		return nil, fault.New(fault.Unavailable, "%s is called by the node that has the server", t.Entry.Spec.Name)
	}
	return t.call(ctx, env, t, args)
}

// Reply implements tools.Replier. It replaces the URIs of resources by those of orch (OutsideURI), which clients can read.
func (t *outsideTool) Reply(out json.RawMessage) json.RawMessage {
	var result map[string]json.RawMessage
	var content []map[string]any
	if !bytes.Contains(out, []byte(`"resource`)) || json.Unmarshal(out, &result) != nil || decode(result["content"], &content) != nil {
		return out
	}
	for _, block := range content {
		resource := block
		if embedded, ok := block["resource"].(map[string]any); ok {
			resource = embedded
		}
		if uri, ok := resource["uri"].(string); ok {
			resource["uri"] = OutsideURI(t.Server, uri)
		}
	}
	result["content"] = encode(content)
	return encode(result)
}

// maxResult is the most bytes of a result, the same as for the output of any call.
const maxResult = 4 << 20

// output converts the result of a server to the output of the call. It returns TOOL_FAILED if the server reports a failure, or if
// the result is invalid or violates its schema.
func (t *outsideTool) output(result json.RawMessage) (json.RawMessage, error) {
	name := t.Entry.Spec.Name
	if len(result) > maxResult {
		return nil, fault.New(fault.ToolFailed, "the result of %s has more than %d bytes", name, maxResult).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
		IsError    bool              `json:"isError"`
	}
	if json.Unmarshal(result, &r) != nil || slices.ContainsFunc(r.Content, func(block json.RawMessage) bool { return !isObject(block) }) {
		return nil, fault.New(fault.ToolFailed, "%s returned no result of MCP", name)
	}
	if r.IsError {
		return nil, fault.New(fault.ToolFailed, "%s", errorText(name, r.Content))
	}
	if string(r.Structured) == "null" {
		r.Structured = nil
	}
	if r.Structured != nil && !isObject(r.Structured) {
		return nil, fault.New(fault.ToolFailed, "%s returned no result of MCP", name)
	}
	if err := t.checkStructured(r.Structured); err != nil {
		return nil, err
	}
	return joinResult(r.Content, r.Structured), nil
}

// joinResult returns a tool result of the given encoded parts.
func joinResult(content []json.RawMessage, structured json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"content":[`)
	for i, block := range content {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(block)
	}
	b.WriteByte(']')
	if structured != nil {
		b.WriteString(`,"structuredContent":`)
		b.Write(structured)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// isObject reports whether JSON without surrounding spaces is an object.
func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// checkStructured validates structured content against the output schema of the tool. It does not check against a recursive schema:
// schema and content both come from the server, which could make the check take too long.
func (t *outsideTool) checkStructured(structured json.RawMessage) error {
	if t.Structured == nil {
		return nil
	}
	name := t.Entry.Spec.Name
	s, err := t.result()
	if err != nil {
		return fault.New(fault.ToolFailed, "the result of %s cannot be checked: %s", name, err)
	}
	if s.branches > 0 {
		return nil
	}
	var value any
	if len(structured) == 0 || decode(structured, &value) != nil {
		return fault.New(fault.ToolFailed, "%s returned no structured content, which its definition promises", name)
	}
	if err := s.check(value); err != nil {
		return fault.New(fault.ToolFailed, "the result of %s is not what its definition promises: %s", name, fault.From(err).Error())
	}
	return nil
}

// errorText returns the texts of an error result.
func errorText(name string, content []json.RawMessage) string {
	var texts []string
	for _, raw := range content {
		var block struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &block) == nil && block.Text != "" {
			texts = append(texts, escape(block.Text, maxDescription))
		}
	}
	if len(texts) == 0 {
		return name + " failed without a word"
	}
	return strings.Join(texts, "\n")
}

// definitionsOf returns the pinned parts (pinnedPart) of tools, by name.
func definitionsOf(list []*registry.Tool) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(list))
	for _, t := range list {
		all[t.Name] = pinnedPart(t)
	}
	return all
}
