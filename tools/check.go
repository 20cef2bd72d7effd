package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// maxEcho is the maximum length, in bytes, of an input value in an error message. Longer values are truncated, because
// they may be content, or a secret in the wrong field.
const maxEcho = 40

// check validates args and returns them in canonical form: the fields in the order of the schema, each once, with
// defaults. The bytes of free objects are not changed. Empty arguments mean an empty object, and null means an
// absent optional field.
func (s *shape) check(args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !utf8.Valid(args) || !events.Valid(args) {
		return nil, fault.New(fault.InvalidFormat, "the arguments are not valid JSON in UTF-8")
	}
	if args[0] != '{' {
		return nil, fault.New(fault.ValidationError, "the arguments must be an object, not %s", kindOf(args))
	}
	return s.value("", s.schema, args)
}

// value checks one value, which is valid JSON. field is its path, such as "details.files[2]".
func (s *shape) value(field string, rule *jsonschema.Schema, v json.RawMessage) (json.RawMessage, error) {
	v = bytes.TrimSpace(v)
	kind := kindOf(v)
	typ, matches := typeFor(rule, kind)
	if !matches {
		return nil, fault.New(fault.ValidationError, "must be %s, not %s", typ, kind).WithField(field)
	}
	switch typ {
	case "object":
		return s.object(field, rule, v)
	case "array":
		return s.list(field, rule, v)
	case "string":
		return v, s.str(field, rule, v)
	case "integer", "number":
		return numeric(field, typ, rule, v)
	default:
		return v, nil
	}
}

// typeFor returns the JSON Schema type of the rule that matches the kind of a value, "" if the rule permits every type.
// If no type matches, it returns the names of the permitted kinds, joined by "or", and false.
func typeFor(rule *jsonschema.Schema, kind string) (string, bool) {
	if len(rule.Types) == 0 {
		name := kindNamed(rule.Type)
		if name == "" || name == kind {
			return rule.Type, true
		}
		return name, false
	}
	names := make([]string, 0, len(rule.Types))
	for _, typ := range rule.Types {
		name := kindNamed(typ)
		if name == "" || name == kind {
			return typ, true
		}
		if name != "null" { // null only marks a pointer field, in which nil means absent
			names = append(names, name)
		}
	}
	return strings.Join(names, " or "), false
}

// object checks an object and writes its fields in the order of the schema, with defaults.
func (s *shape) object(field string, rule *jsonschema.Schema, v json.RawMessage) (json.RawMessage, error) {
	if rule.Properties == nil && rule.AdditionalProperties == nil {
		return v, nil // a free object
	}
	var room [8]member
	members := appendMembers(room[:0], v)
	if rule.Properties == nil {
		return s.mapping(field, rule, members)
	}
	if err := rejectUnknown(field, rule, members); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(v)+32)
	for _, name := range rule.PropertyOrder {
		value := valueOf(members, name)
		required := slices.Contains(rule.Required, name)
		if value == nil || string(value) == "null" && (!required || !acceptsNull(rule.Properties[name])) {
			if required {
				return nil, missing(join(field, name), value != nil)
			}
			value = rule.Properties[name].Default
			if value == nil {
				continue
			}
		}
		value, err := s.value(join(field, name), rule.Properties[name], value)
		if err != nil {
			return nil, err
		}
		out = append(out, ',', '"')
		out = append(append(append(out, name...), '"', ':'), value...)
	}
	return wrap('{', out, '}'), nil
}

// acceptsNull reports whether null is a value of the type itself. Next to only one other type, null just means that the
// Go field is a pointer.
func acceptsNull(rule *jsonschema.Schema) bool {
	return len(rule.Types) > 2 && slices.Contains(rule.Types, "null")
}

// mapping checks an object with free keys and values of one type. It writes each key once, in order, so that people
// who review the arguments see the value that is used.
func (s *shape) mapping(field string, rule *jsonschema.Schema, members []member) (json.RawMessage, error) {
	fields := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		fields[string(m.name)] = m.value
	}
	var out []byte
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, err := s.value(join(field, echo(key)), rule.AdditionalProperties, fields[key])
		if err != nil {
			return nil, err
		}
		name, err := encode(key)
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, ','), name...), ':'), value...)
	}
	return wrap('{', out, '}'), nil
}

// list checks a list and its items.
func (s *shape) list(field string, rule *jsonschema.Schema, v json.RawMessage) (json.RawMessage, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(v, &items); err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "is not a valid list").WithField(field)
	}
	if err := checkRange(field, len(items), rule.MinItems, rule.MaxItems, "items"); err != nil {
		return nil, err
	}
	if rule.Items == nil {
		return v, nil // a free list
	}
	out := make([]byte, 0, len(v)+1)
	for i, item := range items {
		item, err := s.value(field+"["+strconv.Itoa(i)+"]", rule.Items, item)
		if err != nil {
			return nil, err
		}
		out = append(append(out, ','), item...)
	}
	return wrap('[', out, ']'), nil
}

