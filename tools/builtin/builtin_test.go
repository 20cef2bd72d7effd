package builtin_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/toolstest"
)

// schema is the part of a JSON Schema that the tests use. A schema that is just true or false is decoded as an empty
// one.
type schema struct {
	Type        any
	Description string
	Enum        []any
	Default     json.RawMessage
	MinLength   int
	Pattern     string
	Items       *schema
	Properties  map[string]*schema
	Required    []string
	Additional  json.RawMessage `json:"additionalProperties"`
}

func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	if data[0] != '{' {
		return nil
	}
	return json.Unmarshal(data, (*plain)(s))
}

func parse(t *testing.T, text json.RawMessage) *schema {
	t.Helper()
	s := &schema{}
	require.NoError(t, json.Unmarshal(text, s))
	return s
}

func TestAllMakeACatalogue(t *testing.T) {
	t.Parallel()
	_, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
}

// Every contract is complete and consistent.
func TestSpecs(t *testing.T) {
	t.Parallel()
	upper := regexp.MustCompile(`^([A-Z][A-Z_]+|OutsideRoot|NotFound|PatchFailed|ReadOnly|PermissionDenied|CommandNotAllowed)$`)
	for _, tool := range builtin.All(builtin.Config{}) {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			t.Parallel()
			s, in := tool.Spec(), parse(t, tool.InputSchema())
			_, says := tool.(tools.Intender)
			assert.True(t, says || s.Approval != tools.ByIntent && s.Approval != tools.ByEffect, "the rules by intent and effect need an intent")
			assert.NotEmpty(t, s.Title)
			assert.NotEmpty(t, s.Purpose)
			assert.NotEmpty(t, s.Conditions)
			assert.Contains(t, []tools.Effect{tools.Read, tools.Idempotent, tools.Write, tools.Destructive}, s.Effect)
			assert.Contains(t, []tools.Gate{tools.AnyState, tools.InProgress, tools.AwaitingApproval, tools.BlockedOrActive}, s.Gate)
			assert.Contains(t, []tools.Approval{tools.NoApproval, tools.OutsideWorkspace, tools.IfDestructive, tools.ByIntent, tools.ByEffect, tools.Always}, s.Approval)
			for _, p := range s.Paths {
				assert.Contains(t, in.Properties, p.Field)
				assert.Contains(t, []tools.Access{tools.ReadPath, tools.WritePath, tools.DeletePath}, p.Access)
				if s.Effect == tools.Read {
					assert.Equal(t, tools.ReadPath, p.Access, "a reading tool writes %s", p.Field)
				}
			}
			if s.Example != "" {
				_, err := tool.Check(json.RawMessage(s.Example))
				require.NoError(t, err, "the example is no call")
			}
			for _, field := range s.Content {
				assert.Contains(t, in.Properties, field)
			}
			if s.Command != "" {
				assert.Contains(t, in.Properties, s.Command)
			}
			for _, name := range s.Errors {
				assert.Regexp(t, upper, name)
			}
			if s.NoWorkspace {
				assert.False(t, slices.ContainsFunc(s.Paths, func(p tools.Path) bool { return p.Access != tools.ReadPath }))
			}
			logOnly := []string{"LOG_WRITE", "CHECKPOINT_CREATE", "CHECKPOINT_RESTORE", "APPROVAL_REQUEST", "QUESTION_ASK", "TASK_SPAWN"}
			assert.Equal(t, slices.Contains(logOnly, s.Name), s.LogOnly, "a read-only node lets these run, and no others")
		})
	}
}

