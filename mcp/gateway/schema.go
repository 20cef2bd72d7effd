package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/orch-dev/orch/fault"
)

// maxRules bounds how many rules a schema may come to when each reference in it is followed: beyond that it would keep
// a processor busy for ever.
const maxRules = 20_000

// maxSteps bounds what the check of arguments may come to with a schema that refers to itself.
const maxSteps = 20_000_000

// compiledSchema checks values against the schema of a server.
type compiledSchema struct {
	schema *jsonschema.Schema
	// rules are what the schema comes to, each time that it is followed.
	rules int
	// branches is how often a schema that refers to itself does so: for each part of a value it may be followed that
	// many times as often as for the part around it. 0 for one that does not refer to itself.
	branches int
}

// compile reads a schema. It loads nothing from elsewhere.
func compile(raw json.RawMessage) (*compiledSchema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	c := costCounter{root: doc, known: map[string]schemaCost{}}
	w := c.count(doc)
	switch {
	case c.foreign:
		return nil, errors.New("it uses references that are not followed: only # and pointers into the schema are")
	case w.rules > maxRules:
		return nil, errors.New("its references come to more than 20000 rules")
	}
	const resource = "schema:tool"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(resource, doc); err != nil {
		return nil, errors.New("it is no schema")
	}
	schema, err := compiler.Compile(resource)
	if err != nil {
		return nil, errors.New("it is no schema: " + firstLine(err.Error()))
	}
	return &compiledSchema{schema, w.rules, c.branches}, nil
}

// noLoader loads no schema that another one refers to.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// schemaCost is what a part of a schema comes to when each reference in it is followed once: its values, and the references
// that lead back into what is being followed.
type schemaCost struct{ rules, back int }

func (w schemaCost) plus(v schemaCost) schemaCost {
	return schemaCost{min(w.rules+v.rules, maxRules+1), min(w.back+v.back, maxRules+1)}
}

// costCounter counts what a schema comes to.
type costCounter struct {
	root any
	// known keeps how much each reference comes to, and one way back for what is being counted.
	known map[string]schemaCost
	// branches is the most ways back that a reference has.
	branches int
	// foreign is set when the schema uses what is not understood here.
	foreign bool
}

// count counts the values in a schema as often as references lead there, up to maxRules and one.
func (c *costCounter) count(v any) schemaCost {
	w := schemaCost{rules: 1}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			w = w.plus(c.count(item))
		}
	case map[string]any:
		for key, item := range v {
			w = w.plus(c.property(key, item))
		}
	}
	return w
}

func (c *costCounter) property(key string, v any) schemaCost {
	text, ok := v.(string)
	switch {
	case !ok:
		return c.count(v)
	case key == "$ref":
		return c.reference(text)
	case slices.Contains([]string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id"}, key):
		c.foreign = true
	}
	return schemaCost{rules: 1}
}

// reference counts what a reference inside of the document leads to.
func (c *costCounter) reference(ref string) schemaCost {
	if w, counted := c.known[ref]; counted {
		return w
	}
	to, ok := target(c.root, ref)
	if !ok {
		c.foreign = true
		return schemaCost{rules: 1}
	}
	c.known[ref] = schemaCost{rules: 1, back: 1}
	w := c.count(to).plus(schemaCost{rules: 1})
	c.known[ref], c.branches = w, max(c.branches, w.back)
	return w
}

// target finds what a reference leads to: # or a pointer into the document.
func target(root any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if path == "" || !ok {
		return root, ok
	}
	if path[0] != '/' {
		return nil, false
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := root.(type) {
		case map[string]any:
			root, ok = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if ok = err == nil && i >= 0 && i < len(v); ok {
				root = v[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return root, true
}

// check returns why a value does not fit, naming the field: VALIDATION_ERROR or REQUIRED_FIELD.
func (s *compiledSchema) check(value any) error {
	if s.branches > 1 && s.steps(value, s.rules) > maxSteps {
		return fault.New(fault.ValidationError, "the arguments are nested too deep for a schema that refers to itself %d times", s.branches)
	}
	err := s.schema.Validate(value)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fault.New(fault.ValidationError, "the arguments do not fit the schema of the tool")
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	if missing, ok := invalid.ErrorKind.(*kind.Required); ok {
		return fault.New(fault.RequiredField, "is required").WithField(field(append(invalid.InstanceLocation, missing.Missing[0])))
	}
	text := escape(invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English)), maxTitle)
	return fault.New(fault.ValidationError, "%s", text).WithField(field(invalid.InstanceLocation))
}

// steps estimates what the check of a value comes to, up to maxSteps and one.
func (s *compiledSchema) steps(value any, each int) int {
	n, inside := each, min(each*s.branches, maxSteps+1)
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			n = min(n+s.steps(item, inside), maxSteps+1)
		}
	case map[string]any:
		for _, item := range v {
			n = min(n+s.steps(item, inside), maxSteps+1)
		}
	}
	return n
}

func field(path []string) string { return escape(strings.Join(path, "."), maxTitle) }
