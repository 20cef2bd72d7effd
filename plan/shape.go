package plan

import (
	"encoding/json"
	"slices"
)

// shape is the statically known type of a value; nil means that nothing is known. Every shape includes null, because
// the output of a skipped step is null.
type shape struct {
	// kinds are the possible JSON types; nil means any.
	kinds []string
	// fields are the fields of an object; closed is true if it has no other fields.
	fields map[string]*shape
	closed bool
	// items is the shape of the items of a list.
	items *shape
	// words are the possible strings; nil means any.
	words []string
	// later computes the shape on first use, because that is slow. The other fields are empty until then.
	later func() *shape
}

// resolve returns the shape. It computes the shape if later is set.
func (s *shape) resolve() *shape {
	if s != nil && s.later != nil {
		return s.later()
	}
	return s
}

// object returns the shape of an object with exactly these fields.
func object(fields map[string]*shape) *shape {
	return &shape{kinds: []string{"object"}, fields: fields, closed: true}
}

// arrayOf returns the shape of a list.
func arrayOf(items *shape) *shape { return &shape{kinds: []string{"array"}, items: items} }

// oneOfWords returns the shape of a string that is one of words.
func oneOfWords(words ...string) *shape { return &shape{kinds: []string{"string"}, words: words} }

// maxShape bounds the depth to which a schema is read.
const maxShape = 32

// shapeOfSchema returns the shape of a JSON Schema. Parts with alternatives or references are unknown.
func shapeOfSchema(raw json.RawMessage) *shape {
	doc, err := decodeValue(raw)
	if err != nil {
		return nil
	}
	return readShape(doc, 0)
}

func readShape(doc any, depth int) *shape {
	rules, ok := doc.(map[string]any)
	if !ok || depth > maxShape || isComposite(rules) {
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

// isComposite reports whether the schema combines or references other schemas.
func isComposite(rules map[string]any) bool {
	return slices.ContainsFunc([]string{"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not", "prefixItems"}, func(key string) bool {
		return rules[key] != nil
	})
}

// wordsOf returns the strings of an enum; nil when the enum also has values of a different type.
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

// texts returns v as a list of strings; a single string is a list of one.
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

// shapeOfTemplate returns the shape of a template's value.
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

// allows reports whether the value may have a JSON type.
func (s *shape) allows(kind string) bool {
	if s = s.resolve(); s == nil || s.kinds == nil || slices.Contains(s.kinds, kind) {
		return true
	}
	return kind == "number" && slices.Contains(s.kinds, "integer")
}

// field returns the shape of a field; known is false if the object cannot have it.
func (s *shape) field(name string) (field *shape, known bool) {
	if s = s.resolve(); s == nil {
		return nil, true
	}
	field, known = s.fields[name]
	return field, known || !s.closed
}

// item returns the shape of the items of a list.
func (s *shape) item() *shape {
	if s = s.resolve(); s == nil {
		return nil
	}
	return s.items
}
