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

// maxMessage is the maximum number of bytes of a server's message in an error.
const maxMessage = 300

// errTooLarge marks a response that exceeds Config.MaxAnswer. A retry is useless.
var errTooLarge = errors.New("the answer is too large")

func tooLarge(limit int64) error {
	return refusal.New(refusal.QuotaExceeded, "there is more than %d bytes at the path: %w", limit, errTooLarge).
		WithHint("choose a path further down, a query with a limit, or shallow")
}

func notDatabaseError(endpoint string) error {
	return refusal.New(refusal.ConnectionError, "%s does not answer like a Realtime Database", endpoint).
		WithHint("check firebase_realtime_url")
}

func conflictError() error {
	return refusal.New(refusal.Conflict, "another writer has changed the data meanwhile").WithField("path").
		WithHint("read again and decide again")
}

// transportError converts the error of a request without a response. When ctx has ended it returns the error of ctx.
func (c *Client) transportError(ctx context.Context, err error) error {
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

// contextError returns err. If ctx has ended, it returns the error of ctx instead.
func (c *Client) contextError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return c.transportError(ctx, err)
	}
	return err
}

// statusError converts an unsuccessful status to an error.
func (c *Client) statusError(r request, status int, body []byte) error {
	message := c.serverMessage(body)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return refusal.New(refusal.PermissionDenied, "the database refused: %s", message).
			WithHint("its rules and firebase_realtime_token decide what may be read and written")
	case status == http.StatusPreconditionFailed:
		return conflictError()
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		return refusal.New(refusal.QuotaExceeded, "a quota of the database is used up: %s", message)
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest && strings.Contains(message, "exceeds the maximum"):
		return refusal.New(refusal.SizeLimitExceeded, "the database refused: %s", message).WithField("data")
	case status == http.StatusBadRequest && strings.Contains(strings.ToLower(message), "invalid path"):
		return refusal.New(refusal.InvalidPath, "the database refused: %s", message).WithField("path")
	case status == http.StatusBadRequest:
		return refusal.New(refusal.ValidationError, "the database refused: %s", message).WithField(r.field())
	case status == http.StatusNotFound, status < 400:
		return refusal.New(refusal.ConnectionError, "there is no database at firebase_realtime_url: status %d: %s", status, message)
	default:
		return refusal.New(refusal.ConnectionError, "the database failed: status %d: %s", status, message)
	}
}

// field returns the input field to which a bad request relates.
func (r request) field() string {
	if r.method == http.MethodGet {
		return "query"
	}
	return "data"
}

// serverMessage returns the sanitized error message in the body of a response.
func (c *Client) serverMessage(body []byte) string {
	var response struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &response) != nil || response.Error == "" {
		return "it gives no reason"
	}
	return c.sanitize(response.Error)
}

// sanitize prepares a text of a server for display: it removes the credential and unprintable characters, and truncates
// the text.
func (c *Client) sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, c.credential.redact(text))
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
