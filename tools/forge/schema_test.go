package forge_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/toolstest"
)

// specified returns the schemas of a tool in the specification, by input and output.
func specified(t *testing.T, name string) map[string]object {
	t.Helper()
	text, err := os.ReadFile("testdata/seed003.json")
	require.NoError(t, err)
	var all map[string]map[string]object
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotNil(t, all[name]["input"], name)
	return all[name]
}

// S3-001 to S3-003: the schemas are those of the specification. They describe more fields, and they are closed: orch
// rejects unknown fields.
func TestSchemasAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range forge.Tools(forge.Config{}) {
		name := tool.Spec().Name
		names = append(names, name)
		toolstest.Specified(t, tool, "testdata/seed003.json")
	}
	assert.Equal(t, []string{"github.readFile", "github.searchCode", "github.createIssue", "github.createPR", "github.getWorkflowRuns"}, names)
}

// S3-002, S3-004: values on both sides of the bounds, and names that would lead elsewhere.
func TestInputs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	long := func(n int) string { return string(slices.Repeat([]byte("x"), n)) }
	for _, tc := range []struct {
		tool  string
		args  object
		field string
		code  fault.Code
	}{
		{"github.readFile", object{"owner": "o/..", "repo": "r", "path": "f"}, "owner", fault.InvalidFormat},
		{"github.readFile", object{"owner": "o", "repo": "r?x", "path": "f"}, "repo", fault.InvalidFormat},
		{"github.readFile", object{"owner": "o", "repo": "..", "path": "f"}, "repo", fault.InvalidFormat},
		{"github.readFile", object{"owner": long(101), "repo": "r", "path": "f"}, "owner", fault.ValidationError},
		{"github.readFile", in(nil), "path", fault.RequiredField},
		{"github.readFile", in(object{"path": "a/../../b"}), "path", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "/etc"}), "path", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "a/"}), "path", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "a//b"}), "path", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "a\x00"}), "path", fault.InvalidFormat},
		{"github.readFile", in(object{"path": long(4097)}), "path", fault.ValidationError},
		{"github.readFile", in(object{"path": "f", "ref": ""}), "ref", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "f", "ref": "a..b"}), "ref", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "f", "ref": "a b"}), "ref", fault.InvalidFormat},
		{"github.readFile", in(object{"path": "f", "ref": long(256)}), "ref", fault.ValidationError},
		{"github.readFile", in(object{"path": "f", "encoding": "latin1"}), "encoding", fault.ValidationError},
		{"github.searchCode", object{"query": ""}, "query", fault.ValidationError},
		{"github.searchCode", object{"query": " "}, "query", fault.ValidationError},
		{"github.searchCode", object{"query": long(257)}, "query", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "perPage": 0}, "perPage", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "perPage": 101}, "perPage", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "page": 0}, "page", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "page": 11, "perPage": 100}, "page", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "page": int64(1) << 62, "perPage": 100}, "page", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "sort": "stars"}, "sort", fault.ValidationError},
		{"github.searchCode", object{"query": "q", "filters": object{"repo": "r"}}, "filters.owner", fault.RequiredField},
		{"github.searchCode", object{"query": "q", "filters": object{"owner": "o repo:x/y"}}, "filters.owner", fault.InvalidFormat},
		{"github.searchCode", object{"query": "q", "filters": object{"owner": "o", "repo": "x/y"}}, "filters.repo", fault.InvalidFormat},
		{"github.searchCode", object{"query": "q", "filters": object{"language": `go" repo:x/y "`}}, "filters.language", fault.InvalidFormat},
		{"github.searchCode", object{"query": "q", "filters": object{"path": long(257)}}, "filters.path", fault.ValidationError},
		{"github.createIssue", in(nil), "title", fault.RequiredField},
		{"github.createIssue", in(object{"title": ""}), "title", fault.ValidationError},
		{"github.createIssue", in(object{"title": long(257)}), "title", fault.ValidationError},
		{"github.createIssue", in(object{"title": "t", "body": long(65537)}), "body", fault.ValidationError},
		{"github.createIssue", object{"owner": "o", "repo": "r/../x", "title": "t"}, "repo", fault.InvalidFormat},
		{"github.createPR", in(object{"title": "t", "base": "b"}), "head", fault.RequiredField},
		{"github.createPR", in(object{"title": "t", "base": "b", "head": "a:b:c"}), "head", fault.InvalidFormat},
		{"github.createPR", in(object{"title": "t", "base": "b", "head": "a b:c"}), "head", fault.InvalidFormat},
		{"github.createPR", in(object{"title": "t", "base": "", "head": "h"}), "base", fault.InvalidFormat},
		{"github.createPR", in(object{"title": long(257), "base": "b", "head": "h"}), "title", fault.ValidationError},
		{"github.createPR", object{"owner": "", "repo": "r", "title": "t", "base": "b", "head": "h"}, "owner", fault.InvalidFormat},
		{"github.createPR", in(object{"title": "t", "base": "b", "head": "h", "body": long(65537)}), "body", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"limit": 0}), "limit", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"limit": 101}), "limit", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"status": "done"}), "status", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"workflow_id": true}), "workflow_id", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"workflow_id": 1.5}), "workflow_id", fault.ValidationError},
		{"github.getWorkflowRuns", in(object{"workflow_id": ""}), "workflow_id", fault.InvalidFormat},
		{"github.getWorkflowRuns", in(object{"workflow_id": ".."}), "workflow_id", fault.InvalidFormat},
		{"github.getWorkflowRuns", in(object{"workflow_id": "../x"}), "workflow_id", fault.InvalidFormat},
		{"github.getWorkflowRuns", in(object{"branch": "a..b"}), "branch", fault.InvalidFormat},
		{"github.getWorkflowRuns", object{"owner": "..", "repo": "r"}, "owner", fault.InvalidFormat},
	} {
		_, err := call(t, tool(t, s.config(), tc.tool), tc.args)
		e := fault.From(err)
		require.NotNil(t, e, "%s %.200v", tc.tool, tc.args)
		assert.Equal(t, tc.code, e.Code, "%s %.200v: %v", tc.tool, tc.args, err)
		assert.Equal(t, tc.field, e.Field, "%s %.200v: %v", tc.tool, tc.args, err)
	}
	assert.Empty(t, s.seen(), "a wrong input makes no request")
}
