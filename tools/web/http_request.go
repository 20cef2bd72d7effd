package web

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

const (
	// maxRequestTime is the longest timeout that a caller may request.
	maxRequestTime = 10 * time.Minute
	// maxAnswer is how many bytes of a response body are returned. Even if JSON needs six bytes for each, it fits
	// into the output of a call.
	maxAnswer = 512 << 10
	// keyHeader contains the idempotency key, which is the same for every attempt of a call.
	keyHeader = "Idempotency-Key"
	// traceHeader contains the position of the call in the trace of its task (W3C Trace Context).
	traceHeader = "Traceparent"
	// stateHeader contains the tracestate beside it.
	stateHeader = "Tracestate"
)

type httpRequestIn struct {
	URL     string            `json:"url" jsonschema:"Target URL, http or https, without user name and password" minLength:"1" maxLength:"8192"`
	Method  string            `json:"method" jsonschema:"HTTP method" enum:"GET,POST,PUT,DELETE"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"Request headers; not those of the connection, such as Host and Content-Length"`
	Body    string            `json:"body,omitempty" jsonschema:"Request body" maxLength:"1048576"`
	Timeout int64             `json:"timeout,omitempty" jsonschema:"Timeout in milliseconds" default:"30000" minimum:"1" maximum:"600000"`
}

type httpRequestOut struct {
	StatusCode      int               `json:"status_code" jsonschema:"Status of the response; 4xx and 5xx are results too"`
	Headers         map[string]string `json:"headers" jsonschema:"Response headers; several of one name are joined by a comma, cookies and credentials are omitted"`
	Body            string            `json:"body" jsonschema:"Response body, at most the first 512 KiB after decompression; credentials of the request are redacted"`
	BodyEncoding    string            `json:"body_encoding" jsonschema:"base64 for a body that is not UTF-8" enum:"utf-8,base64"`
	Truncated       bool              `json:"truncated" jsonschema:"The body beyond 512 KiB was dropped"`
	RedirectRefused string            `json:"redirect_refused,omitempty" jsonschema:"Why the redirect in this response was not followed"`
}

// httpRequest is HTTP_REQUEST (S0-110 to S0-114, A-36).
func httpRequest(client *netguard.Client) tools.Tool {
	return tools.WithEffect[httpRequestIn, httpRequestOut](tools.DefineIntent(tools.Spec{
		Name:    "HTTP_REQUEST",
		Title:   "Make an HTTP request",
		Purpose: "Make HTTP request to external API",
		Conditions: []string{
			"Task state: IN_PROGRESS",
			"Endpoint approved in task plan, or at its first use",
			"Rate limits respected",
			"Public addresses, and those that the operator lists",
		},
		Secrets:     map[string]bool{"headers": true},
		Effect:      tools.Write,
		Gate:        tools.InProgress,
		Approval:    tools.ByIntent,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Timeout:     maxRequestTime + time.Minute,
		Errors: []string{
			"TIMEOUT", "CONNECTION_ERROR", "NETWORK_ERROR", "FORBIDDEN", "INVALID_FORMAT", "VALIDATION_ERROR",
			"APPROVAL_REQUIRED", "RATE_LIMITED",
		},
	}, func(_ context.Context, _ *tools.Env, in httpRequestIn) (tools.Intent, error) {
		u, _, err := in.check(client)
		if err != nil {
			return tools.Intent{}, err
		}
		return tools.Intent{Effect: in.effect(), Reason: in.Method, Targets: []tools.Target{endpoint(netguard.Endpoint(u))}}, nil
	}, func(ctx context.Context, env *tools.Env, in httpRequestIn) (httpRequestOut, error) {
		u, header, err := in.check(client)
		if err != nil {
			return httpRequestOut{}, err
		}
		if in.Method != http.MethodGet && header.Get(keyHeader) == "" && env.Key != "" {
			header.Set(keyHeader, env.Key)
		}
		if at := env.TraceParent(); at != "" && header.Get(traceHeader) == "" {
			header.Set(traceHeader, at)
			if env.TraceState != "" && header.Get(stateHeader) == "" {
				header.Set(stateHeader, env.TraceState)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, time.Duration(in.Timeout)*time.Millisecond)
		defer cancel()
		res, err := client.Do(ctx, netguard.Request{
			Method: in.Method, URL: u, Header: header, Body: in.Body, Limit: maxAnswer,
			Follow: func(name string) bool { return env.Allows != nil && env.Allows(endpoint(name)) },
		})
		if err != nil {
			return httpRequestOut{}, withURLField(err)
		}
		return httpResult(res, newScrubber(header, env.Secrets)), nil
	}), httpRequestIn.effect)
}

func endpoint(name string) tools.Target { return tools.Target{Kind: tools.Endpoint, Name: name} }

// effect returns the effect of the method according to RFC 9110; "" without a method.
func (in httpRequestIn) effect() tools.Effect {
	switch in.Method {
	case "":
		return ""
	case http.MethodGet:
		return tools.Read
	case http.MethodPut, http.MethodDelete:
		return tools.Idempotent
	default:
		return tools.Write
	}
}

func (in httpRequestIn) check(client *netguard.Client) (*url.URL, http.Header, error) {
	u, err := client.Parse(in.URL)
	if err != nil {
		return nil, nil, withURLField(err)
	}
	header, err := netguard.Headers(in.Headers)
	return u, header, err
}

// httpResult converts a response to the output, without credentials.
func httpResult(res *netguard.Response, s scrubber) httpRequestOut {
	out := httpRequestOut{
		StatusCode: res.Status, Headers: s.redactHeaders(res.Header), Truncated: res.Truncated,
		RedirectRefused: res.Refused, BodyEncoding: "utf-8",
	}
	body := res.Body
	body = s.redact(body)
	if res.Truncated {
		body = wholeRunes(s.planSecrets.Trim(body))
	}
	if !utf8.Valid(body) {
		out.BodyEncoding, out.Body = "base64", base64.StdEncoding.EncodeToString(body)
		return out
	}
	out.Body = string(body)
	return out
}

// wholeRunes drops an incomplete character at the end.
func wholeRunes(b []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(b); cut++ {
		if at := len(b) - cut; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			return b
		}
	}
	return b
}
