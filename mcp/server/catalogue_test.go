package server

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
)

// countedSchema counts how often it is encoded.
type countedSchema struct{ encoded int }

func (c *countedSchema) MarshalJSON() ([]byte, error) {
	c.encoded++
	return []byte(`{"type":"object"}`), nil
}

// Tools are encoded once for each form of their description, not for each client that lists them.
func TestToolsAreDescribedOnce(t *testing.T) {
	t.Parallel()
	none, err := tools.New()
	require.NoError(t, err)
	schema, s := &countedSchema{}, wire(newCore(Config{Catalogue: none}.withDefaults()))
	tool := &mcp.Tool{Name: toolList, InputSchema: schema}
	list := func(modern bool) string {
		found := &mcp.ListToolsResult{Tools: []*mcp.Tool{tool}, NextCursor: "next"}
		return string(mustJSON(s.tools.listTools(client{modern: modern}, found)))
	}
	for range 3 {
		assert.JSONEq(t, `{"tools":[{"name":"orch_list","inputSchema":{"type":"object"},"execution":{"taskSupport":"forbidden"}}],"nextCursor":"next","ttlMs":0,"cacheScope":""}`, list(false))
		assert.JSONEq(t, `{"tools":[{"name":"orch_list","inputSchema":{"type":"object"}}],"nextCursor":"next","ttlMs":0,"cacheScope":"","resultType":"complete"}`, list(true))
	}
	assert.Equal(t, 2, schema.encoded)
	s.tools.forget()
	list(true)
	assert.Equal(t, 3, schema.encoded, "tools may be others")
}

// Profiles describe their tools once as well, whichever of them a client sees.
func TestProfilesAreDescribedOnce(t *testing.T) {
	t.Parallel()
	none, err := tools.New()
	require.NoError(t, err)
	schema, s := &countedSchema{}, wire(newCore(Config{Catalogue: none, Offer: Offer{Profile: ProfileOperations}}.withDefaults()))
	found := &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: toolList, InputSchema: schema, Annotations: &mcp.ToolAnnotations{}}}}
	for range 3 {
		assert.Contains(t, string(mustJSON(s.tools.listTools(client{}, found))), toolList)
	}
	assert.Equal(t, 1, schema.encoded)
	few := client{who: Identity{Show: Selection{Tools: []string{toolStatus}}}}
	whole, part := s.tools.listNarrowed(client{}, ProfileCoding), s.tools.listNarrowed(few, ProfileCoding)
	require.Len(t, whole, 4, "the tools of the face")
	require.Len(t, part, 1)
	assert.Same(t, &whole[1][0], &part[0][0])
	s.tools.forget()
	assert.NotSame(t, &part[0][0], &s.tools.listNarrowed(few, ProfileCoding)[0][0], "tools may be others")
}