// S0-010: the MCP hints are true for exactly these tools.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	destructive := []string{"FILE_DELETE", "DIRECTORY_DELETE", "BASH_EXECUTE", "DATABASE_QUERY", "GIT_PUSH", "PROJECT_UNDO", "firebase.write"}
	open := []string{
		"HTTP_REQUEST", "WEB_FETCH", "WEB_SEARCH", "GIT_PUSH", "PACKAGE_INSTALL", "NOTIFICATION_SEND",
		"github.readFile", "github.searchCode", "github.createIssue", "github.createPR", "github.getWorkflowRuns",
	}
	reads := []string{
		"FILE_READ", "DIRECTORY_LIST", "GLOB_SEARCH", "GREP_SEARCH", "GIT_STATUS", "GIT_DIFF", "APPROVAL_CHECK",
		"WEB_FETCH", "WEB_SEARCH", "shell_exec", "github.readFile", "github.searchCode", "github.getWorkflowRuns",
		"onboarding.getChecklist", "system.getAgents",
		"MESSAGE_INBOX",
		"system.listSkills", "system.getTaskQueue", "system.getSystemStatus", "onboarding.getWelcome",
		"firebase.read", "firebase.subscribe", "firebase.unsubscribe",
	}
	seen := map[string]bool{}
	for _, tool := range builtin.All(builtin.Config{}) {
		name, hints := tool.Spec().Name, tools.Annotate(tool.Spec())
		seen[name] = true
		assert.Equal(t, slices.Contains(destructive, name), hints.DestructiveHint, "%s: destructiveHint", name)
		assert.Equal(t, slices.Contains(open, name), hints.OpenWorldHint, "%s: openWorldHint", name)
		assert.Equal(t, slices.Contains(reads, name), hints.ReadOnlyHint, "%s: readOnlyHint", name)
	}
	for _, name := range slices.Concat(destructive, open, reads) {
		assert.True(t, seen[name], "%s is no tool", name)
	}
}

// Every path input is declared as one, so that the dispatcher confines it (S0-007).
func TestPathsAreDeclared(t *testing.T) {
	t.Parallel()
	for _, tool := range builtin.All(builtin.Config{}) {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			t.Parallel()
			for name, s := range parse(t, tool.InputSchema()).Properties {
				if strings.HasPrefix(s.Description, "Absolute path") {
					assert.True(t, slices.ContainsFunc(tool.Spec().Paths, func(p tools.Path) bool { return p.Field == name }), name)
				}
			}
		})
	}
}

// Schemas are valid, closed and describe every field.
func TestSchemas(t *testing.T) {
	t.Parallel()
	var described func(t *testing.T, at string, s *schema)
	described = func(t *testing.T, at string, s *schema) {
		t.Helper()
		if len(s.Properties) > 0 {
			assert.Equal(t, "false", string(s.Additional), at)
		}
		for name, p := range s.Properties {
			assert.NotEmpty(t, p.Description, at+"."+name)
			described(t, at+"."+name, p)
			if p.Items != nil {
				described(t, at+"."+name+"[]", p.Items)
			}
		}
	}
	for _, tool := range builtin.All(builtin.Config{}) {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			t.Parallel()
			for _, text := range []json.RawMessage{tool.InputSchema(), tool.OutputSchema()} {
				toolstest.Compile(t, text)
				s := parse(t, text)
				assert.Equal(t, "object", s.Type)
				described(t, tool.Spec().Name, s)
			}
		})
	}
}

// sample returns the smallest arguments that match the schema.
func sample(s *schema) map[string]any {
	args := map[string]any{}
	for _, name := range s.Required {
		args[name] = fitting(s.Properties[name])
	}
	return args
}

func fitting(s *schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "integer", s.Type == "number":
		return 1
	case s.Type == "boolean":
		return true
	case s.Type == "array":
		return []any{fitting(s.Items)}
	case s.Type == "object":
		return sample(s)
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString("text"):
		return "1.0.0"
	default:
		return "text"
	}
}

