package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// The rule tags of a struct field, beside json (name, omitempty) and jsonschema (description):
//
//	default:"2000"             used when the field is absent
//	enum:"content,count"       the permitted strings; of the items when the field is a list
//	minimum, maximum           bounds of a number
//	minLength, maxLength       bounds of a string, in characters; of the items when the field is a list
//	minItems, maxItems         bounds of a list
//	pattern                    RE2 expression that a string must match
//	types:"string,integer"     the permitted types of a json.RawMessage
//	format                     name of a format, for the reader of the schema; it is not checked
//
// They become the JSON Schema keywords of the same name.

// shape is a schema with its JSON text and its compiled patterns.
type shape struct {
	schema   *jsonschema.Schema
	text     json.RawMessage
	patterns map[string]*regexp.Regexp
}

// knownTypes returns the schemas of types that cannot be inferred by reflection. A schema that permits every value has
// a description: without any keyword it would be encoded as the bare value true, which some MCP hosts reject.
func knownTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Object]():          {Type: "object"},
		reflect.TypeFor[any]():             {Description: "Any JSON value"},
		reflect.TypeFor[json.RawMessage](): {Description: "Any JSON value"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	}
}

// shapeOf infers the shape of the struct T.
func shapeOf[T any]() *shape {
	typeSchemas, t := knownTypes(), reflect.TypeFor[T]()
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: typeSchemas})
	if err != nil {
		panic(fmt.Sprintf("tools: no schema for %s: %v", t, err))
	}
	b := builder{typeSchemas: typeSchemas, patterns: map[string]*regexp.Regexp{}}
	b.refine(t, schema)
	text, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("tools: the schema of %s: %v", t, err))
	}
	return &shape{schema: schema, text: text, patterns: b.patterns}
}

// builder adds the rule tags to an inferred schema.
type builder struct {
	typeSchemas map[reflect.Type]*jsonschema.Schema
	patterns    map[string]*regexp.Regexp
}

// refine adds the rule tags of the type t to its schema s, recursively.
func (b *builder) refine(t reflect.Type, s *jsonschema.Schema) {
	if b.typeSchemas[t] != nil {
		return
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds contain no further types
	case reflect.Pointer:
		b.refine(t.Elem(), s)
	case reflect.Map:
		b.refine(t.Elem(), s.AdditionalProperties)
	case reflect.Slice, reflect.Array:
		// A nil slice does not permit null: lists are always lists.
		dropNull(s)
		b.refine(t.Elem(), s.Items)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if p := s.Properties[name]; p != nil {
				b.refine(f.Type, p)
				b.applyTags(f, p, slices.Contains(s.Required, name))
			}
		}
	}
}

// applyTags adds the rule tags of a struct field to its schema.
func (b *builder) applyTags(f reflect.StructField, s *jsonschema.Schema, required bool) {
	if !required { // null only marks a pointer field, in which nil means absent
		dropNull(s)
	}
	s.Minimum, s.Maximum = numberTag(f, "minimum", s.Minimum), numberTag(f, "maximum", s.Maximum)
	s.MinItems, s.MaxItems = countTag(f, "minItems"), countTag(f, "maxItems")
	elem := s // the bounds and words of a list apply to its items
	if s.Items != nil {
		elem = s.Items
	}
	elem.MinLength, elem.MaxLength = countTag(f, "minLength"), countTag(f, "maxLength")
	if v, ok := f.Tag.Lookup("types"); ok {
		s.Types = strings.Split(v, ",")
	}
	if v, ok := f.Tag.Lookup("default"); ok {
		s.Default = literal(s, v)
	}
	if v, ok := f.Tag.Lookup("format"); ok {
		s.Format = v
	}
	if v, ok := f.Tag.Lookup("pattern"); ok {
		s.Pattern, b.patterns[v] = v, regexp.MustCompile(v)
	}
	if v, ok := f.Tag.Lookup("enum"); ok {
		for word := range strings.SplitSeq(v, ",") {
			elem.Enum = append(elem.Enum, word)
		}
	}
}

// dropNull removes null from a schema that permits null and one other type.
func dropNull(s *jsonschema.Schema) {
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
}

// literal returns the value of a tag as JSON, for a field with the schema s.
func literal(s *jsonschema.Schema, v string) json.RawMessage {
	if s.Type == "string" {
		return json.RawMessage(strconv.Quote(v))
	}
	return json.RawMessage(v)
}

// numberTag returns the value of a tag, or fallback if the field has none.
func numberTag(f reflect.StructField, key string, fallback *float64) *float64 {
	v, ok := f.Tag.Lookup(key)
	if !ok {
		return fallback
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil {
		panic(fmt.Sprintf("tools: field %s: %s: %v", f.Name, key, err))
	}
	return &n
}

// countTag returns the value of a tag, or nil if the field has none.
func countTag(f reflect.StructField, key string) *int {
	v, ok := f.Tag.Lookup(key)
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(fmt.Sprintf("tools: field %s: %s: %v", f.Name, key, err))
	}
	return &n
}
