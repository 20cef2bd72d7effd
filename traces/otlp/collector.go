package otlp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// maxAnswer bounds what is read of the answer of a collector.
	maxAnswer = 64 << 10
	// attempts is how often a request is sent, and firstPause how long the first pause between them is at most. Each further one may be
	// twice as long.
	attempts   = 5
	firstPause = 500 * time.Millisecond
	// maxPause bounds the pause that a collector asks for.
	maxPause = 30 * time.Second
)

// Collector receives spans by OTLP over HTTP.
type Collector struct {
	// URL is the address that takes traces.
	URL string
	// Header is sent with every request.
	Header http.Header
	Client *http.Client
	// Once makes Send leave it to its caller to try again.
	Once bool
}

// HeadersVariable is the environment variable with the headers for the collector, see ParseHeaders.
const HeadersVariable = "OTEL_EXPORTER_OTLP_HEADERS"

// The reasons of errors of Send after which the same request is of no use.
const (
	// SpansRefused is the reason if the collector refuses the spans themselves, and RequestTooLarge if it takes smaller requests alone.
	SpansRefused    = "SpansRefused"
	RequestTooLarge = "RequestTooLarge"
)

// NewCollector returns the collector at an address, see TracesURL. It does not follow redirects, so that the header goes nowhere else.
// The header, which may have secrets, crosses plain http on loopback only: else the error is VALIDATION_ERROR.
func NewCollector(base string, header http.Header) (*Collector, error) {
	const patience = 10 * time.Second
	address, err := TracesURL(base)
	if err != nil {
		return nil, err
	}
	if err := encrypted(address, header); err != nil {
		return nil, err
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}
	return &Collector{URL: address, Header: header, Client: &http.Client{Timeout: patience, CheckRedirect: stay, Transport: transport}}, nil
}

// encrypted returns an error if a header would leave the machine without encryption.
func encrypted(address string, header http.Header) error {
	u, err := url.Parse(address)
	if err != nil || len(header) == 0 || u.Scheme == "https" || netguard.IsLoopback(u.Hostname()) {
		return err
	}
	return fault.New(fault.ValidationError, "would send %s without encryption", HeadersVariable).WithHint("use https, or unset the variable")
}

// TracesURL returns the address that takes traces: base with the path /v1/traces, unless it has a path. It returns INVALID_FORMAT for
// what is not an address of HTTP.
func TracesURL(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.New(fault.InvalidFormat, "the address of a collector is like http://127.0.0.1:4318")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// headerName matches the name of a header of HTTP.
var headerName = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")

// ParseHeaders parses the value of OTEL_EXPORTER_OTLP_HEADERS: KEY=VALUE, separated by commas, with percent encoding.
func ParseHeaders(text string) (http.Header, error) {
	header := http.Header{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || !headerName.MatchString(key) || err != nil || strings.ContainsFunc(plain, unicode.IsControl) {
			return nil, fault.New(fault.InvalidFormat, "must be KEY=VALUE, separated by commas").WithField(HeadersVariable)
		}
		header.Add(key, plain)
	}
	return header, nil
}

// Send sends a request that Encode has returned, again while the collector says that it is overloaded. It returns UNAVAILABLE if it stays
// so or does not answer, and NETWORK_ERROR if the collector refuses spans.
func (c *Collector) Send(ctx context.Context, body []byte) error {
	for failures := 0; ; failures++ {
		wait, err := c.post(ctx, body)
		if err == nil || wait < 0 || c.Once || failures == attempts-1 {
			return err
		}
		if err := pause.For(ctx, min(cmp.Or(wait, pause.Backoff(firstPause, maxPause, failures)), maxPause)); err != nil {
			return fault.From(err)
		}
	}
}

// post sends a request once. wait is how long the collector asks to wait before the next attempt; 0 if it does not say, -1 if there is
// no use in another one.
func (c *Collector) post(ctx context.Context, body []byte) (wait time.Duration, err error) {
	const final = -1
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return final, fault.Wrap(fault.InvalidFormat, err, "the address of the collector is invalid")
	}
	r.Header = c.Header.Clone()
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Client.Do(r)
	if ctx.Err() != nil {
		return final, fault.From(ctx.Err())
	}
	if err != nil {
		return final, fault.Wrap(fault.Unavailable, err, "the collector does not answer")
	}
	defer func() { _ = answer.Body.Close() }()
	switch code := answer.StatusCode; code {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent: // gateways answer so that keep spans for a collector
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if err != nil {
			return 0, fault.Wrap(fault.Unavailable, err, "the answer of the collector was cut off")
		}
		return final, c.accepted(code, data)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, fault.New(fault.Unavailable, "the collector answers %d %s", code, http.StatusText(code))
	default:
		err := fault.New(fault.NetworkError, "the collector answers %d %s", code, http.StatusText(code)).WithReason(reasonOf(code))
		if hint := hintOf(code); hint != "" {
			err = err.WithHint("%s", hint)
		}
		return final, err
	}
}

// reasonOf returns the reason for the status of an answer.
func reasonOf(code int) string {
	switch code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return SpansRefused
	case http.StatusRequestEntityTooLarge:
		return RequestTooLarge
	default: // the collector would perhaps take them at another time, such as with another token
		return ""
	}
}

// hintOf says what to do about the status of an answer; "" if that is not known.
func hintOf(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "set " + HeadersVariable + " where orch runs, such as authorization=Bearer%20TOKEN, or renew what it has; a node reads it at its start"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusNotFound, http.StatusMethodNotAllowed:
		return "check the address: collectors take OTLP over HTTP at port 4318, with the path /v1/traces"
	default:
		return ""
	}
}

// accepted returns an error if an answer of success is none of a collector, which is an ExportTraceServiceResponse in JSON or
// empty, or if it says that the collector has rejected spans.
func (c *Collector) accepted(code int, answer []byte) error {
	var reply *struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
			ErrorMessage  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if len(bytes.TrimSpace(answer)) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply == nil {
		return fault.New(fault.NetworkError, "what answers is no collector: its %d %s has no answer of OTLP", code, http.StatusText(code)).
			WithHint("check the address: collectors take OTLP over HTTP at port 4318; pages of backends and login proxies answer 200 too")
	}
	if n, _ := reply.PartialSuccess.RejectedSpans.Int64(); n > 0 {
		return fault.New(fault.NetworkError, "the collector has rejected %d spans: %s", n, c.clean(reply.PartialSuccess.ErrorMessage)).WithReason(SpansRefused)
	}
	return nil
}

// clean returns the beginning of a text of the collector, without the values of the header, which it may repeat.
func (c *Collector) clean(text string) string {
	const most = 500
	for _, values := range c.Header {
		for _, value := range values {
			if value != "" {
				text = strings.ReplaceAll(text, value, "***")
			}
		}
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
