package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
)

// maxInputs limits the size of a file with inputs, in bytes.
const maxInputs = 8 << 20

// values are named JSON values.
type values map[string]json.RawMessage

// parsePairs parses arguments "name=value" and "name:=json". The schema determines the type of a value. guess converts values
// that the schema does not contain.
func parsePairs(args []string, schema inputSchema, flag string, guess func(string) json.RawMessage) (values, error) {
	v := values{}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		forced := strings.HasSuffix(name, ":")
		name = strings.TrimSuffix(name, ":")
		if !ok || name == "" {
			return nil, fault.New(fault.InvalidFormat, "%q is not of the form name=value", arg).WithField(flag).
				WithHint("write name=value, or name:=json for a value of another type than text")
		}
		if _, twice := v[name]; twice {
			return nil, fault.New(fault.InvalidParams, "is given twice").WithField(name)
		}
		if !utf8.ValidString(arg) {
			return nil, fault.New(fault.InvalidFormat, "is not valid UTF-8").WithField(strings.ToValidUTF8(name, "?")).
				WithHint("convert it, or give the path of a file")
		}
		var err error
		switch p, known := schema.Properties[name]; {
		case forced:
			v[name], err = parseJSON(name, text)
		case known && len(p.Type) > 0:
			v[name], err = p.typed(name, text)
		default:
			v[name] = guess(text)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// typed parses text as the first type of the property that matches.
func (p property) typed(name, text string) (json.RawMessage, error) {
	if slices.Contains(p.Type, "string") {
		return asText(text), nil
	}
	raw, err := parseJSON(name, text)
	if err == nil && slices.ContainsFunc(p.Type, func(t string) bool { return isType(raw, t) }) {
		return raw, nil
	}
	e := fault.New(fault.ValidationError, "%q is not of the type %s", text, strings.Join(p.Type, " or ")).WithField(name)
	if slices.Contains(p.Type, "array") {
		e = e.WithHint(`write it as JSON: %s='["a", "b"]'`, name)
	}
	return nil, e
}

// parseJSON parses the JSON in a flag such as --payload, or in an argument name:=json.
func parseJSON(name, text string) (json.RawMessage, error) {
	if !json.Valid([]byte(text)) {
		return nil, fault.New(fault.InvalidFormat, "%q is not valid JSON", text).WithField(name).
			WithHint("quote it for the shell: %s", quotingHint(name))
	}
	return json.RawMessage(text), nil
}

// quotingHint returns a hint how to quote JSON for the shell.
func quotingHint(name string) string {
	const value = `{"key": "value"}'`
	if strings.HasPrefix(name, "--") {
		return name + " '" + value
	}
	return "'" + name + ":=" + value
}

// isType reports whether a valid JSON text is of a type of JSON Schema.
func isType(raw json.RawMessage, typ string) bool {
	first := bytes.TrimSpace(raw)[0]
	switch typ {
	case "integer":
		return (first == '-' || first >= '0' && first <= '9') && !bytes.ContainsAny(raw, ".eE")
	case "number":
		return first == '-' || first >= '0' && first <= '9'
	case "boolean":
		return first == 't' || first == 'f'
	case "array":
		return first == '['
	case "object":
		return first == '{'
	case "null":
		return first == 'n'
	default:
		return false
	}
}

// asText returns text as a JSON string.
func asText(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // cannot happen: every string can be encoded
	}
	return raw
}

// asJSON returns text unchanged if it is JSON, otherwise as a JSON string.
func asJSON(text string) json.RawMessage {
	if json.Valid([]byte(text)) && strings.TrimSpace(text) != "" {
		return json.RawMessage(text)
	}
	return asText(text)
}

// jsonPlace adds file:line:col to an error of the JSON decoder.
func jsonPlace(name string, src []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset, message := int64(0), "this is not valid JSON"
	switch {
	case errors.As(err, &syntax):
		offset, message = syntax.Offset, syntax.Error()
	case errors.As(err, &kind):
		offset, message = kind.Offset, "a JSON "+kind.Value+" does not fit here"
	}
	before := src[:min(max(int(offset)-1, 0), len(src))]
	line := 1 + bytes.Count(before, []byte("\n"))
	col := len(before) - bytes.LastIndexByte(before, '\n')
	return fault.New(fault.InvalidFormat, "%s:%d:%d: %s", name, line, col, message)
}
