package forge_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"
)

// object is a JSON object.
type object = map[string]any

// description is the OpenAPI description of GitHub.
type description struct{ doc *openapi3.T }

func describe(t *testing.T) description {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/openapi.json")
	require.NoError(t, err)
	return description{doc}
}

// route finds the operation of a request and the parameters in its path.
func (d description) route(r *http.Request, path string) (*routers.Route, map[string]string) {
	for template, item := range d.doc.Paths.Map() {
		params, ok := match(template, path)
		if op := item.GetOperation(r.Method); ok && op != nil {
			return &routers.Route{Spec: d.doc, Path: template, PathItem: item, Method: r.Method, Operation: op}, params
		}
	}
	return nil, nil
}

// match parses the parameters of a path; the last one may contain slashes if it is a path or a branch.
func match(template, path string) (map[string]string, bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if last := want[len(want)-1]; (last == "{path}" || last == "{ref}") && len(got) > len(want) {
		got = append(got[:len(want)-1:len(want)-1], strings.Join(got[len(want)-1:], "/"))
	}
	if len(want) != len(got) {
		return nil, false
	}
	params := map[string]string{}
	for i, part := range want {
		name, isParam := strings.CutPrefix(part, "{")
		if isParam {
			params[strings.TrimSuffix(name, "}")] = got[i]
		} else if part != got[i] {
			return nil, false
		}
	}
	return params, true
}

func options() *openapi3filter.Options {
	return &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}
}

// object returns the smallest object of a schema, with additional fields.
func (d description) object(t *testing.T, schema string, own object) object {
	t.Helper()
	ref := d.doc.Components.Schemas[schema]
	require.NotNil(t, ref, schema)
	o, ok := smallest(ref.Value).(object)
	require.True(t, ok, schema)
	maps.Copy(o, own)
	return o
}

// smallest returns a value that matches a schema.
func smallest(s *openapi3.Schema) any {
	switch {
	case s.Nullable:
		return nil
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		all := object{}
		for _, part := range s.AllOf {
			if o, ok := smallest(part.Value).(object); ok {
				maps.Copy(all, o)
			}
		}
		return all
	case len(s.OneOf) > 0:
		return smallest(s.OneOf[0].Value)
	case len(s.AnyOf) > 0:
		return smallest(s.AnyOf[0].Value)
	case s.Type.Is("object"), s.Type == nil:
		o := object{}
		for _, name := range s.Required {
			o[name] = smallest(s.Properties[name].Value)
		}
		return o
	default:
		return plain(s)
	}
}

func plain(s *openapi3.Schema) any {
	switch {
	case s.Type.Is("array"):
		return []any{}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1
	case s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case s.Format == "uri":
		return "https://example.com/x"
	default:
		return "text"
	}
}
