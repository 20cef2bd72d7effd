package wire

import (
	"bytes"
	"encoding/json"
	"slices"
)

// child is what the value of a keyword of a schema is.
type child int

const (
	aSchema  child = iota // a schema, or a list of them
	ofNames               // an object of schemas by their names
	noSchema              // a value that only looks like a schema
)

// childOf returns what the value of a keyword is.
func childOf(keyword string) child {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return ofNames
	case "enum", "const", "default", "examples", "example", "required":
		return noSchema
	default:
		return aSchema
	}
}

// member is a member of an object of JSON.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object in their order. It reports false for other values.
func members(raw json.RawMessage) (list []member, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		var m member
		if m.name, ok = name.(string); !ok || decoder.Decode(&m.value) != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

// CloseObjects returns a schema in which each object with properties allows no others, unless it says what it allows. The
// order of the properties stays: it is the order in which a model writes them.
func CloseObjects(schema json.RawMessage) json.RawMessage { return rewrite(schema, aSchema) }

func rewrite(raw json.RawMessage, what child) json.RawMessage {
	if what == noSchema {
		return raw
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = rewrite(list[i], aSchema)
		}
		return joined(list)
	}
	object, ok := members(raw)
	if !ok {
		return raw
	}
	for i, m := range object {
		inner := aSchema
		if what == aSchema {
			inner = childOf(m.name)
		}
		object[i].value = rewrite(m.value, inner)
	}
	if what == aSchema && has(object, "properties") && !has(object, "additionalProperties") {
		object = append(object, member{"additionalProperties", json.RawMessage("false")})
	}
	return written(object)
}

func has(object []member, name string) bool {
	return slices.ContainsFunc(object, func(m member) bool { return m.name == name })
}

// joined returns a list of JSON.
func joined(list []json.RawMessage) json.RawMessage {
	values := make([][]byte, len(list))
	for i, value := range list {
		values[i] = value
	}
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}

// written returns an object of JSON.
func written(object []member) json.RawMessage {
	var fields []json.RawMessage
	for _, m := range object {
		name, err := marshal(m.name)
		if err != nil {
			continue // a string always has a form
		}
		fields = append(fields, slices.Concat(name, []byte(":"), m.value))
	}
	inner := joined(fields)
	inner[0], inner[len(inner)-1] = '{', '}'
	return inner
}

// IsStrict reports whether each object in a schema is closed and requires all of its properties.
func IsStrict(schema json.RawMessage) bool { return strict(schema, aSchema) }

func strict(raw json.RawMessage, what child) bool {
	if what == noSchema {
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		return !slices.ContainsFunc(list, func(element json.RawMessage) bool { return !strict(element, aSchema) })
	}
	object, ok := members(raw)
	if !ok {
		return json.Valid(raw) // true, false, a text or a number
	}
	for _, m := range object {
		inner := aSchema
		if what == aSchema {
			inner = childOf(m.name)
		}
		if !strict(m.value, inner) {
			return false
		}
	}
	return what == ofNames || isClosed(raw)
}

// isClosed reports whether a schema for objects is closed and requires all of its properties, or is not for objects.
func isClosed(raw json.RawMessage) bool {
	var s struct {
		Type                 any
		Properties           map[string]json.RawMessage
		Required             []string
		AdditionalProperties any
	}
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	if s.Properties == nil && s.Type != "object" {
		return true
	}
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			return false
		}
	}
	return s.AdditionalProperties == false
}
