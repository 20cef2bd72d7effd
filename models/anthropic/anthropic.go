// Package anthropic speaks the protocol of Anthropic's messages.
//
// Blocks of reasoning are opaque parts and go back unchanged, as the protocol requires while tools are in use. A
// structured answer is asked for by the field output_config of the protocol; objects in its schema are closed, which the
// protocol requires and which allows no answer that the schema does not. The instructions, the tools and the last message
// are marked for the cache of prompts. The protocol has no temperature any more, and new models refuse one: it is left
// out, and can be one of the fields of the configuration for older models.
package anthropic

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Wire is the name of the protocol in opaque parts.
const Wire = "anthropic"

// BaseURL is the address of Anthropic.
const BaseURL = "https://api.anthropic.com/v1"

// version is the version of the protocol.
const version = "2023-06-01"

// DefaultMaxTokens is the limit of tokens of a request that has none. The protocol requires one.
const DefaultMaxTokens = 8192

// Provider is a provider behind the protocol.
type Provider struct{ client *wire.Client }

var _ models.Provider = (*Provider)(nil)

// New returns a provider.
func New(c wire.Config) *Provider {
	return &Provider{wire.NewClient(c, wire.Protocol{
		BaseURL: BaseURL,
		Sign:    func(h http.Header, key string) { h.Set("X-Api-Key", key) },
		Explain: explain,
	})}
}

// Stream implements models.Provider.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	call := wire.Call{Path: "/messages", Headers: map[string]string{"Anthropic-Version": version}, Body: encode(r)}
	f := newFold(hear)
	if err := p.client.Stream(ctx, call, f); err != nil {
		return models.Answer{}, err
	}
	return f.result(r)
}

// failure is the body of an error.
type failure struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// explain reads the body of an error, or the event of one.
func explain(body []byte) wire.Failure {
	var f failure
	if err := json.Unmarshal(body, &f); err != nil {
		return wire.Failure{}
	}
	return wire.Failure{Kind: f.kind(), Message: f.Error.Message}
}

// kind returns the kind of an error by its type. It returns "" for types that are not known.
func (f failure) kind() models.Kind {
	switch f.Error.Type {
	case "overloaded_error", "api_error", "timeout_error":
		return models.Overloaded
	case "rate_limit_error":
		return models.RateLimited
	case "authentication_error", "permission_error":
		return models.Unauthorized
	case "request_too_large":
		return models.TooLong
	case "invalid_request_error":
		if wire.TooLong(f.Error.Message) {
			return models.TooLong
		}
		return models.Invalid
	case "not_found_error", "billing_error":
		return models.Invalid
	default:
		return ""
	}
}
