// Package models is the port to language models. A provider answers requests: it sends the conversation to a model and
// returns its answer, with what it used. The subpackages implement the port for the protocols of providers.
package models

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ProviderOf returns the provider in the name of a model, PROVIDER/NAME. It returns "" for models without one, such as scripts and records.
func ProviderOf(model string) string {
	provider, _, ok := strings.Cut(model, "/")
	if !ok || strings.Contains(provider, ":") {
		return ""
	}
	return provider
}

// Provider answers requests. It is safe for concurrent use.
type Provider interface {
	// Stream sends a request and returns the whole answer. It calls hear, which may be nil, with each piece of the answer
	// as it arrives, in order and from one goroutine. Errors are of type *Error; an answer that was cut off is an error.
	Stream(ctx context.Context, r Request, hear func(Delta)) (Answer, error)
}

// Request is a request to a model.
type Request struct {
	// Model is the provider's name of the model.
	Model string `json:"model"`
	// System are the instructions.
	System string `json:"system,omitempty"`
	// Messages is the conversation, which begins with a message of the role User. Messages of User and of Model alternate.
	Messages []Message `json:"messages"`
	// Tools are the tools that the model may call.
	Tools []Tool `json:"tools,omitempty"`
	// Result is the JSON Schema of the final answer; nil for text. A provider without structured answers ignores it.
	Result json.RawMessage `json:"result,omitempty"`
	// MaxTokens limits the tokens of the answer.
	MaxTokens int64 `json:"max_tokens,omitempty"`
	// Temperature is the sampling temperature; nil means the default of the provider. A provider without it ignores it.
	Temperature *float64 `json:"temperature,omitempty"`
	// NoCalls is set if the model may call none of the tools. The request has them all the same: a provider then finds the
	// conversation in its cache.
	NoCalls bool `json:"no_calls,omitempty"`
	// Number is the number of the answer among those of the agent, from 1. 0 means that it follows from the messages.
	Number int `json:"-"`
	// Key identifies the call. A repetition of a call has the same key, for providers that recognise it.
	Key string `json:"-"`
}

// Turn returns the number of the answer to a request, from 1.
func (r Request) Turn() int {
	if r.Number > 0 {
		return r.Number
	}
	turn := 1
	for _, m := range r.Messages {
		if m.Role == Model {
			turn++
		}
	}
	return turn
}

// CallID returns the id of a call that has none from its provider: the nth call, from 1, in the answer to r.
func CallID(r Request, n int) string { return fmt.Sprintf("call_%d_%d", r.Turn(), n) }

// Tool is a tool that a model may call.
type Tool struct {
	// Name matches [a-zA-Z0-9_-]{1,64}, which all providers accept.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments, of type object.
	Schema json.RawMessage `json:"schema"`
}

// Role is the author of a message.
type Role string

// The roles. The results of tools are parts of a message of User.
const (
	User  Role = "user"
	Model Role = "model"
)

// Message is a message of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Part is a part of a message. Exactly one field is set.
type Part struct {
	Text   string  `json:"text,omitempty"`
	Image  *Image  `json:"image,omitempty"`
	Call   *Call   `json:"call,omitempty"`   // only in messages of Model
	Result *Result `json:"result,omitempty"` // only in messages of User
	// Opaque is a part of an answer that only its provider understands, such as signed reasoning. It is sent back unchanged
	// to the provider whose name it has, and left out for others.
	Opaque *Opaque `json:"opaque,omitempty"`
}

// Image is an image in a message.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// Call is a call of a tool that the model requests.
type Call struct {
	// ID identifies the call within the conversation. Providers without ids get one from their position.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Args are the arguments as the model wrote them: they may be no valid JSON, and of any type. Empty means {}.
	Args string `json:"args"`
}

// Result is the result of a call.
type Result struct {
	// ID is the id of the call.
	ID      string `json:"id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	Failed  bool   `json:"failed,omitempty"`
}

// Opaque is a part of an answer for one kind of provider.
type Opaque struct {
	Wire string          `json:"wire"`
	Data json.RawMessage `json:"data"`
}

// Delta is a piece of an answer. Without a field it is a piece of the reasoning before it.
type Delta struct {
	// Text continues the text of the answer.
	Text string
	// Call is the name of a call that begins.
	Call string
}

// Stop is why an answer ended.
type Stop string

// The reasons. Other reasons of providers are StopOther.
const (
	StopEnd     Stop = "end"     // the answer is complete
	StopCalls   Stop = "calls"   // the model waits for the results of its calls
	StopLength  Stop = "length"  // the limit of tokens was reached
	StopRefused Stop = "refused" // the model or a filter refused
	StopOther   Stop = "other"
)

// Answer is the answer of a model.
type Answer struct {
	Message Message `json:"message"`
	Stop    Stop    `json:"stop"`
	Usage   Usage   `json:"usage"`
	// Model is the model that answered, as the provider names it.
	Model string `json:"model,omitempty"`
	// ID is the id of the answer at the provider, if it has one.
	ID string `json:"id,omitempty"`
	// Differs names in what the request differs from the recorded one, of an answer that comes from a record.
	Differs []string `json:"differs,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	// Input counts the tokens of the request that were neither read from nor written to a cache of the provider.
	Input int64 `json:"input"`
	// CacheRead and CacheWrite count the tokens of the request that were read from and written to a cache.
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	// Output counts the tokens of the answer, with those of its reasoning.
	Output int64 `json:"output"`
}

// Kind is the kind of an error.
type Kind string

// The kinds of errors.
const (
	// RateLimited and Overloaded mean that another attempt may succeed, after Error.After.
	RateLimited Kind = "rate_limited"
	Overloaded  Kind = "overloaded"
	// Unreachable means that the request could not be sent.
	Unreachable Kind = "unreachable"
	// Transport means that no complete answer arrived. The provider may have billed the request.
	Transport Kind = "transport"
	// Unauthorized means that the credential is missing or refused.
	Unauthorized Kind = "unauthorized"
	// TooLong means that the request does not fit into the context of the model.
	TooLong Kind = "too_long"
	// Overrun means that the context of the model was full while it answered. The provider may have billed the request.
	Overrun Kind = "overrun"
	// TooLarge means that the answer exceeds a limit, so that it is not read to its end. The provider may have billed the request.
	TooLarge Kind = "too_large"
	// Invalid means that the provider refused the request for another reason. Another attempt would end in the same way.
	Invalid Kind = "invalid"
)

// Error is why a provider did not answer.
type Error struct {
	Kind Kind
	// Message is the reason, without credentials. It may be text of the provider, truncated.
	Message string
	// Status is the HTTP status; 0 if there was none.
	Status int
	// After is how long the provider asks to wait before another attempt; 0 if it does not say.
	After time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Temporary reports whether another attempt may succeed.
func (e *Error) Temporary() bool {
	return e.Kind == RateLimited || e.Kind == Overloaded || e.Kind == Unreachable || e.Kind == Transport
}
