// Package gemini speaks the protocol of Gemini's generateContent.
//
// Signatures of thoughts are opaque parts in front of the part that they belong to, and go back with it. Calls that another
// model wrote go to models since Gemini 3 with the signature that the documentation gives for them. A structured
// answer is asked for by responseJsonSchema. Not every model has both tools and structured answers: in a request with
// tools, the schema stands in the instructions instead. Arguments of calls are objects on this wire, so that malformed ones
// never arrive.
package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Wire is the name of the protocol in opaque parts.
const Wire = "gemini"

// BaseURL is the address of Google.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// Provider is a provider behind the protocol.
type Provider struct{ client *wire.Client }

var _ models.Provider = (*Provider)(nil)

// New returns a provider.
func New(c wire.Config) *Provider {
	return &Provider{wire.NewClient(c, wire.Protocol{
		BaseURL: BaseURL,
		Sign:    func(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) },
		Explain: explain,
	})}
}

// Stream implements models.Provider.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	f := newFold(hear)
	if err := p.client.Stream(ctx, wire.Call{Path: path(r.Model) + ":streamGenerateContent?alt=sse", Body: encode(r)}, f); err != nil {
		return models.Answer{}, err
	}
	return f.result(r)
}

// path returns the path of a model. A name without a collection, such as tunedModels, is one of models.
func path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	var out strings.Builder
	for segment := range strings.SplitSeq(model, "/") {
		out.WriteString("/" + url.PathEscape(segment))
	}
	return out.String()
}

// failure is the body of an error.
type failure struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Status  string   `json:"status"`
	Details []detail `json:"details"`
}

// detail says more about an error: RetryInfo has a delay, and ErrorInfo a reason.
type detail struct {
	RetryDelay string `json:"retryDelay"`
	Reason     string `json:"reason"`
}

// explain reads the body of an error, which is an object or a list with one object.
func explain(body []byte) wire.Failure {
	type outer struct {
		Error failure `json:"error"`
	}
	var one outer
	var list []outer
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		one = list[0]
	} else if json.Unmarshal(body, &one) != nil {
		return wire.Failure{}
	}
	return one.Error.explain()
}

// explain returns what an error means.
func (f failure) explain() wire.Failure {
	out := wire.Failure{Kind: f.kind(), Message: f.Message}
	for _, d := range f.Details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil {
			out.After = max(0, delay)
		}
		if d.Reason == "API_KEY_INVALID" { // has the status of an invalid argument
			out.Kind = models.Unauthorized
		}
	}
	return out
}

// kind returns the kind of an error by its status. It returns "" for a status that is not known.
func (f failure) kind() models.Kind {
	switch f.Status {
	case "RESOURCE_EXHAUSTED":
		return models.RateLimited
	case "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED":
		return models.Overloaded
	case "UNAUTHENTICATED", "PERMISSION_DENIED":
		return models.Unauthorized
	case "INVALID_ARGUMENT":
		if wire.TooLong(f.Message) {
			return models.TooLong
		}
		return models.Invalid
	case "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE":
		return models.Invalid
	default:
		return ""
	}
}

// inStream returns the error that the server sends as an event.
func (f failure) inStream() *models.Error {
	known := f.explain()
	return &models.Error{Kind: cmp.Or(known.Kind, models.Transport), Message: known.Message, After: known.After}
}
