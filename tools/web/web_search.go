package web

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

type webSearchIn struct {
	Query          string   `json:"query" jsonschema:"Search query" minLength:"1" maxLength:"1000"`
	AllowedDomains []string `json:"allowed_domains,omitempty" jsonschema:"Keep only results of these domains and their subdomains" maxItems:"50"`
	BlockedDomains []string `json:"blocked_domains,omitempty" jsonschema:"Drop results of these domains and their subdomains; takes precedence over allowed_domains" maxItems:"50"`
}

type webSearchOut struct {
	Results []searchResult `json:"results" jsonschema:"At most 20 results, best first"`
}

type searchResult struct {
	Title   string `json:"title" jsonschema:"Title of the page"`
	URL     string `json:"url" jsonschema:"Address of the page"`
	Snippet string `json:"snippet" jsonschema:"Excerpt of the page, at most 1000 bytes"`
}

// webSearch is WEB_SEARCH (S0-146, S0-147, A-47).
func webSearch(cfg Config) tools.Tool {
	s := newSearcher(cfg)
	return tools.Define(tools.Spec{
		Name:        "WEB_SEARCH",
		Title:       "Search the web",
		Purpose:     "Search web for information",
		Conditions:  []string{"Any task state", "Query is valid", "The operator has configured a provider"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors:      []string{"TOOL_UNAVAILABLE", "VALIDATION_ERROR", "NETWORK_ERROR", "CONNECTION_ERROR", "TIMEOUT", "RATE_LIMITED"},
	}, func(ctx context.Context, _ *tools.Env, in webSearchIn) (webSearchOut, error) {
		if strings.TrimSpace(in.Query) == "" {
			return webSearchOut{}, fault.New(fault.ValidationError, "must not be empty").WithField("query")
		}
		allowed, err := domains("allowed_domains", in.AllowedDomains)
		if err != nil {
			return webSearchOut{}, err
		}
		blocked, err := domains("blocked_domains", in.BlockedDomains)
		if err != nil {
			return webSearchOut{}, err
		}
		all, err := s.search(ctx, in.Query, allowed)
		if err != nil {
			return webSearchOut{}, err
		}
		return webSearchOut{Results: filter(all, allowed, blocked)}, nil
	})
}

// domains normalizes the domains of a filter to host names. It returns VALIDATION_ERROR, naming the entry, for an
// invalid domain.
func domains(field string, list []string) ([]string, error) {
	out := make([]string, len(list))
	for i, d := range list {
		d = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(d), "*."), ".")
		name, err := netguard.Host(d)
		if err != nil {
			return nil, fault.New(fault.ValidationError, "is not a valid domain").WithField(element(field, i)).
				WithHint("write it as example.com, without scheme, port and path")
		}
		out[i] = name
	}
	return out, nil
}
