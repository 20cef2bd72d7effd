package registry

import (
	"bytes"
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/orch-dev/orch/fault"
)

//go:embed mcp-server.schema.json
var schemaSource string

// Schema returns the JSON Schema (2020-12) of definitions, for editors.
func Schema() []byte { return []byte(schemaSource) }

// checker validates documents against the schema.
type checker struct {
	schema  *jsonschema.Schema
	printer *message.Printer
}

// newChecker compiles a schema. It returns ErrSchemaLoadFailed for an invalid schema.
func newChecker(source []byte) (*checker, error) {
	const name = "mcp-server.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, ErrSchemaLoadFailed, err.Error())
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		return nil, fault.Wrap(fault.Internal, ErrSchemaLoadFailed, err.Error())
	}
	schema, err := c.Compile(name)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, ErrSchemaLoadFailed, err.Error())
	}
	return &checker{schema, message.NewPrinter(language.English)}, nil
}

// check returns all problems of a document, in document order.
func (c *checker) check(d document) []SchemaError {
	found := d.duplicateNames(d.tree, nil)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.plain))
	if err != nil {
		return append(found, d.problem(nil, nil, "it does not contain a single value"))
	}
	if err := c.schema.Validate(value); err != nil {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			found = append(found, c.flatten(d, invalid)...)
		}
	}
	slices.SortStableFunc(found, func(a, b SchemaError) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		if a.Column != b.Column {
			return a.Column - b.Column
		}
		return strings.Compare(a.Path, b.Path)
	})
	return slices.Compact(found)
}

// flatten returns a schema error for each leaf of a tree of validation errors.
func (c *checker) flatten(d document, e *jsonschema.ValidationError) []SchemaError {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		var found []SchemaError
		for _, name := range k.Missing {
			found = append(found, d.problem(at, append(slices.Clone(at), name), "is missing"))
		}
		return found
	case *kind.AdditionalProperties:
		var found []SchemaError
		for _, name := range k.Properties {
			path := append(slices.Clone(at), name)
			found = append(found, d.problem(path, path, "is not a property of a server"))
		}
		return found
	case *kind.Enum:
		if k.Got == "sse" {
			return []SchemaError{d.problem(at, at, "the old transport sse is not supported; many such servers have a URL for http, too")}
		}
	case *kind.AnyOf: // an entry needs a command or a url: report one error, not one for each alternative
		return []SchemaError{d.problem(at, at, "has neither a command nor a url")}
	}
	if len(e.Causes) == 0 {
		return []SchemaError{d.problem(at, at, e.ErrorKind.LocalizedString(c.printer))}
	}
	var found []SchemaError
	for _, cause := range e.Causes {
		found = append(found, c.flatten(d, cause)...)
	}
	return found
}
