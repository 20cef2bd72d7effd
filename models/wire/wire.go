// Package wire has what the protocols of providers have in common: a request that is posted as JSON, an answer that
// arrives as server-sent events, the bounds of both, and errors that contain no credentials.
package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/models"
)

// The limits of an answer, in bytes.
const (
	// MaxAnswer limits the text, the arguments of calls and the opaque parts of an answer together.
	MaxAnswer = 16 << 20
	// MaxLine limits a line and an event of the stream.
	MaxLine = 4 << 20
	// MaxStream limits the stream, in which each piece of an answer has a frame of JSON.
	MaxStream = 128 << 20
	// maxRest limits what is read after the end of an answer.
	maxRest = 64 << 10
)

// maxFinish is how long the end of a stream may take after that of its answer. Without it, the connection is closed.
const maxFinish = time.Second

// DefaultIdle is how long a provider may send nothing. Models that reason may be silent for minutes.
const DefaultIdle = 5 * time.Minute

// Config is where and how a provider is reached.
type Config struct {
	// BaseURL is the address before the path of each request, without a slash at its end; "" means that of the protocol's
	// author.
	BaseURL string
	// Key returns the credential. It is called for each request; nil means that there is none.
	Key func() (string, error)
	// Client sends the requests; nil means a client with the defaults of net/http. Redirects are never followed, because
	// they would take the credential to another server.
	Client *http.Client
	// Idle limits how long the provider may send nothing; 0 means DefaultIdle.
	Idle time.Duration
	// Headers returns headers that are added to a request. It is called for each request; nil means that there are none.
	// Their values appear in no error.
	Headers func() (map[string]string, error)
	// Fields are added to the body of each request, such as the settings of a provider for reasoning. They replace fields
	// of the same names, but an object is added to an object.
	Fields map[string]json.RawMessage
}

// Protocol is what distinguishes the protocols.
type Protocol struct {
	// BaseURL is the address where Config has none.
	BaseURL string
	// Sign adds the credential to the headers of a request.
	Sign func(h http.Header, key string)
	// Explain reads the body of an error. It returns the zero value for a body that it does not know.
	Explain func(body []byte) Failure
}

// Client sends requests to a provider.
type Client struct {
	config   Config
	protocol Protocol
	http     http.Client
}

