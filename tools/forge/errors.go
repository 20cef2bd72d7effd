package forge

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v92/github"

	"github.com/orch-dev/orch/fault"
)

const (
	// usualWait is when to try again after a limit that does not say it; GitHub asks for a minute at least.
	usualWait = time.Minute
	// longestWait is the period of the limits of GitHub: none is used up for longer.
	longestWait = time.Hour
)

// failed turns an error of the library into a fault (S3-071, S3-158). What GitHub says stays in its cause, for the log
// of the node: RATE_LIMITED with the time of the next attempt, FORBIDDEN with the reason ACCESS_DENIED, NOT_FOUND,
// CONFLICT, VALIDATION_ERROR, TIMEOUT, CANCELLED, GITHUB_ERROR.
func (a *api) failed(err error, now time.Time) *fault.Error {
	var (
		primary   *github.RateLimitError
		secondary *github.AbuseRateLimitError
		answer    *github.ErrorResponse
		known     *fault.Error
		e         *fault.Error
	)
	switch {
	case errors.As(err, &primary):
		e = limited(primary.Rate.Reset.Time, now)
	case errors.As(err, &secondary):
		e = limited(now.Add(secondary.GetRetryAfter()), now)
	case errors.As(err, &answer):
		e = a.refused(answer, now)
	case errors.As(err, &known):
		e = unreached(known)
	case errors.Is(err, context.DeadlineExceeded):
		e = fault.New(fault.Timeout, "GitHub did not answer in time")
	case errors.Is(err, context.Canceled):
		e = fault.New(fault.Cancelled, "the call was cancelled")
	default:
		e = fault.New(fault.GithubError, "GitHub sent something else than an answer of its API").
			WithHint("check that github_url is the base of the API, such as https://github.example.com/api/v3")
	}
	e.Err = a.withoutToken(err)
	return e
}

// limited is RATE_LIMITED until a time, in whole seconds that are not too early.
func limited(until, now time.Time) *fault.Error {
	if !until.After(now) {
		until = now.Add(usualWait)
	}
	until = earlier(until, now.Add(longestWait))
	until = until.UTC().Add(time.Second - 1).Truncate(time.Second)
	e := fault.New(fault.RateLimited, "the rate limit of GitHub is used up until %s", until.Format(time.RFC3339)).WithReason("RATE_LIMIT").
		WithHint("calls that are tried again wait until then; with github_token the limit is higher")
	return e.WithRetryAt(until)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// refused tells an answer with a status that is no success.
func (a *api) refused(answer *github.ErrorResponse, now time.Time) *fault.Error {
	status, header := answer.Response.StatusCode, answer.Response.Header
	after, err := strconv.Atoi(header.Get("Retry-After"))
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && err == nil:
		return limited(now.Add(time.Duration(after)*time.Second), now)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusUnavailableForLegalReasons:
		return a.denied(status)
	case status == http.StatusNotFound:
		return repoNotFound(a.token)
	case status == http.StatusGone:
		return fault.New(fault.Gone, "the repository has this switched off")
	case status == http.StatusConflict:
		return fault.New(fault.Conflict, "the state of the repository does not allow this")
	case status == http.StatusUnprocessableEntity, status == http.StatusBadRequest:
		return invalid(answer)
	default:
		return fault.New(fault.GithubError, "GitHub answered with status %d %s", status, http.StatusText(status))
	}
}

func (a *api) denied(status int) *fault.Error {
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
		return e.WithHint("a private one is found with github_token alone")
	}
	return e.WithHint("a private one is found only when github_token may read it")
}

// invalid names the first input that GitHub finds fault with, and repeats nothing of what it says.
func invalid(answer *github.ErrorResponse) *fault.Error {
	e := fault.New(fault.ValidationError, "GitHub refuses the input")
	for _, detail := range answer.Errors {
		if strings.HasPrefix(detail.Message, "A pull request already exists") {
			return fault.New(fault.Conflict, "there is a pull request for this branch already").WithField("head")
		}
		switch detail.Field {
		case "title", "body", "labels", "assignees", "milestone", "head", "base":
			if e.Field == "" {
				e.Message = "is refused by GitHub"
				e.Field = detail.Field
			}
		}
	}
	return e
}

// unreached is an error of the way to GitHub: what the call itself ended with, else GITHUB_ERROR.
func unreached(e *fault.Error) *fault.Error {
	switch e.Code {
	case fault.Timeout, fault.Cancelled, fault.Forbidden, fault.GithubError:
		return &fault.Error{Code: e.Code, Message: e.Message, Reason: e.Reason, Hint: e.Hint}
	default:
		return fault.New(fault.GithubError, "%s", e.Message).WithReason("CONNECTION_ERROR")
	}
}

// failedWrite is failed for a call that changes something: when no answer tells what became of it, it is IN_DOUBT.
func (a *api) failedWrite(err error, now time.Time) *fault.Error {
	e := a.failed(err, now)
	if e.Code != fault.GithubError || neverSent(err) || redirected(err) {
		return e
	}
	return fault.Wrap(fault.InDoubt, e.Err, "GitHub may have done this: "+e.Message).WithReason("GITHUB_ERROR").
		WithHint("look at the repository before it is done again")
}

// neverSent reports whether a connection was not even made.
func neverSent(err error) bool {
	var (
		op          *net.OpError
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) || errors.As(err, &certificate) || errors.As(err, &record)
}

// redirected reports whether the server has sent the request elsewhere instead of doing it.
func redirected(err error) bool {
	var r *github.RedirectionError
	return errors.As(err, &r)
}

// withoutToken is the cause for the log: a server may repeat what it was sent.
func (a *api) withoutToken(err error) error {
	if text := err.Error(); a.token != "" && strings.Contains(text, a.token) {
		return errors.New(strings.ReplaceAll(text, a.token, "[github_token]"))
	}
	return err
}

// status returns that of the answer behind an error, 0 for none.
func status(err error) int {
	if answer, ok := errors.AsType[*github.ErrorResponse](err); ok {
		return answer.Response.StatusCode
	}
	return 0
}
