package forge_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// hit is a result in the format of GitHub.
func (s *server) hit(path string, matches ...object) object {
	repo := s.object(s.t, "minimal-repository", object{
		"name": "r", "description": "A thing", "owner": s.object(s.t, "simple-user", object{"login": "o"}),
	})
	return s.object(s.t, "code-search-result-item", object{"path": path, "repository": repo, "text_matches": append([]object{}, matches...)})
}

func (s *server) hits(total int, incomplete bool, items ...object) answer {
	return answer{status: http.StatusOK, body: object{
		"total_count": total, "incomplete_results": incomplete, "items": append([]object{}, items...),
	}}
}

// S3-056.
func TestSearchCode(t *testing.T) {
	t.Parallel()
	s := serve(t)
	search := tool(t, s.config(), "github.searchCode")
	fragment := "package a\n\nfunc Find() { find() }\n"
	match := func(property, text string, parts ...string) object {
		found := []object{}
		for _, part := range parts {
			found = append(found, object{"text": part, "indices": []int{0, 0}})
		}
		return object{"object_url": "https://example.com/x", "object_type": "FileContent", "property": property, "fragment": text, "matches": found}
	}
	first := s.hit("a.go", match("content", fragment, "Find", "find", "absent"), match("path", "a.go", "a"))
	starred, ok := first["repository"].(object)
	require.True(t, ok)
	starred["stargazers_count"] = 0
	s.on("GET /search/code", s.hits(2000, true, first, s.hit("b.go")))
	out, err := call(t, search, object{"query": "find"})
	require.NoError(t, err)
	repo := object{"owner": "o", "name": "r", "description": "A thing"}
	assert.Equal(t, object{
		"total": 2000.0, "page": 1.0, "perPage": 30.0,
		"results": []any{
			object{"path": "a.go", "repository": object{"owner": "o", "name": "r", "description": "A thing", "stars": 0.0}, "matches": []any{
				object{"text": "func Find() { find() }", "highlight": "Find"}, object{"text": "func Find() { find() }", "highlight": "find"},
			}},
			object{"path": "b.go", "repository": repo},
		},
	}, out)
	assert.Contains(t, s.header.Get("Accept"), "text-match")

	s.on("GET /search/code", s.hits(0, false))
	out, err = call(t, search, object{"query": strings.Repeat("ü", 256), "page": 1000, "perPage": 1})
	require.NoError(t, err)
	assert.Equal(t, object{"results": []any{}, "total": 0.0, "page": 1000.0, "perPage": 1.0}, out)
}

// S3-055: filters become qualifiers, and none can be injected into another.
func TestSearchQueries(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.on("GET /search/code", s.hits(0, false))
	search := tool(t, s.config(), "github.searchCode")
	for want, args := range map[string]object{
		"q=x&page=1&per_page=30":                                   {"query": "x"},
		"q=x&page=10&per_page=100":                                 {"query": "x", "page": 10, "perPage": 100},
		"q=x&page=1&per_page=30&sort=indexed":                      {"query": "x", "sort": "indexed"},
		"q=x user:o&page=1&per_page=30":                            {"query": "x", "filters": object{"owner": "o"}},
		"q=x repo:o/r&page=1&per_page=30":                          {"query": "x", "filters": object{"owner": "o", "repo": "r"}},
		"q=x repo:O/r&page=1&per_page=30":                          {"query": "x", "filters": object{"owner": "o", "repo": "O/r"}},
		"q=x repo:o/r.s&page=1&per_page=30":                        {"query": "x", "filters": object{"repo": "o/r.s"}},
		`q=x language:"jupyter notebook"&page=1&per_page=30`:       {"query": "x", "filters": object{"language": "jupyter notebook"}},
		`q=x language:"go repo:x/y"&page=1&per_page=30`:            {"query": "x", "filters": object{"language": "go repo:x/y"}},
		"q=x path:a/b filename:c.d extension:d&page=1&per_page=30": {"query": "x", "filters": object{"path": "a/b", "filename": "c.d", "extension": "d"}},
	} {
		_, err := call(t, search, args)
		require.NoError(t, err, want)
		seen := s.seen()
		require.Len(t, seen, 1)
		_, query, _ := strings.Cut(seen[0], "?")
		got, err := url.ParseQuery(query)
		require.NoError(t, err)
		expected, err := url.ParseQuery(strings.ReplaceAll(want, " ", "+"))
		require.NoError(t, err)
		assert.Equal(t, expected, got)
	}
}

func TestSearchErrors(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cfg := s.config()
	s.on("GET /search/code", s.problem(http.StatusUnprocessableEntity, object{"message": "verbatim", "resource": "Search", "field": "q", "code": "invalid"}))
	_, err := call(t, tool(t, cfg, "github.searchCode"), object{"query": "x"})
	failed(t, err, fault.ValidationError, "", "query")
	s.on("GET /search/code", s.problem(http.StatusServiceUnavailable))
	_, err = call(t, tool(t, cfg, "github.searchCode"), object{"query": "x"})
	failed(t, err, fault.GithubError, "", "")
	s.seen()
	cfg.Token = ""
	_, err = call(t, tool(t, cfg, "github.searchCode"), object{"query": "x"})
	assert.Equal(t, "the operator sets github_token", failed(t, err, fault.Forbidden, "ACCESS_DENIED", "").Hint)
	assert.Empty(t, s.seen(), "GitHub lets nobody search code without a token")
}
