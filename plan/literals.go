package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/orch-dev/orch/fault"
)

// checkLiterals reports literal values in `with` that the tool would reject in a call. Values of expressions are not
// known yet.
func (l *linker) checkLiterals(with any, info ToolInfo, at location) {
	given, ok := with.(map[string]any)
	if !ok || l.opt.Accepted {
		return
	}
	plain, fixed := plainOf(given)
	switch {
	case fixed && info.Check != nil:
		checkCall(info, plain, at)
	case !fixed:
		checkFields(l.inputSchema(info), given, at)
	}
}

// checkCall lets the tool check arguments without expressions.
func checkCall(info ToolInfo, plain any, at location) {
	raw, err := encode(plain)
	if err != nil {
		return // reported when it was parsed
	}
	_, err = info.Check(raw)
	refusal := fault.From(err)
	if err != nil && slices.Contains([]fault.Code{fault.ValidationError, fault.RequiredField, fault.InvalidFormat}, refusal.Code) {
		at.within(plain, fieldPath(refusal.Field)).report(refusal.Message, refusal.Hint)
	}
}

// fieldPath splits the field of an error, such as details.files[2] or details.files.2, into its elements.
func fieldPath(field string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(field, "]", ""), func(r rune) bool { return r == '.' || r == '[' })
}

// within follows names into v, and returns the location of the deepest part that exists.
func (p location) within(v any, names []string) location {
	for _, name := range names {
		switch whole := v.(type) {
		case map[string]any:
			part, ok := whole[name]
			if !ok {
				return p.field(name)
			}
			p, v = p.field(name), part
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(whole) {
				return p
			}
			p, v = p.item(i), whole[i]
		default:
			return p
		}
	}
	return p
}

// inputSchema returns the compiled schema of the inputs of a tool. It returns nil when the schema is unknown or has
// references, because following them may not terminate.
func (l *linker) inputSchema(info ToolInfo) *jsonschema.Schema {
	if s, known := l.toolInputs[info.Name]; known || info.Input == nil {
		return s
	}
	s, _ := compileInput(info.Input())
	l.toolInputs[info.Name] = s
	return s
}

var errHasReference = errors.New("the schema contains references")

func compileInput(raw json.RawMessage) (*jsonschema.Schema, error) {
	for _, key := range []string{`"$ref"`, `"$dynamicRef"`, `"$recursiveRef"`} {
		if bytes.Contains(raw, []byte(key)) {
			return nil, errHasReference
		}
	}
	doc, err := decodeValue(raw)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noFiles{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// checkValue checks a value, which may contain expressions, against a schema. Null is accepted: tools treat it as an
// absent field.
func checkValue(s *jsonschema.Schema, v any, at location) {
	plain, fixed := plainOf(v)
	switch {
	case s == nil || v == nil:
	case fixed && !holdsNull(plain):
		checkFixed(s, plain, at)
	case !mayBe(s, v):
		at.report("must be "+kindsNamed(s.Types.ToStrings())+", not "+typeName(v), "")
	default:
		checkParts(s, v, at)
	}
}

func checkParts(s *jsonschema.Schema, v any, at location) {
	switch v := v.(type) {
	case map[string]any:
		checkNames(s, v, at)
		checkFields(s, v, at)
	case []any:
		for i, item := range v {
			if len(s.PrefixItems) == 0 {
				checkValue(s.Items2020, item, at.item(i))
			}
		}
	}
}

// checkFixed checks a value without expressions.
func checkFixed(s *jsonschema.Schema, plain any, at location) {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](s.Validate(plain)); ok {
		leaf := innermost(invalid)
		at = at.within(plain, leaf.InstanceLocation)
		at.report(english(leaf), suggestEnum(leaf, at))
	}
}

// suggestEnum suggests an enum value for a string that is not in the enum.
func suggestEnum(e *jsonschema.ValidationError, at location) string {
	choice, ok := e.ErrorKind.(*kind.Enum)
	if !ok {
		return ""
	}
	text, _ := choice.Got.(string)
	return at.suggest(text, texts(choice.Want), "")
}

// checkFields checks the values of an object.
func checkFields(s *jsonschema.Schema, object map[string]any, at location) {
	if s == nil {
		return
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	if len(s.PatternProperties) > 0 {
		additional = nil
	}
	for _, name := range sortedKeys(object) {
		rule, named := s.Properties[name]
		if !named {
			rule = additional
		}
		checkValue(rule, object[name], at.field(name))
	}
}

// checkNames reports required fields that are missing from an object, and fields that the schema does not allow.
func checkNames(s *jsonschema.Schema, object map[string]any, at location) {
	for _, name := range s.Required {
		if _, given := object[name]; !given {
			at.report("the field "+quote(name)+" is missing", "")
		}
	}
	if s.AdditionalProperties != false || len(s.PatternProperties) > 0 {
		return
	}
	for _, name := range sortedKeys(object) {
		if s.Properties[name] == nil {
			at.field(name).report("there is no field "+quote(name), at.suggest(name, sortedKeys(s.Properties), "it has "+strings.Join(sortedKeys(s.Properties), ", ")))
		}
	}
}

// mayBe reports whether a value with expressions may have a type of the schema. The type is known for an object, a
// list, and a string that is not just a single expression.
func mayBe(s *jsonschema.Schema, v any) bool {
	if s.Types == nil || s.Types.IsEmpty() {
		return true
	}
	needed := "object"
	switch v := v.(type) {
	case string:
		if isExpression(v) {
			return true
		}
		needed = "string"
	case []any:
		needed = "array"
	}
	return slices.Contains(s.Types.ToStrings(), needed)
}

// plainOf returns the value of a template without expressions; fixed is false when it contains expressions.
func plainOf(v any) (plain any, fixed bool) {
	switch v := v.(type) {
	case string:
		parts, err := segments(v)
		if err != nil || len(parts) != 1 || parts[0].expression {
			return nil, false
		}
		return parts[0].text, true
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], fixed = plainOf(v[i]); !fixed {
				return nil, false
			}
		}
		return list, true
	case map[string]any:
		object := make(map[string]any, len(v))
		for name := range v {
			if object[name], fixed = plainOf(v[name]); !fixed {
				return nil, false
			}
		}
		return object, true
	default:
		return v, true
	}
}

// holdsNull reports whether a value contains null.
func holdsNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(v, holdsNull)
	case map[string]any:
		for _, part := range v {
			if holdsNull(part) {
				return true
			}
		}
	}
	return false
}
