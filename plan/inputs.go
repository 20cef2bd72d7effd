package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/orch-dev/orch/fault"
)

// inputs describes the inputs of a plan.
type inputs struct {
	schema         *jsonschema.Schema // nil = no inputs
	properties     []string
	required       []string
	acceptsUnknown bool // the schema accepts names that are not in properties
}

func (in *inputs) names() []string { return in.properties }

// knows reports whether an expression may refer to the input name.
func (in *inputs) knows(name string) bool {
	return in.acceptsUnknown || slices.Contains(in.properties, name)
}

// noFiles rejects external references of a schema, so that a plan cannot read files or the network.
type noFiles struct{}

// Load implements jsonschema.URLLoader.
func (noFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema cannot refer to %s", url)
}

const schemaURL = "orch:///inputs"

func compileSchema(doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noFiles{})
	c.AssertFormat()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// linkInputs compiles the schema of the inputs.
func (l *linker) linkInputs() *inputs {
	in := &inputs{}
	if l.plan.Inputs == nil {
		return in
	}
	at := l.at.field("inputs")
	doc, err := decodeValue(l.plan.Inputs)
	object, ok := doc.(map[string]any)
	if err != nil || !ok {
		return in
	}
	if _, given := object["properties"]; !given && looksLikeProperties(object) {
		at.report("inputs is a JSON Schema", "put the fields below `properties`")
	}
	if t, given := object["type"]; given && t != "object" {
		at.field("type").report("the inputs of a plan are an object", "")
	}
	in.schema, err = compileSchema(doc)
	if err != nil {
		at.report("this is not a valid JSON Schema: "+schemaMessage(err), "")
		in.acceptsUnknown = true
		return in
	}
	in.properties, in.required = sortedKeys(in.schema.Properties), in.schema.Required
	more := in.schema.AdditionalProperties
	in.acceptsUnknown = more != nil && more != false || len(in.schema.PatternProperties) > 0 || in.schema.UnevaluatedProperties != nil
	return in
}

// looksLikeProperties reports whether the author seems to have written the properties themselves instead of a schema
// with `properties`.
func looksLikeProperties(object map[string]any) bool {
	keywords := []string{
		"additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties", "dependentSchemas",
		"not", "if", "then", "else", "$defs", "definitions",
	}
	for key, v := range object {
		field, ok := v.(map[string]any)
		if _, typed := field["type"]; ok && typed && !slices.Contains(keywords, key) {
			return true
		}
	}
	return false
}

// schemaMessage returns the innermost reason for an invalid schema.
func schemaMessage(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var reason *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &reason) {
		leaf := innermost(reason)
		return "/" + strings.Join(leaf.InstanceLocation, "/") + ": " + english(leaf)
	}
	return strings.ReplaceAll(err.Error(), schemaURL, "")
}

// english returns the message of a schema error in English.
func english(e *jsonschema.ValidationError) string {
	if allowed := allowedValues(e); allowed != nil {
		return "value must be one of " + strings.Join(allowed, ", ")
	}
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// innermost follows the first cause, by location, of each level and returns the last one. It does not enter the causes
// of an enum.
func innermost(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	for len(e.Causes) > 0 && allowedValues(e) == nil {
		e = slices.MinFunc(e.Causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(strings.Join(a.InstanceLocation, "/"), strings.Join(b.InstanceLocation, "/"))
		})
	}
	return e
}

// allowedValues returns the constants that are allowed at the location of e, if all causes of e are constants there and
// there are at least two. It returns nil for any other error.
func allowedValues(e *jsonschema.ValidationError) []string {
	var allowed []string
	for _, cause := range e.Causes {
		constant, ok := cause.ErrorKind.(*kind.Const)
		if !ok || len(cause.InstanceLocation) != len(e.InstanceLocation) {
			return nil
		}
		allowed = append(allowed, fmt.Sprintf("'%v'", constant.Want))
	}
	if len(allowed) < 2 {
		return nil
	}
	return allowed
}

// CheckInputs validates the inputs of a run and returns them with the defaults of the schema filled in. given may be
// empty for no inputs. The errors are REQUIRED_FIELD and VALIDATION_ERROR with the field inputs.x.
func (pr *Program) CheckInputs(given json.RawMessage) (json.RawMessage, error) {
	if len(given) == 0 {
		given = json.RawMessage("{}")
		if pr.inputs.schema == nil {
			return given, nil
		}
	}
	v, err := decodeValue(given)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "is not valid JSON: %v", err).WithField(rootInputs)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.ValidationError, "must be an object").WithField(rootInputs)
	}
	if err := pr.inputs.check(object); err != nil {
		return nil, err
	}
	return encode(object)
}

func (in *inputs) check(object map[string]any) error {
	for _, name := range sortedKeys(object) {
		if !in.knows(name) {
			return fault.New(fault.ValidationError, "the plan has no such input").WithField(rootInputs+"."+name).
				WithHint("%s", suggestOr(name, in.properties, in.inputsHint()))
		}
	}
	if in.schema == nil {
		return nil
	}
	(&filler{}).fill(in.schema, object)
	err := in.schema.Validate(object)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return inputFault(innermost(invalid))
	}
	return err
}

// inputsHint returns a hint that lists the inputs.
func (in *inputs) inputsHint() string {
	if len(in.properties) == 0 {
		return "it takes none"
	}
	return "its inputs are " + strings.Join(in.properties, ", ")
}

// inputFault returns REQUIRED_FIELD for a missing input and VALIDATION_ERROR for an invalid one.
func inputFault(e *jsonschema.ValidationError) error {
	field := strings.Join(append([]string{rootInputs}, e.InstanceLocation...), ".")
	if missing, ok := e.ErrorKind.(*kind.Required); ok {
		e := fault.New(fault.RequiredField, "is missing").WithField(field + "." + missing.Missing[0])
		if more := missing.Missing[1:]; len(more) > 0 {
			return e.WithHint("so is %s", strings.Join(more, ", "))
		}
		return e
	}
	return fault.New(fault.ValidationError, "%s", english(e)).WithField(field)
}

// filler sets absent properties to the defaults of their schemas, also in nested objects and in list items. It visits a
// bounded number of schemas, because schemas may refer to themselves.
type filler struct{ visits int }

const maxVisits = 10_000

func (f *filler) fill(s *jsonschema.Schema, v any) {
	if f.visits++; s == nil || f.visits > maxVisits {
		return
	}
	f.fill(s.Ref, v)
	for _, part := range s.AllOf {
		f.fill(part, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(s.Properties) {
			f.property(s.Properties[name], v, name)
		}
	case []any:
		for _, item := range v {
			f.fill(s.Items2020, item)
		}
	}
}

func (f *filler) property(s *jsonschema.Schema, object map[string]any, name string) {
	if _, given := object[name]; !given && s.Default != nil {
		object[name] = clone(*s.Default)
	}
	if value, present := object[name]; present {
		f.fill(s, value)
	}
}

// clone copies a decoded JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = clone(v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			object[key] = clone(v[key])
		}
		return object
	default:
		return v
	}
}
