package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/web"
)

type results struct {
	Results []struct{ Title, URL, Snippet string } `json:"results"`
}

// provider starts a private search service, which the configuration permits.
func provider(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func search(t *testing.T, cfg web.Search, args map[string]any) (results, error) {
	t.Helper()
	return call[results](t, tool(t, web.Config{Search: cfg}, "WEB_SEARCH"), newEnv(), args)
}

// Each provider is queried in its own format, with its key in a header (S0-146).
func TestSearchProviders(t *testing.T) {
	t.Parallel()
	var seen *http.Request
	var body []byte
	url := provider(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r
		var err error
		body, err = io.ReadAll(r.Body)
		assert.NoError(t, err)
		const item = `{"title": "A &amp; <strong>b</strong>", "url": "https://a.example/x", "%s": "one\n <em>two</em> 1 < 2"}`
		if strings.HasPrefix(r.URL.Path, "/base/res/") {
			reply(t, w, `{"web": {"results": [`+item+`]}}`, "description")
			return
		}
		reply(t, w, `{"results": [`+item+`, {"title": "no URL"}, {"url": "javascript:alert(1)"}]}`, "content")
	})
	for p, want := range map[web.Provider]struct{ path, header, value string }{
		web.SearXNG: {"/base/search?format=json&q=go+maps", "Authorization", "Bearer hunter2"},
		web.Brave:   {"/base/res/v1/web/search?count=20&q=go+maps", "X-Subscription-Token", "hunter2"},
		web.Tavily:  {"/base/search", "Authorization", "Bearer hunter2"},
	} {
		out, err := search(t, web.Search{Provider: p, URL: url + "/base", Key: "hunter2"}, map[string]any{"query": "go maps"})
		require.NoError(t, err, p)
		require.Len(t, out.Results, 1, p)
		assert.Equal(t, "A & b", out.Results[0].Title)
		assert.Equal(t, "https://a.example/x", out.Results[0].URL)
		assert.Equal(t, "one two 1 < 2", out.Results[0].Snippet)
		assert.Equal(t, want.path, seen.URL.String())
		assert.Equal(t, want.value, seen.Header.Get(want.header))
		if p == web.Tavily {
			assert.JSONEq(t, `{"query": "go maps", "max_results": 20, "include_domains": []}`, string(body))
		}
	}
}

// S0-147: a domain includes its subdomains, blocked domains take precedence, and similar names do not match.
func TestSearchDomains(t *testing.T) {
	t.Parallel()
	hosts := []string{
		"example.com", "www.example.com", "a.b.example.com", "EXAMPLE.com.", "evil-example.com", "example.com.evil.test", "example.org",
		"notexample.org", "bad.example.com", "xn--bcher-kva.example", "bücher.example", "example.com:8443", "user@example.net",
	}
	var query string
	url := provider(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Get("q")
		list := make([]map[string]string, len(hosts))
		for i, host := range hosts {
			list[i] = map[string]string{"title": host, "url": "https://" + host + "/p"}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"results": list}))
	})
	for name, tc := range map[string]struct {
		allowed, blocked, want []string
		query                  string
	}{
		"none":     {nil, nil, hosts, "q"},
		"allowed":  {[]string{"example.com"}, nil, []string{"example.com", "www.example.com", "a.b.example.com", "EXAMPLE.com.", "bad.example.com", "example.com:8443"}, "q site:example.com"},
		"wildcard": {[]string{"*.Example.ORG", ".example.net"}, nil, []string{"example.org", "user@example.net"}, "q"},
		"blocked":  {nil, []string{"example.com", "example"}, []string{"evil-example.com", "example.com.evil.test", "example.org", "notexample.org", "user@example.net"}, "q"},
		"both":     {[]string{"example.com"}, []string{"bad.example.com", "www.example.com"}, []string{"example.com", "a.b.example.com", "EXAMPLE.com.", "example.com:8443"}, "q site:example.com"},
		"same":     {[]string{"example.com"}, []string{"example.com"}, nil, "q site:example.com"},
		"IDNA":     {[]string{"BÜCHER.example"}, nil, []string{"xn--bcher-kva.example", "bücher.example"}, "q site:xn--bcher-kva.example"},
	} {
		args := map[string]any{"query": "q"}
		if tc.allowed != nil {
			args["allowed_domains"] = tc.allowed
		}
		if tc.blocked != nil {
			args["blocked_domains"] = tc.blocked
		}
		out, err := search(t, web.Search{Provider: web.SearXNG, URL: url}, args)
		require.NoError(t, err, name)
		var got []string
		for _, r := range out.Results {
			got = append(got, r.Title)
		}
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.query, query, name)
	}
	for _, bad := range []string{"", "https://example.com", "example.com/path", "a b", "example.com:80", "..", "*"} {
		for _, field := range []string{"allowed_domains", "blocked_domains"} {
			_, err := search(t, web.Search{Provider: web.SearXNG, URL: url}, map[string]any{"query": "q", field: []string{"ok.example", bad}})
			assert.Equal(t, fault.ValidationError, fault.CodeOf(err), "%q", bad)
			assert.Equal(t, field+"[1]", fault.From(err).Field)
		}
	}
}

