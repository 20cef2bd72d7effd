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

// maxRules is the most rules of a schema with all its references expanded. A check against a larger schema could take too long.
const maxRules = 20_000

// maxSteps is the most steps of a check of arguments against a recursive schema.
const maxSteps = 20_000_000

// compiledSchema validates values against the schema of a server.
type compiledSchema struct {
	schema *jsonschema.Schema
	// rules is the number of rules with all references expanded.
	rules int
	// branches is the maximum number of references of any definition back into itself; 0 if the schema is not recursive. With
	// each level of nesting of a value, the cost of its check may grow by this factor.
	branches int
}

// compile compiles a schema. It does not load other documents.
func compile(raw json.RawMessage) (*compiledSchema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	c := costCounter{root: doc, known: map[string]schemaCost{}}
	w := c.count(doc)
	switch {
	case c.unsupported:
		return nil, errors.New("it uses references that are not followed: only # and pointers into the schema are")
	case w.rules > maxRules:
		return nil, errors.New("with its references expanded it has more than 20000 rules")
	}
	const resource = "schema:tool"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(resource, doc); err != nil {
		return nil, errors.New("it is not a valid schema")
	}
	schema, err := compiler.Compile(resource)
	if err != nil {
		return nil, errors.New("it is not a valid schema: " + firstLine(err.Error()))
	}
	return &compiledSchema{schema, w.rules, c.branches}, nil
}

// noLoader refuses to load referenced schemas.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// schemaCost is the size of a part of a schema with every reference expanded, except those back into the part being expanded. rules
// counts the JSON values, back the references back.
type schemaCost struct{ rules, back int }

// plus returns the sum of two costs, each part at most maxRules plus one.
func (w schemaCost) plus(v schemaCost) schemaCost {
	return schemaCost{min(w.rules+v.rules, maxRules+1), min(w.back+v.back, maxRules+1)}
}

// costCounter computes the size of a schema.
type costCounter struct {
	root any
	// known caches the cost of each reference. While a reference is being expanded, its entry is {rules: 1, back: 1}, which ends
	// the recursion.
	known map[string]schemaCost
	// branches is the result compiledSchema.branches.
	branches int
	// unsupported is set if the schema has keywords or references that are not supported.
	unsupported bool
}

// count returns the cost of a part of a schema.
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

// property returns the cost of a property of a schema.
func (c *costCounter) property(key string, v any) schemaCost {
	text, ok := v.(string)
	switch {
	case !ok:
		return c.count(v)
	case key == "$ref":
		return c.reference(text)
	case slices.Contains([]string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id"}, key):
		c.unsupported = true
	}
	return schemaCost{rules: 1}
}

// reference returns the cost of a reference inside the document.
func (c *costCounter) reference(ref string) schemaCost {
	if w, counted := c.known[ref]; counted {
		return w
	}
	to, ok := target(c.root, ref)
	if !ok {
		c.unsupported = true
		return schemaCost{rules: 1}
	}
	c.known[ref] = schemaCost{rules: 1, back: 1}
	w := c.count(to).plus(schemaCost{rules: 1})
	c.known[ref], c.branches = w, max(c.branches, w.back)
	return w
}

// target resolves a reference: # or a pointer into the document.
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

// check returns VALIDATION_ERROR or REQUIRED_FIELD, with the field, for a value that does not match the schema.
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

// steps estimates the steps to check a value, up to maxSteps plus one. each is the estimate for the value without its parts.
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
