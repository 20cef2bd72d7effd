package rest_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/httpapi/rest"
)

// Types of different packages with one name have schemas of their own.
func TestSchemasOfOneName(t *testing.T) {
	t.Parallel()
	text, err := rest.OpenAPI()
	require.NoError(t, err)
	type schema struct {
		Ref        string `json:"$ref"`
		Properties map[string]json.RawMessage
	}
	var document struct {
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(text, &document))
	for view, field := range map[string]string{"DestinationView": "url", "HookView": "provider"} {
		var definition schema
		require.NoError(t, json.Unmarshal(document.Components.Schemas[view].Properties["definition"], &definition))
		name := definition.Ref[len("#/components/schemas/"):]
		assert.Contains(t, document.Components.Schemas[name].Properties, field, view)
	}
	assert.Contains(t, document.Components.Schemas["Definition"].Properties, "cron", "that of schedules")
}

// All references in the document resolve, and each operation has a name of its own.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	data, err := rest.OpenAPI()
	require.NoError(t, err)
	var document struct {
		Paths      map[string]map[string]struct{ OperationID string } `json:"paths"`
		Components map[string]map[string]any                          `json:"components"`
	}
	require.NoError(t, json.Unmarshal(data, &document))
	for _, ref := range regexp.MustCompile(`"\$ref": "#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(string(data), -1) {
		assert.Contains(t, document.Components[ref[1]], ref[2])
	}
	known := map[string]bool{}
	for _, path := range document.Paths {
		for _, o := range path {
			assert.False(t, known[o.OperationID], o.OperationID)
			known[o.OperationID] = true
		}
	}
}
