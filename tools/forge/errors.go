package forge

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// defaultWait is the wait before a retry when a rate limit does not specify one; GitHub requires at least a
	// minute.
	defaultWait = time.Minute
	// maxWait is the period of the limits of GitHub: no limit is exhausted for longer.
	maxWait = time.Hour
)

// apiError converts an error of rest to a coded error (S3-071, S3-158): RATE_LIMITED with the time of the next
// attempt, FORBIDDEN with the reason ACCESS_DENIED, NOT_FOUND, CONFLICT, VALIDATION_ERROR, TIMEOUT, CANCELLED or
// GITHUB_ERROR. The message of GitHub is only in its cause, for the log of the node.
func (a *api) apiError(err error, now time.Time) *fault.Error {
	var (
		limit    *limitError
		response *responseError
		coded    *fault.Error
		e        *fault.Error
	)
	switch {
	case errors.As(err, &limit):
		e = rateLimited(limit.until, now)
	case errors.As(err, &response):
		e = a.statusError(response)
	case errors.As(err, &coded):
		e = connectionError(coded)
	default:
		e = fault.New(fault.GithubError, "the response is not one of the GitHub API").
			WithHint("check that github_url is the base of the API, such as https://github.example.com/api/v3")
	}
	e.Err = a.redactToken(err)
	return e
}

// rateLimited returns RATE_LIMITED until a time, rounded up to whole seconds.
func rateLimited(until, now time.Time) *fault.Error {
	until = earlier(until, now.Add(maxWait))
	until = until.UTC().Add(time.Second - 1).Truncate(time.Second)
	e := fault.New(fault.RateLimited, "the rate limit of GitHub is used up until %s", until.Format(time.RFC3339)).WithReason("RATE_LIMIT").
		WithHint("retries wait until then; with github_token the limit is higher")
	return e.WithRetryAt(until)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// statusError returns the error for a response with an unsuccessful status.
func (a *api) statusError(response *responseError) *fault.Error {
	switch status := response.status; status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnavailableForLegalReasons:
		return a.deniedError(status)
	case http.StatusNotFound:
		return repoNotFound(a.token)
	case http.StatusGone:
		return fault.New(fault.Gone, "this feature is disabled in the repository")
	case http.StatusConflict:
		return fault.New(fault.Conflict, "the state of the repository does not allow this")
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return invalidInput(response)
	default:
		return fault.New(fault.GithubError, "GitHub answered with status %d %s", status, http.StatusText(status))
	}
}

func (a *api) deniedError(status int) *fault.Error {
	e := fault.New(fault.Forbidden, "GitHub does not permit this").WithReason("ACCESS_DENIED")
	switch {
	case a.token == "":
		return e.WithHint("the operator sets github_token")
	case status == http.StatusUnauthorized:
		return e.WithHint("github_token is wrong or has expired")
	default:
		return e.WithHint("github_token lacks a permission for it")
	}
}

func repoNotFound(token string) *fault.Error {
	e := fault.New(fault.NotFound, "GitHub knows no such repository").WithField("repo").WithReason("REPO_NOT_FOUND")
	if token == "" {
		return e.WithHint("private repositories require github_token")
	}
	return e.WithHint("for a private repository, github_token must permit reading it")
}

// invalidInput returns the error for rejected input. It names the first rejected field, and repeats no text of
// GitHub.
func invalidInput(response *responseError) *fault.Error {
	e := fault.New(fault.ValidationError, "GitHub rejected the input")
	for _, detail := range response.details {
		if strings.HasPrefix(detail.Message, "A pull request already exists") {
			return fault.New(fault.Conflict, "there is a pull request for this branch already").WithField("head")
		}
		switch detail.Field {
		case "title", "body", "labels", "assignees", "milestone", "head", "base":
			if e.Field == "" {
				e.Message = "was rejected by GitHub"
				e.Field = detail.Field
			}
		}
	}
	return e
}

// connectionError returns the error of a failed connection. It preserves the codes TIMEOUT, CANCELLED, FORBIDDEN and
// GITHUB_ERROR; every other code becomes GITHUB_ERROR.
func connectionError(e *fault.Error) *fault.Error {
	switch e.Code {
	case fault.Timeout:
		return fault.New(fault.Timeout, "GitHub did not answer in time")
	case fault.Cancelled, fault.Forbidden, fault.GithubError:
		return &fault.Error{Code: e.Code, Message: e.Message, Reason: e.Reason, Hint: e.Hint}
	default:
		return fault.New(fault.GithubError, "%s", e.Message).WithReason("CONNECTION_ERROR")
	}
}

// writeError is apiError for a call that changes something. It returns IN_DOUBT when no response shows whether the call
// had an effect.
func (a *api) writeError(err error, now time.Time) *fault.Error {
	e := a.apiError(err, now)
	if e.Code != fault.GithubError || neverSent(err) || redirected(err) {
		return e
	}
	return fault.Wrap(fault.InDoubt, e.Err, "GitHub may have done this: "+e.Message).WithReason("GITHUB_ERROR").
		WithHint("check the repository before repeating the call")
}

// neverSent reports whether the connection was never established.
func neverSent(err error) bool {
	var (
		op          *net.OpError
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) || errors.As(err, &certificate) || errors.As(err, &record)
}

// redirected reports whether the server redirected the request instead of executing it.
func redirected(err error) bool {
	response, ok := errors.AsType[*responseError](err)
	return ok && response.redirected
}

// redactToken returns an error without the token, which a server may echo. The error is the cause in the log.
func (a *api) redactToken(err error) error {
	if text := err.Error(); a.token != "" && strings.Contains(text, a.token) {
		return errors.New(strings.ReplaceAll(text, a.token, "[github_token]"))
	}
	return err
}

// status returns the HTTP status of the response in an error, 0 for none.
func status(err error) int {
	if response, ok := errors.AsType[*responseError](err); ok {
		return response.status
	}
	return 0
}