// A-47, and errors of a service. No error shows the key.
func TestSearchErrors(t *testing.T) {
	t.Parallel()
	status, text := http.StatusOK, ""
	url := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if status == http.StatusFound {
			w.Header().Set("Location", "http://169.254.169.254/?"+r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		reply(t, w, "%s", text)
	})
	for name, tc := range map[string]struct {
		cfg  web.Search
		code fault.Code
	}{
		"nothing":  {web.Search{}, fault.ToolUnavailable},
		"unknown":  {web.Search{Provider: "altavista", Key: "hunter2"}, fault.ToolUnavailable},
		"no URL":   {web.Search{Provider: web.SearXNG}, fault.ToolUnavailable},
		"bad URL":  {web.Search{Provider: web.SearXNG, URL: "http://a:hunter2@h"}, fault.ToolUnavailable},
		"no key":   {web.Search{Provider: web.Brave}, fault.ToolUnavailable},
		"no key 2": {web.Search{Provider: web.Tavily}, fault.ToolUnavailable},
		"nobody":   {web.Search{Provider: web.SearXNG, URL: "http://127.0.0.1:2", Key: "hunter2"}, fault.NetworkError},
	} {
		_, err := search(t, tc.cfg, map[string]any{"query": "q"})
		e := fault.From(err)
		require.NotNil(t, e, name)
		assert.Equal(t, tc.code, e.Code, "%s: %v", name, err)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2", name)
		if tc.code == fault.ToolUnavailable {
			assert.NotEmpty(t, e.Hint, name)
		}
	}
	for _, tc := range []struct {
		status int
		text   string
		code   fault.Code
	}{
		{401, "hunter2", fault.ToolUnavailable},
		{403, "", fault.ToolUnavailable},
		{429, "", fault.RateLimited},
		{500, "", fault.NetworkError},
		{302, "", fault.NetworkError},
		{200, "<html>hunter2", fault.NetworkError},
		{200, `{"results": {}}`, fault.NetworkError},
		{200, `{}`, fault.NetworkError},
		{200, `{"results": [` + strings.Repeat(" ", 3<<20), fault.NetworkError},
	} {
		status, text = tc.status, tc.text
		_, err := search(t, web.Search{Provider: web.SearXNG, URL: url, Key: "hunter2"}, map[string]any{"query": "q"})
		e := fault.From(err)
		require.NotNil(t, e, "%d %.20s", tc.status, tc.text)
		assert.Equal(t, tc.code, e.Code, "%d %.20s: %v", tc.status, tc.text, err)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2")
	}
	status, text = 200, `{"results": []}`
	out, err := search(t, web.Search{Provider: web.SearXNG, URL: url}, map[string]any{"query": "q"})
	require.NoError(t, err)
	assert.Empty(t, out.Results)
	for _, query := range []string{"", "  ", strings.Repeat("x", 1001)} {
		_, err = search(t, web.Search{Provider: web.SearXNG, URL: url}, map[string]any{"query": query})
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		assert.Equal(t, "query", fault.From(err).Field)
	}
}

// The address of the provider is permitted only for searches.
func TestSearchOpensNothingElse(t *testing.T) {
	t.Parallel()
	hits := 0
	url := provider(t, func(w http.ResponseWriter, _ *http.Request) { hits++; reply(t, w, `{"results": []}`) })
	cfg := web.Config{Search: web.Search{Provider: web.SearXNG, URL: url}}
	_, err := call[results](t, tool(t, cfg, "WEB_SEARCH"), newEnv(), map[string]any{"query": "q"})
	require.NoError(t, err)
	_, err = call[fetched](t, tool(t, cfg, "WEB_FETCH"), newEnv(), map[string]any{"url": url, "prompt": "x"})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = call[answer](t, tool(t, cfg, "HTTP_REQUEST"), newEnv(), map[string]any{"url": url, "method": "GET"})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	assert.Equal(t, 1, hits)
}