// str checks a string. It decodes the string only when a rule constrains the content.
func (s *shape) str(field string, rule *jsonschema.Schema, v json.RawMessage) error {
	if rule.Enum == nil && rule.Pattern == "" && rule.MinLength == nil && (rule.MaxLength == nil || len(v) <= *rule.MaxLength) {
		return nil
	}
	var text string
	if err := json.Unmarshal(v, &text); err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "is not a valid string").WithField(field)
	}
	if rule.Enum != nil && !slices.Contains(rule.Enum, any(text)) {
		return fault.New(fault.ValidationError, "must be one of %s, not %q", joinStrings(rule.Enum), echo(text)).WithField(field)
	}
	if rule.Pattern != "" && !s.patterns[rule.Pattern].MatchString(text) {
		return fault.New(fault.InvalidFormat, "must match the pattern %s", rule.Pattern).WithField(field)
	}
	return checkRange(field, utf8.RuneCountInString(text), rule.MinLength, rule.MaxLength, "characters")
}

// numeric checks a number. It returns integers without fraction and exponent, so that Go can decode them.
func numeric(field, typ string, rule *jsonschema.Schema, v json.RawMessage) (json.RawMessage, error) {
	const exact = 1 << 53 // the integers up to here are exact in a float64
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "is too large").WithField(field)
	}
	if typ == "integer" {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			v = strconv.AppendInt(nil, n, 10)
		} else if f == math.Trunc(f) && math.Abs(f) <= exact {
			v = strconv.AppendInt(nil, int64(f), 10)
		} else {
			return nil, fault.New(fault.ValidationError, "must be an integer, not %s", echo(string(v))).WithField(field)
		}
	}
	if rule.Minimum != nil && f < *rule.Minimum {
		return nil, fault.New(fault.ValidationError, "must be at least %v, not %s", *rule.Minimum, echo(string(v))).WithField(field)
	}
	if rule.Maximum != nil && f > *rule.Maximum {
		return nil, fault.New(fault.ValidationError, "must be at most %v, not %s", *rule.Maximum, echo(string(v))).WithField(field)
	}
	return v, nil
}

// rejectUnknown returns VALIDATION_ERROR for a field that the schema does not name, with the closest field as a hint.
func rejectUnknown(field string, rule *jsonschema.Schema, members []member) error {
	var unknown []string
	for _, m := range members {
		if rule.Properties[string(m.name)] == nil {
			unknown = append(unknown, string(m.name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	first := slices.Min(unknown)
	e := fault.New(fault.ValidationError, "is not a field of this tool").WithField(join(field, echo(first)))
	if near := nearest(first, rule.PropertyOrder); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("the fields are %s", strings.Join(rule.PropertyOrder, ", "))
}

func missing(field string, isNull bool) error {
	if isNull {
		return fault.New(fault.RequiredField, "is required and must not be null").WithField(field)
	}
	return fault.New(fault.RequiredField, "is required").WithField(field)
}

// checkRange checks a size n against optional bounds. unit is the unit of n, for the message.
func checkRange(field string, n int, low, high *int, unit string) error {
	switch {
	case low != nil && n < *low && *low == 1:
		return fault.New(fault.ValidationError, "must not be empty").WithField(field)
	case low != nil && n < *low:
		return fault.New(fault.ValidationError, "must have at least %d %s, not %d", *low, unit, n).WithField(field)
	case high != nil && n > *high:
		return fault.New(fault.ValidationError, "must have at most %d %s, not %d", *high, unit, n).
			WithField(field).WithReason("SIZE_LIMIT_EXCEEDED")
	default:
		return nil
	}
}

// kindOf returns the name, with its article, of the type of a valid JSON text.
func kindOf(v json.RawMessage) string {
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// kindNamed returns the name that kindOf uses for a type of JSON Schema, "" for any type.
func kindNamed(typ string) string {
	switch typ {
	case "object":
		return "an object"
	case "integer":
		return "a number"
	case "array":
		return "a list"
	case "string":
		return "a string"
	case "boolean":
		return "a boolean"
	case "", "null":
		return typ
	default:
		return "a " + typ
	}
}

// wrap encloses fields in brackets. Each field begins with a comma; the opening bracket replaces the first comma.
func wrap(open byte, fields []byte, end byte) json.RawMessage {
	if len(fields) == 0 {
		return json.RawMessage{open, end}
	}
	fields[0] = open
	return append(fields, end)
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// echo shortens a value of the user for an error message. It removes secrets first: a truncated secret would not be
// recognized.
func echo(v string) string {
	const searched = 4096
	v = secrets.Clean(v[:min(len(v), searched)])
	if len(v) <= maxEcho {
		return v
	}
	return strings.ToValidUTF8(v[:maxEcho], "") + "…"
}

func joinStrings(list []any) string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i], _ = w.(string)
	}
	return strings.Join(out, ", ")
}
