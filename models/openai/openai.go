// Package openai speaks the protocol of OpenAI's chat completions, which llama.cpp, vLLM, Ollama, OpenRouter and others
// speak too.
//
// A structured answer is asked for by response_format, strictly if the schema has the form that OpenAI requires for it:
// each object closed, and each of its properties required. Reasoning that a server sends as reasoning_content is kept as
// an opaque part of answers with calls, for servers that want it back with the results.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Wire is the name of the protocol in opaque parts.
const Wire = "openai"

// BaseURL is the address of OpenAI.
const BaseURL = "https://api.openai.com/v1"

// Provider is a provider behind the protocol.
type Provider struct{ client *wire.Client }

var _ models.Provider = (*Provider)(nil)

// New returns a provider.
func New(c wire.Config) *Provider {
	return &Provider{wire.NewClient(c, wire.Protocol{
		BaseURL: BaseURL,
		Sign:    func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) },
		Explain: explain,
	})}
}

// Stream implements models.Provider. The limit of tokens is called max_completion_tokens at OpenAI and Azure, and
// max_tokens elsewhere, because not all servers know the newer name.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	call := wire.Call{Path: "/chat/completions", Body: encode(r, newNames(p.client.Host()))}
	if r.Key != "" {
		call.Headers = map[string]string{"Idempotency-Key": r.Key}
	}
	f := newFold(hear)
	if err := p.client.Stream(ctx, call, f); err != nil {
		return models.Answer{}, err
	}
	return f.result(r)
}

// newNames reports whether a host knows the newer names of fields only.
func newNames(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com")
}

// failure is the body of an error: that of OpenAI, with a code that other servers write as a number, or that of vLLM and
// of frameworks for Python, without the inner object.
type failure struct {
	Error   json.RawMessage `json:"error"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
}

// explain reads the body of an error.
func explain(body []byte) wire.Failure {
	var outer failure
	if err := json.Unmarshal(body, &outer); err != nil {
		return wire.Failure{}
	}
	inner := outer
	var text string
	switch {
	case json.Unmarshal(outer.Error, &text) == nil:
		inner.Message = text
	case bytes.HasPrefix(outer.Error, []byte("{")):
		inner = failure{}
		_ = json.Unmarshal(outer.Error, &inner) // as far as it is understood
	case outer.Message == "" && json.Unmarshal(outer.Detail, &text) == nil:
		inner.Message = text
	}
	return wire.Failure{Kind: inner.kind(), Message: inner.Message}
}

// kind returns the kind of an error if it does not follow from the HTTP status.
func (f failure) kind() models.Kind {
	code := strings.Trim(string(f.Code), `"`)
	switch {
	case code == "context_length_exceeded", f.Type == "exceed_context_size_error", wire.TooLong(f.Message):
		return models.TooLong
	case code == "insufficient_quota", f.Type == "insufficient_quota": // has the status of a rate limit, but does not pass
		return models.Invalid
	default:
		return ""
	}
}

// inStream returns the error that a server sends as an event, after the status of success.
func inStream(body []byte) *models.Error {
	var e struct {
		Error struct {
			Code json.RawMessage `json:"code"`
			Type string          `json:"type"`
		} `json:"error"`
		Code json.RawMessage `json:"code"`
	}
	_ = json.Unmarshal(body, &e) // as far as it is understood
	f := explain(body)
	if f.Kind == "" {
		f.Kind = kindInStream(e.Error.Type, string(e.Error.Code), string(e.Code))
	}
	return &models.Error{Kind: f.Kind, Message: f.Message}
}

// kindInStream returns the kind of an error by its type and by its codes, which some servers write as an HTTP status.
func kindInStream(kind string, codes ...string) models.Kind {
	for _, code := range append(codes, kind) {
		switch strings.Trim(code, `"`) {
		case "429", "rate_limit_exceeded", "rate_limit_error":
			return models.RateLimited
		case "500", "502", "503", "504", "529", "server_error", "overloaded_error", "InternalServerError":
			return models.Overloaded
		case "401", "403", "invalid_api_key":
			return models.Unauthorized
		case "400", "404", "422", "invalid_request_error", "BadRequestError":
			return models.Invalid
		}
	}
	return models.Transport
}
