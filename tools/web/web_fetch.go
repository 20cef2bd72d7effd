package web

import (
	"context"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

const (
	// fetchTime is the time limit for loading a page.
	fetchTime = 30 * time.Second
	// maxPage is the maximum number of bytes of a page that are read, after decompression.
	maxPage = 2 << 20
)

type webFetchIn struct {
	URL    string `json:"url" jsonschema:"URL to fetch, http or https" minLength:"1" maxLength:"8192"`
	Prompt string `json:"prompt" jsonschema:"What information to extract" minLength:"1" maxLength:"4096"`
}

type webFetchOut struct {
	URL         string `json:"url" jsonschema:"URL of the page, after redirects"`
	Content     string `json:"content" jsonschema:"The answer to the prompt, or the best matching passages of the page in Markdown, at most 16 KiB"`
	ProcessedBy string `json:"processed_by" jsonschema:"model: the client's language model answered; passages: passages were chosen by the words of the prompt; whole: the page is short and complete" enum:"model,passages,whole"`
	Truncated   bool   `json:"truncated" jsonschema:"The page is longer than 2 MiB and its rest was not read"`
}

// webFetch is WEB_FETCH (S0-145, A-46).
func webFetch(client *netguard.Client) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "WEB_FETCH",
		Title:       "Fetch a web page",
		Purpose:     "Fetch and process web content",
		Conditions:  []string{"Any task state", "URL is valid and accessible", "Public addresses, and those that the operator lists"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors:      []string{"INVALID_FORMAT", "FORBIDDEN", "NOT_FOUND", "NETWORK_ERROR", "CONNECTION_ERROR", "TIMEOUT", "RATE_LIMITED"},
	}, func(ctx context.Context, env *tools.Env, in webFetchIn) (webFetchOut, error) {
		res, err := load(ctx, client, in.URL)
		if err != nil {
			return webFetchOut{}, withURLField(err)
		}
		text, err := pageText(res)
		if err != nil {
			return webFetchOut{}, withURLField(err)
		}
		out := webFetchOut{URL: res.URL.String(), Truncated: res.Truncated}
		out.Content, out.ProcessedBy, err = process(env, in.Prompt, text)
		return out, err
	})
}

// load loads a page. It follows redirects to every public endpoint, because the caller could have requested each
// endpoint directly. A status other than 2xx is an error.
func load(ctx context.Context, client *netguard.Client, raw string) (*netguard.Response, error) {
	u, err := client.Parse(raw)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	res, err := client.Do(ctx, netguard.Request{
		Method: http.MethodGet, URL: u, Limit: maxPage, Follow: func(string) bool { return true },
		Header: http.Header{"Accept": {"text/html, text/markdown, text/plain;q=0.9, application/json;q=0.8, */*;q=0.5"}},
	})
	switch {
	case err != nil:
		return nil, err
	case res.Refused != "":
		return nil, fault.New(fault.Forbidden, "the redirect of %s is not followed: %s", netguard.Endpoint(res.URL), res.Refused)
	case res.Status/100 != 2:
		return nil, pageStatusError(res)
	}
	return res, nil
}

func pageStatusError(res *netguard.Response) *fault.Error {
	code := fault.NetworkError
	switch res.Status {
	case http.StatusNotFound, http.StatusGone:
		code = fault.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		code = fault.Forbidden
	case http.StatusTooManyRequests:
		code = fault.RateLimited
	}
	return fault.New(code, "%s answered with status %d %s", netguard.Endpoint(res.URL), res.Status, http.StatusText(res.Status)).
		WithReason("HTTP_STATUS")
}
