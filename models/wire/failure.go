package wire

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/orch-dev/orch/models"
)

const (
	// maxFailure limits how much of the body of an error is read, maxMessage how much of it an error says.
	maxFailure = 64 << 10
	maxMessage = 500
	// maxAfter limits how long a provider can ask to wait.
	maxAfter = 24 * time.Hour
	// minSecret is the size of the shortest value that errors hide.
	minSecret = 6
)

// Failure is the body of an error.
type Failure struct {
	// Kind is "" where the status says it.
	Kind    models.Kind
	Message string
	After   time.Duration
}

// refused returns an error unless a response is a stream.
func (c *Client) refused(response *http.Response, body io.Reader, hide func(string) string) error {
	fine := response.StatusCode == http.StatusOK
	if fine && isStream(response.Header) {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(body, maxFailure)) // what there is of it
	failure := c.protocol.Explain(text)
	if fine && failure == (Failure{}) {
		failure.Message = fmt.Sprintf("the answer is of type %q and no stream of events: is `url` the address of the interface?", response.Header.Get("Content-Type"))
	}
	return c.failed(response, failure, hide)
}

// failed returns the error of a response.
func (c *Client) failed(response *http.Response, failure Failure, hide func(string) string) *models.Error {
	status := response.StatusCode
	kind := cmp.Or(failure.Kind, byStatus(status))
	message := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	switch {
	case kind == models.Unauthorized && status == http.StatusUnauthorized: // providers repeat a part of the credential
		message += ": the provider refuses the credential"
	case failure.Message != "" && status == http.StatusOK:
		message = failure.Message
	case failure.Message != "":
		message += ": " + failure.Message
	}
	after := min(max(failure.After, retryAfter(response.Header, time.Now())), maxAfter)
	return &models.Error{Kind: kind, Message: hide(message), Status: status, After: after}
}

// byStatus returns the kind of an error by its HTTP status.
func byStatus(status int) models.Kind {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return models.Unauthorized
	case status == http.StatusRequestEntityTooLarge:
		return models.TooLong
	case status == http.StatusTooManyRequests:
		return models.RateLimited
	case status == http.StatusRequestTimeout, status >= 500:
		return models.Overloaded
	default:
		return models.Invalid
	}
}

// retryAfter returns how long the headers of a response ask to wait: in milliseconds, in seconds, or until a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return wait(ms / 1000)
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return wait(seconds)
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// wait returns a duration of seconds between 0 and maxAfter.
func wait(seconds float64) time.Duration {
	switch {
	case seconds > maxAfter.Seconds():
		return maxAfter
	case seconds > 0: // not if it is no number
		return time.Duration(seconds * float64(time.Second))
	default:
		return 0
	}
}

// TooLong reports whether a message says that the request does not fit into the context of the model. Not all providers
// have a code for it.
func TooLong(message string) bool {
	message = strings.ToLower(message)
	for _, phrase := range []string{
		"maximum context length",                     // OpenAI, vLLM, OpenRouter
		"exceeds the available context size",         // llama.cpp
		"prompt is too long", "exceed context limit", // Anthropic
		"exceeds the maximum number of tokens allowed", // Gemini
	} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// hider returns a function that removes the credential and the values of headers from a text, and shortens it.
func (own credentials) hider() func(string) string {
	hide := Hider([]string{own.key}, slices.Collect(maps.Values(own.headers)))
	return func(text string) string { return shorten(printable(hide(text))) }
}

// Hider returns a function that removes secrets and the values of headers from a text. Of a value such as "Bearer x", which a provider
// may repeat in part, it also removes x. Short values of headers, and short parts of them, are no credentials: they stay.
func Hider(secrets, headers []string) func(string) string {
	hidden := slices.Clone(secrets)
	for _, value := range headers {
		_, credential, _ := strings.Cut(value, " ")
		for _, text := range []string{value, strings.TrimSpace(credential)} {
			if len(text) >= minSecret {
				hidden = append(hidden, text)
			}
		}
	}
	hidden = slices.DeleteFunc(hidden, func(text string) bool { return text == "" })
	slices.SortFunc(hidden, func(x, y string) int { return len(y) - len(x) }) // one may contain another
	return func(text string) string {
		for _, value := range hidden {
			text = strings.ReplaceAll(text, value, "***")
		}
		return text
	}
}

// printable returns text without control characters and in valid UTF-8.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
}

// shorten cuts text to maxMessage bytes.
func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
