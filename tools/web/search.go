package web

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

// Provider is a kind of search service.
type Provider string

// The providers.
const (
	// SearXNG is an instance of SearXNG that offers the format json; it needs a URL.
	SearXNG Provider = "searxng"
	// Brave and Tavily are services that need an API key.
	Brave  Provider = "brave"
	Tavily Provider = "tavily"
)

// Search is the configuration of WEB_SEARCH.
type Search struct {
	// Provider selects the service; empty disables the tool.
	Provider Provider
	// URL is the base URL of the service, such as http://localhost:8888; it may be private. Default: the public URL
	// of Brave or Tavily.
	URL string
	// Key is the credential of the service. It is sent only to the service and never shown.
	Key string
}

const (
	maxResults = 20
	maxSnippet = 1000
	searchTime = 30 * time.Second
)

// searcher queries the configured provider.
type searcher struct {
	cfg    Search
	client *netguard.Client
	base   *url.URL
}

// newSearcher creates a client that may access the provider even at a private address.
func newSearcher(cfg Config) *searcher {
	s := &searcher{cfg: cfg.Search}
	raw := s.cfg.URL
	if raw == "" {
		raw = map[Provider]string{Brave: "https://api.search.brave.com", Tavily: "https://api.tavily.com"}[s.cfg.Provider]
	}
	s.client = netguard.New(cfg.Net.Reaching(raw))
	if u, err := s.client.Parse(raw); err == nil {
		s.base = u
	}
	return s
}

// search returns the results of the provider. It fails with TOOL_UNAVAILABLE without a usable configuration.
func (s *searcher) search(ctx context.Context, query string, allowed []string) ([]searchResult, error) {
	if err := s.checkConfig(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	res, err := s.client.Do(ctx, s.request(query, allowed))
	if err != nil {
		return nil, err
	}
	if res.Status != http.StatusOK {
		return nil, s.statusError(res)
	}
	all, err := s.cfg.Provider.results(res.Body)
	if err != nil || res.Truncated {
		return nil, fault.Wrap(fault.NetworkError, err, "the search service did not return a list of results").
			WithReason("SEARCH_FAILED").WithHint("check that search_url is the base of a %s service that answers in JSON", s.cfg.Provider)
	}
	return all, nil
}

// checkConfig returns TOOL_UNAVAILABLE without a usable configuration.
func (s *searcher) checkConfig() error {
	unavailable := func(message, hint string) error {
		return fault.New(fault.ToolUnavailable, "%s", message).WithHint("%s", hint)
	}
	switch s.cfg.Provider {
	case "":
		return unavailable("no search provider is configured", "the operator sets search_provider to searxng, brave or tavily")
	case SearXNG, Brave, Tavily:
	default:
		return unavailable("the configured search provider is unknown", "search_provider is one of searxng, brave, tavily")
	}
	switch {
	case s.base == nil:
		return unavailable("search_url is missing or not an http or https URL", "set it to the base of the service, such as http://localhost:8888")
	case s.cfg.Key == "" && s.cfg.Provider != SearXNG:
		return unavailable("search_key is missing", "set it to the key of the service")
	}
	return nil
}

// request encodes a query for the provider. A single allowed domain is added as a site: operator, which every engine
// supports; the results are filtered locally in any case.
func (s *searcher) request(query string, allowed []string) netguard.Request {
	if len(allowed) == 1 && s.cfg.Provider != Tavily {
		query += " site:" + allowed[0]
	}
	r := netguard.Request{Method: http.MethodGet, Limit: maxPage, Header: http.Header{"Accept": {"application/json"}}}
	switch s.cfg.Provider {
	case Brave:
		r.URL = s.base.JoinPath("res/v1/web/search")
		r.URL.RawQuery = url.Values{"q": {query}, "count": {strconv.Itoa(maxResults)}}.Encode()
		r.Header.Set("X-Subscription-Token", s.cfg.Key)
	case Tavily:
		body, _ := json.Marshal(map[string]any{"query": query, "max_results": maxResults, "include_domains": allowed}) // strings can always be encoded
		r.Method, r.URL, r.Body = http.MethodPost, s.base.JoinPath("search"), string(body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.cfg.Key)
	default:
		r.URL = s.base.JoinPath("search")
		r.URL.RawQuery = url.Values{"q": {query}, "format": {"json"}}.Encode()
		if s.cfg.Key != "" {
			r.Header.Set("Authorization", "Bearer "+s.cfg.Key)
		}
	}
	return r
}

func (s *searcher) statusError(res *netguard.Response) error {
	e := fault.New(fault.NetworkError, "the search service answered with status %d %s", res.Status, http.StatusText(res.Status)).
		WithReason("SEARCH_FAILED")
	switch res.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Code = fault.ToolUnavailable
		return e.WithHint("check search_key; a SearXNG instance must offer the format json")
	case http.StatusTooManyRequests:
		e.Code = fault.RateLimited
	}
	return e
}

// results parses the response of a provider.
func (p Provider) results(body []byte) ([]searchResult, error) {
	type item struct{ Title, URL, Content, Description string }
	var reply struct {
		Results *[]item
		Web     *struct{ Results []item }
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fault.Wrap(fault.NetworkError, err, "no JSON")
	}
	var items []item
	switch {
	case p == Brave && reply.Web != nil:
		items = reply.Web.Results
	case p == Brave: // Brave omits the field when there are no results
	case reply.Results == nil:
		return nil, fault.New(fault.NetworkError, "no results")
	default:
		items = *reply.Results
	}
	tags := regexp.MustCompile(`</?[a-zA-Z][^<>]*>`)
	all := make([]searchResult, len(items))
	for i, it := range items {
		all[i] = searchResult{Title: stripMarkup(tags, it.Title), URL: it.URL, Snippet: stripMarkup(tags, it.Content+it.Description)}
	}
	return all, nil
}

// stripMarkup removes the markup from a text in a result.
func stripMarkup(tags *regexp.Regexp, text string) string {
	text = tags.ReplaceAllString(text, "")
	return shorten(strings.Join(strings.Fields(html.UnescapeString(text)), " "), maxSnippet)
}

// filter returns the results that match the domain filters (S0-147). Blocked domains take precedence over allowed
// domains, and a domain includes its subdomains. Results without a host are dropped.
func filter(all []searchResult, allowed, blocked []string) []searchResult {
	results := make([]searchResult, 0, maxResults)
	for _, f := range all {
		u, err := url.Parse(f.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
			continue
		}
		host, err := netguard.Host(u.Hostname())
		if err != nil || matchesDomain(host, blocked) || (len(allowed) > 0 && !matchesDomain(host, allowed)) || len(results) == maxResults {
			continue
		}
		results = append(results, f)
	}
	return results
}

func matchesDomain(host string, list []string) bool {
	return slices.ContainsFunc(list, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

func element(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }
