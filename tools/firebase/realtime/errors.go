package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// maxSaid is how many bytes of what a server says are repeated.
const maxSaid = 300

// errTooLarge marks an answer that no further attempt makes smaller.
var errTooLarge = errors.New("the answer is too large")

func tooLarge(limit int64) error {
	return refusal.New(refusal.QuotaExceeded, "there is more than %d bytes at the path: %w", limit, errTooLarge).
		WithHint("choose a path further down, a query with a limit, or shallow")
}

func noDatabase(endpoint string) error {
	return refusal.New(refusal.ConnectionError, "%s does not answer like a Realtime Database", endpoint).
		WithHint("check firebase_realtime_url")
}

func changedMeanwhile() error {
	return refusal.New(refusal.Conflict, "somebody else wrote there meanwhile").WithField("path").
		WithHint("read again and decide again")
}

// failed tells why there is no answer. An end of the caller's context stays what it is.
func (c *Client) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return refusal.New(refusal.ConnectionError, "there was no answer within %s", c.cfg.Call)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	e := fault.From(err)
	broken := refusal.New(refusal.ConnectionError, "%s", e.Message)
	broken.Hint, broken.Err = e.Hint, e.Err
	return broken
}

// ended returns err, unless the end of the context is behind it.
func (c *Client) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return c.failed(ctx, err)
	}
	return err
}

// refused tells what a status means.
func (c *Client) refused(r request, status int, body []byte) error {
	said := c.said(body)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return refusal.New(refusal.PermissionDenied, "the database refused: %s", said).
			WithHint("its rules and firebase_realtime_token decide what may be read and written")
	case status == http.StatusPreconditionFailed:
		return changedMeanwhile()
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return refusal.New(refusal.QuotaExceeded, "a quota of the database is used up: %s", said)
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest && strings.Contains(said, "exceeds the maximum"):
		return refusal.New(refusal.SizeLimitExceeded, "the database refused: %s", said).WithField("data")
	case status == http.StatusBadRequest && strings.Contains(strings.ToLower(said), "invalid path"):
		return refusal.New(refusal.InvalidPath, "the database refused: %s", said).WithField("path")
	case status == http.StatusBadRequest:
		return refusal.New(refusal.ValidationError, "the database refused: %s", said).WithField(r.field())
	case status == http.StatusNotFound, status < 400:
		return refusal.New(refusal.ConnectionError, "there is no database at firebase_realtime_url: status %d: %s", status, said)
	default:
		return refusal.New(refusal.ConnectionError, "the database failed: status %d: %s", status, said)
	}
}

// field is the input that a bad request is about.
func (r request) field() string {
	if r.method == http.MethodGet {
		return "query"
	}
	return "data"
}

// said returns what a server says about an error, without the credential, on one line.
func (c *Client) said(body []byte) string {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == "" {
		return "it does not say why"
	}
	return c.plain(answer.Error)
}

// plain returns a text of a server as it may be shown.
func (c *Client) plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, c.credential.conceal(text))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}