// NewClient returns a client.
func NewClient(c Config, p Protocol) *Client {
	if c.BaseURL == "" {
		c.BaseURL = p.BaseURL
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.Idle <= 0 {
		c.Idle = DefaultIdle
	}
	client := &Client{config: c, protocol: p}
	if c.Client != nil {
		client.http = *c.Client
	}
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// Host returns the host that requests go to, without its port.
func (c *Client) Host() string {
	u, err := url.Parse(c.config.BaseURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Call is one request.
type Call struct {
	// Path is the end of the address.
	Path string
	// Headers are added to those of the configuration.
	Headers map[string]string
	// Body is marshaled as JSON.
	Body any
}

// Fold builds an answer from the events of a stream.
type Fold interface {
	// Event adds an event. It reports whether the stream is over. Errors that are no *models.Error mean that the stream is
	// malformed.
	Event(e sse.Event) (over bool, err error)
	// Complete reports whether the answer is complete. If the stream has not ended in order, it must contain the usage too.
	Complete(ended bool) bool
}

// Stream sends a request and gives the events of the answer to fold until the answer is complete. Errors are of type
// *models.Error.
func (c *Client) Stream(ctx context.Context, call Call, fold Fold) error {
	own, err := c.credentials()
	if err != nil {
		return err
	}
	hide := own.hider()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.config.Idle, func() { cancel(idleError{c.config.Idle}) })
	defer idle.Stop()

	request, err := c.request(ctx, call, own)
	if err != nil {
		return &models.Error{Kind: models.Invalid, Message: hide(err.Error())}
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	response, err := c.http.Do(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return unanswered(ctx, err, sent.Load(), hide)
	}
	defer response.Body.Close()
	body := &watched{in: response.Body, left: MaxStream, heard: func() { idle.Reset(c.config.Idle) }}
	if err := c.refused(response, body, hide); err != nil {
		return err
	}
	err = read(ctx, body, fold, hide)
	if err == nil {
		finish(response.Body, cancel)
	}
	return err
}

// finish reads what follows a complete answer, normally nothing, so that the next request can use the connection.
func finish(rest io.Reader, cancel context.CancelCauseFunc) {
	late := time.AfterFunc(maxFinish, func() { cancel(nil) })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, rest, maxRest) // whatever fails, the answer is complete
}

// credentials are what the configuration adds to the headers of a request.
type credentials struct {
	key     string
	headers map[string]string
}

// credentials reads the credential and the headers of the configuration.
func (c *Client) credentials() (own credentials, err error) {
	if c.config.Key != nil {
		if own.key, err = c.config.Key(); err != nil {
			return own, &models.Error{Kind: models.Unauthorized, Message: "the credential cannot be read: " + err.Error()}
		}
	}
	if c.config.Headers != nil {
		if own.headers, err = c.config.Headers(); err != nil {
			return own, &models.Error{Kind: models.Unauthorized, Message: "a header cannot be read: " + err.Error()}
		}
	}
	return own, nil
}

// request returns the HTTP request of a call.
func (c *Client) request(ctx context.Context, call Call, own credentials) (*http.Request, error) {
	body, err := c.body(call.Body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.BaseURL+call.Path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the base URL is not a valid address")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	for _, headers := range []map[string]string{own.headers, call.Headers} {
		for name, value := range headers {
			request.Header.Set(name, value)
		}
	}
	if own.key != "" {
		c.protocol.Sign(request.Header, own.key)
	}
	return request, nil
}

// body returns the JSON of a request with the fields of the configuration.
func (c *Client) body(v any) ([]byte, error) {
	body, err := marshal(v)
	if err != nil || len(c.config.Fields) == 0 {
		return body, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	if err := merge(fields, c.config.Fields); err != nil {
		return nil, err
	}
	return marshal(fields)
}

// merge adds fields to an object. Where both have an object, it adds the fields of the one to the other.
func merge(object, fields map[string]json.RawMessage) error {
	for name, value := range fields {
		var had, given map[string]json.RawMessage
		if json.Unmarshal(object[name], &had) != nil || json.Unmarshal(value, &given) != nil || had == nil || given == nil {
			object[name] = value
			continue
		}
		if err := merge(had, given); err != nil {
			return err
		}
		merged, err := marshal(had)
		if err != nil {
			return err
		}
		object[name] = merged
	}
	return nil
}

// marshal returns the JSON of v. Unlike json.Marshal it keeps <, > and &, so that texts stay what they are.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// read gives the events of a stream to fold.
func read(ctx context.Context, body io.Reader, fold Fold, hide func(string) string) error {
	events := sse.NewReader(body, MaxLine)
	for {
		event, err := events.Next()
		switch {
		case err != nil && fold.Complete(errors.Is(err, io.EOF)):
			return nil
		case errors.Is(err, io.EOF):
			return &models.Error{Kind: models.Transport, Message: "the answer ended before it was complete"}
		case err != nil:
			return transport(ctx, err, hide)
		}
		if over, err := fold.Event(event); err != nil {
			return malformed(err, hide)
		} else if over {
			return finished(fold)
		}
	}
}

// finished returns an error unless the answer is complete at the end that the provider announced.
func finished(fold Fold) error {
	if fold.Complete(true) {
		return nil
	}
	return &models.Error{Kind: models.Transport, Message: "the provider ended the answer without a reason"}
}

// malformed returns the error of an event.
func malformed(err error, hide func(string) string) error {
	if known, ok := errors.AsType[*models.Error](err); ok {
		known.Message = hide(cmp.Or(known.Message, "the provider reports an error without a reason"))
		return known
	}
	return &models.Error{Kind: models.Transport, Message: hide("malformed event: " + err.Error())}
}

// unanswered returns the error of a request without a response.
func unanswered(ctx context.Context, err error, sent bool, hide func(string) string) *models.Error {
	e := transport(ctx, err, hide)
	if !sent && e.Kind == models.Transport {
		e.Kind = models.Unreachable
	}
	return e
}

// transport returns the error of a request that failed, or of a stream that broke.
func transport(ctx context.Context, err error, hide func(string) string) *models.Error {
	idle, isIdle := errors.AsType[idleError](context.Cause(ctx))
	address, hasURL := errors.AsType[*url.Error](err)
	switch {
	case errors.Is(err, sse.ErrTooLong), errors.Is(err, errStream):
		return tooLarge(err.Error())
	case isIdle:
		return &models.Error{Kind: models.Transport, Message: idle.Error()}
	case ctx.Err() != nil:
		return &models.Error{Kind: models.Transport, Message: ctx.Err().Error()}
	case hasURL:
		err = address.Err // without the URL
	}
	return &models.Error{Kind: models.Transport, Message: hide(err.Error())}
}

// tooLarge returns the error for an answer that exceeds a limit. It would do so again.
func tooLarge(reason string) *models.Error {
	return &models.Error{Kind: models.TooLarge, Message: "the answer is too large: " + reason}
}

// idleError ends a stream in which nothing arrives.
type idleError struct{ limit time.Duration }

// Error implements error.
func (e idleError) Error() string { return fmt.Sprintf("the provider sent nothing for %s", e.limit) }

var errStream = fmt.Errorf("the stream has more than %d bytes", MaxStream)

// watched is the body of a response. It reports each arrival and bounds the bytes.
type watched struct {
	in    io.Reader
	left  int
	heard func()
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errStream
	}
	n, err := w.in.Read(p[:min(len(p), w.left)])
	w.left -= n
	if n > 0 {
		w.heard()
	}
	return n, err
}

// isStream reports whether a response is a stream of events. A response without a type passes for one.
func isStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return h.Get("Content-Type") == "" || err == nil && kind == "text/event-stream"
}