// wrong returns values that a field of the schema must reject (S0-006).
func wrong(s *schema) []string {
	if several, ok := s.Type.([]any); ok {
		var values []string
		for kind, value := range map[string]string{"boolean": `true`, "number": `1.5`, "array": `["text"]`, "object": `{}`} {
			if !slices.Contains(several, any(kind)) {
				values = append(values, value)
			}
		}
		return values
	}
	switch s.Type {
	case "integer":
		return []string{`1.5`, `"1"`, `true`, `[1]`, `{}`}
	case "number":
		return []string{`"1"`, `true`, `[1]`, `{}`}
	case "boolean":
		return []string{`"true"`, `0`, `1`, `[]`, `{}`}
	case "array":
		return append([]string{`"text"`, `1`, `{}`}, mixed(s.Items)...)
	case "object":
		return []string{`[]`, `"{}"`, `1`}
	default:
		values := []string{`1`, `true`, `["text"]`, `{}`}
		if len(s.Enum) > 0 {
			values = append(values, `"no such word"`)
		}
		return values
	}
}

// mixed returns lists whose second item does not match.
func mixed(items *schema) []string {
	if items.Type == nil {
		return nil // any item is valid
	}
	good, _ := json.Marshal(fitting(items)) // plain values can always be encoded
	lists := []string{}
	for _, bad := range wrong(items) {
		lists = append(lists, `[`+string(good)+`,`+bad+`]`)
	}
	return lists
}

// with returns the arguments as JSON, with one field replaced by a JSON text.
func with(t *testing.T, args map[string]any, field, text string) json.RawMessage {
	t.Helper()
	args = maps.Clone(args)
	args[field] = json.RawMessage(text)
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	return raw
}

// S0-005: the error names each required input that is missing or null.
func TestRequiredInputs(t *testing.T) {
	t.Parallel()
	for _, tool := range builtin.All(builtin.Config{}) {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			t.Parallel()
			in := parse(t, tool.InputSchema())
			args := sample(in)
			raw, err := json.Marshal(args)
			require.NoError(t, err)
			assert.True(t, toolstest.Valid(t, tool, raw))
			checked, err := tool.Check(raw)
			require.NoError(t, err)
			assert.True(t, toolstest.Valid(t, tool, checked), "%s", checked)
			for _, name := range in.Required {
				less := maps.Clone(args)
				delete(less, name)
				raw, err := json.Marshal(less)
				require.NoError(t, err)
				raws := []json.RawMessage{raw}
				if types, _ := in.Properties[name].Type.([]any); !slices.Contains(types, any("null")) {
					raws = append(raws, with(t, args, name, `null`))
				}
				for _, raw := range raws {
					_, err = tool.Check(raw)
					e := fault.From(err)
					require.NotNil(t, e, "%s", raw)
					assert.Equal(t, fault.RequiredField, e.Code)
					assert.Equal(t, name, e.Field)
					assert.False(t, toolstest.Valid(t, tool, raw))
				}
			}
		})
	}
}

// S0-006: each input rejects each wrong type with an error that names the field; the published schema agrees.
func TestWrongInputs(t *testing.T) {
	t.Parallel()
	for _, tool := range builtin.All(builtin.Config{}) {
		t.Run(tool.Spec().Name, func(t *testing.T) {
			t.Parallel()
			in := parse(t, tool.InputSchema())
			args := sample(in)
			for name, s := range in.Properties {
				for _, value := range wrong(s) {
					raw := with(t, args, name, value)
					_, err := tool.Check(raw)
					e := fault.From(err)
					require.NotNil(t, e, "%s", raw)
					assert.Equal(t, fault.ValidationError, e.Code, "%s", raw)
					assert.Equal(t, name, strings.SplitN(e.Field, "[", 2)[0], "%s", raw)
					assert.False(t, toolstest.Valid(t, tool, raw), "%s", raw)
				}
			}
			_, err := tool.Check(with(t, args, "no_such_field", `1`))
			e := fault.From(err)
			require.NotNil(t, e)
			assert.Equal(t, fault.ValidationError, e.Code)
			assert.Equal(t, "no_such_field", e.Field)
		})
	}
}
