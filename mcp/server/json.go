package server

import "encoding/json"

// object is a JSON object built by this package.
type object = map[string]any

// fieldsOf returns the fields of v, which must be encoded as an object. The values are raw JSON, so that numbers keep all digits.
func fieldsOf(v any) object {
	var raw map[string]json.RawMessage
	decode(mustJSON(v), &raw)
	fields := make(object, len(raw))
	for name, value := range raw {
		fields[name] = value
	}
	return fields
}

// mustJSON encodes a value of this package.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values of this package can be encoded
	}
	return raw
}

func quoted(name string) string {
	if len(name) > 128 {
		name = name[:128] + "…"
	}
	return string(mustJSON(name))
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// decode decodes JSON that this process has encoded; it ignores fields that do not match.
func decode(raw json.RawMessage, into any) { _ = json.Unmarshal(raw, into) }
