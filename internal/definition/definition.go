// Package definition reads files that define one thing, such as a schedule: one document of YAML or JSON with known fields. Its errors
// name the field.
package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
)

// Kind is what a file defines.
type Kind struct {
	// Name is its name in messages, such as "schedule". Example is a definition in a few words.
	Name, Example string
	// Most is the largest size of a file, in bytes.
	Most int
}

// Read returns the only document of a file, which is an object, as JSON. Errors: VALIDATION_ERROR for a file that is too large,
// PARSE_ERROR.
func (k Kind) Read(data []byte) (json.RawMessage, error) {
	if len(data) > k.Most {
		return nil, fault.New(fault.ValidationError, "the definition has %d bytes; the limit is %d", len(data), k.Most)
	}
	var tree, more any
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&tree); err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.ParseError, "the definition is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if documents.Decode(&more) == nil {
		return nil, fault.New(fault.ParseError, "the file has several documents").WithHint("a file defines one %s", k.Name)
	}
	normal, err := json.Marshal(tree)
	if err != nil {
		return nil, fault.Wrap(fault.ParseError, err, "the definition has keys that are not texts")
	}
	if normal[0] != '{' {
		return nil, fault.New(fault.ParseError, "the definition is not an object").WithHint("such as %s", k.Example)
	}
	return normal, nil
}

// Decode decodes the value of a field, whose path is given for errors.
type Decode func(data json.RawMessage, field string) error

// Object decodes the members of an object, each with the function of its field. Errors: INVALID_FORMAT, INVALID_PARAMS for an unknown
// field, and those of the functions. The same input has the same error.
func Object(data json.RawMessage, path string, fields map[string]Decode) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return fault.New(fault.InvalidFormat, "is not an object").WithField(path)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field := strings.TrimPrefix(path+"."+name, ".")
		decode := fields[name]
		if decode == nil {
			return fault.New(fault.InvalidParams, "is not known").WithField(fault.Clip(field, longestField)).
				WithHint("known are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := decode(members[name], field); err != nil {
			return err
		}
	}
	return nil
}

// longestField bounds the name of an unknown field in an error, in bytes.
const longestField = 60

// Into decodes into a variable.
func Into[T any](target *T) Decode {
	return func(data json.RawMessage, field string) error { return Value(data, field, target) }
}

// Value decodes a value into a variable. An error of a method of the variable is the message.
func Value[T any](data json.RawMessage, field string, target *T) error {
	err := json.Unmarshal(data, target)
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), "json: "):
		return fault.New(fault.InvalidFormat, "has the wrong type").WithField(field)
	default:
		return fault.New(fault.InvalidFormat, "%s", err.Error()).WithField(field)
	}
}

// nameForm is the form of the names of what files define: that of the values of labels that orch itself writes, and of file names.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ValidName reports whether something may have a name.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// CheckName returns an INVALID_FORMAT error unless a name is valid. kind is what has the name, for the message.
func CheckName(kind, name string) error {
	if ValidName(name) {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is not a valid name of a %s", fault.Clip(name, longestField), kind).WithField("name").
		WithHint("use 1 to 63 of a to z, 0 to 9, '.', '_' and '-'")
}
