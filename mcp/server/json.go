package server

import "encoding/json"

// object is JSON that is made here rather than by the SDK.
type object = map[string]any

// fieldsOf are the fields of an object as they are: their numbers keep all digits.
func fieldsOf(v any) object {
	var raw map[string]json.RawMessage
	decode(mustJSON(v), &raw)
	fields := make(object, len(raw))
	for name, value := range raw {
		fields[name] = value
	}
	return fields
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // only values of this package
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

// decode reads JSON that was written a moment ago; what does not fit is left out.
func decode(raw json.RawMessage, into any) { _ = json.Unmarshal(raw, into) }
