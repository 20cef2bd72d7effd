package plan

import (
	"encoding/json"
	"slices"
)

// shape is what is known of a value before it is there. nil is a value of which nothing is known. Null is a value of every shape,
// for the output of a step that was skipped is null.
type shape struct {
	// kinds are the JSON types that it may have; nil = any.
	kinds []string
	// fields are those of an object; closed tells that it has no others.
	fields map[string]*shape
	closed bool
	// items is the shape of the items of a list.
	items *shape
	// words are the only texts that it may be; nil = any.
	words []string
	// later reads the shape when somebody looks into it, for that takes a while. The other fields are empty then.
	later func() *shape
}

// read returns a shape that is there.
func (s *shape) read() *shape {
	if s != nil && s.later != nil {
		return s.later()
	}
	return s
}

// object returns the shape of an object that has these fields and no others.
func object(fields map[string]*shape) *shape {
	return &shape{kinds: []string{"object"}, fields: fields, closed: true}
}

// arrayOf returns the shape of a list.
func arrayOf(items *shape) *shape { return &shape{kinds: []string{"array"}, items: items} }

// oneOfWords returns the shape of a text that is one of the words.
func oneOfWords(words ...string) *shape { return &shape{kinds: []string{"string"}, words: words} }

// maxShape bounds how deep a schema is read.
const maxShape = 32

// shapeOfSchema reads a JSON Schema as far as it is simple: what leaves a choice, or refers to other schemas, is unknown.
func shapeOfSchema(raw json.RawMessage) *shape {
	doc, err := decodeValue(raw)
	if err != nil {
		return nil
	}
	return readShape(doc, 0)
}

func readShape(doc any, depth int) *shape {
	rules, ok := doc.(map[string]any)
	if !ok || depth > maxShape || leavesChoice(rules) {
		return nil
	}
	s := &shape{kinds: texts(rules["type"]), words: wordsOf(rules)}
	if properties, ok := rules["properties"].(map[string]any); ok {
		s.fields = make(map[string]*shape, len(properties))
		for name, property := range properties {
			s.fields[name] = readShape(property, depth+1)
		}
	}
	s.closed = rules["additionalProperties"] == false && rules["patternProperties"] == nil
	s.items = readShape(rules["items"], depth+1)
	return s
}

// leavesChoice reports whether other schemas have a say in what the value is.
func leavesChoice(rules map[string]any) bool {
	return slices.ContainsFunc([]string{"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not", "prefixItems"}, func(key string) bool {
		return rules[key] != nil
	})
}

// wordsOf returns the texts of an enumeration; nil when it has other values too.
func wordsOf(rules map[string]any) []string {
	if word, ok := rules["const"].(string); ok {
		return []string{word}
	}
	values, ok := rules["enum"].([]any)
	if !ok {
		return nil
	}
	words := make([]string, 0, len(values))
	for _, v := range values {
		switch word, ok := v.(string); {
		case ok:
			words = append(words, word)
		case v != nil:
			return nil
		}
	}
	return words
}

// texts returns a text, or a list of texts.
func texts(v any) []string {
	if one, ok := v.(string); ok {
		return []string{one}
	}
	list, _ := v.([]any)
	var all []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// shapeOfTemplate is what is known of a template before it is evaluated.
func shapeOfTemplate(v any) *shape {
	switch v := v.(type) {
	case map[string]any:
		fields := make(map[string]*shape, len(v))
		for name, value := range v {
			fields[name] = shapeOfTemplate(value)
		}
		return object(fields)
	case []any:
		return arrayOf(nil)
	case string:
		if isExpression(v) {
			return nil
		}
		return &shape{kinds: []string{"string"}}
	case bool:
		return &shape{kinds: []string{"boolean"}}
	case json.Number:
		return &shape{kinds: []string{"number"}}
	default:
		return nil
	}
}

// can reports whether the value may be of a JSON type.
func (s *shape) can(kind string) bool {
	if s = s.read(); s == nil || s.kinds == nil || slices.Contains(s.kinds, kind) {
		return true
	}
	return kind == "number" && slices.Contains(s.kinds, "integer")
}

// field returns the shape of a field; known is false when there is none of the name.
func (s *shape) field(name string) (field *shape, known bool) {
	if s = s.read(); s == nil {
		return nil, true
	}
	field, known = s.fields[name]
	return field, known || !s.closed
}

// item returns the shape of an item.
func (s *shape) item() *shape {
	if s = s.read(); s == nil {
		return nil
	}
	return s.items
}
