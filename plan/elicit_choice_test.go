package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// A choice that does not exist is answered with all those that do.
func TestCheckContentNamesTheChoices(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type": "object", "properties": {
		"one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
		"some": {"type": "array", "items": {"anyOf": [{"const": "c", "title": "C"}, {"const": "d", "title": "D"}]}}}}`)
	require.EqualError(t, plan.CheckContent(schema, json.RawMessage(`{"one": "x"}`)), "VALIDATION_ERROR: content.one: value must be one of 'a', 'b'")
	require.EqualError(t, plan.CheckContent(schema, json.RawMessage(`{"some": ["c", "x"]}`)), "VALIDATION_ERROR: content.some.1: value must be one of 'c', 'd'")
	require.NoError(t, plan.CheckContent(schema, json.RawMessage(`{"one": "a", "some": ["d"]}`)))
}
