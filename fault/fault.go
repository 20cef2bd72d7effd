// Package fault defines the error type that users and other programs see.
//
// An error that leaves orch has a code of the registry (codes.go), a message that is safe to show and, where useful,
// the invalid field and a hint. The cause is only for the log: the interfaces for clients (command line, HTTP, MCP)
// never show it.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"time"
)

// Error is a coded error. The zero value of every field but Code is valid.
type Error struct {
	// Code determines the exit code and the protocol code.
	Code Code `json:"name"`
	// Message describes the error in one sentence that is safe to show to users.
	Message string `json:"message"`
	// Reason is a more specific error name, such as OutsideRoot (M-4).
	Reason string `json:"reason,omitempty"`
	// Field names the invalid input.
	Field string `json:"field,omitempty"`
	// Hint suggests a next step.
	Hint string `json:"hint,omitempty"`
	// RetryAt is when a retry may succeed; zero if unknown.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Err is the cause, for the log only.
	Err error `json:"-"`
}

// New returns an error of the code with a formatted message. A %w verb sets the cause.
func New(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: wrapped.Error(), Err: errors.Unwrap(wrapped)}
}

// Wrap returns an error of the code with the cause err. The message does not include the cause.
func Wrap(code Code, err error, message string) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

// WithField returns a copy of the error with the field. It does not change e, which others may hold too.
func (e *Error) WithField(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// WithHint returns a copy of the error with the hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// ReadOnlyFileSystem is the reason of a FORBIDDEN error that no permission can fix.
const ReadOnlyFileSystem = "READ_ONLY_FILE_SYSTEM"

// OutcomeUnknown is the reason of an error after which the request may have been executed.
const OutcomeUnknown = "OUTCOME_UNKNOWN"

// Overloaded is the reason of an UNAVAILABLE error of a node that has too much to do. Nothing of the request was done, so it may be
// repeated.
const Overloaded = "OVERLOADED"

// overloadPause is when a request that was refused with Overloaded may be repeated.
const overloadPause = 2 * time.Second

// NewOverloaded returns the error for a request that was refused at a time because the node has too much to do.
func NewOverloaded(now time.Time, format string, args ...any) *Error {
	return New(Unavailable, format, args...).WithReason(Overloaded).WithRetryAt(now.Add(overloadPause)).
		WithHint("nothing of it was done; try again in a few seconds")
}

// IsOverloaded reports whether err has the reason Overloaded.
func IsOverloaded(err error) bool { return err != nil && From(err).Reason == Overloaded }

// WithReason returns a copy of the error with the reason.
func (e *Error) WithReason(name string) *Error {
	c := *e
	c.Reason = name
	return &c
}

// WithRetryAt returns a copy of the error with the time at which a retry may succeed.
func (e *Error) WithRetryAt(at time.Time) *Error {
	c := *e
	c.RetryAt = at.UTC()
	return &c
}

// RetryAfter returns the seconds from now until RetryAt, rounded up; 0 if it is unset or in the past.
func (e *Error) RetryAfter(now time.Time) int {
	return max(0, int(math.Ceil(e.RetryAt.Sub(now).Seconds())))
}

// Rewrite returns a copy of the error with f applied to its texts; f may redact secrets, for example. The cause is not
// changed.
func (e *Error) Rewrite(f func(string) string) *Error {
	c := *e
	for _, text := range []*string{&c.Message, &c.Reason, &c.Field, &c.Hint} {
		if *text != "" {
			*text = f(*text)
		}
	}
	return &c
}

// Error returns the code and the message.
func (e *Error) Error() string {
	if e.Field == "" {
		return string(e.Code) + ": " + e.Message
	}
	return string(e.Code) + ": " + e.Field + ": " + e.Message
}

// Sentence returns the message for people: with the field and without the code.
func (e *Error) Sentence() string {
	switch {
	case e.Field == "":
		return e.Message
	case strings.HasPrefix(e.Message, "is "), strings.HasPrefix(e.Message, "must "):
		return e.Field + " " + e.Message
	default:
		return e.Field + ": " + e.Message
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same code, so that errors.Is(err, &fault.Error{Code: fault.NotFound})
// works through any wrapping.
func (e *Error) Is(target error) bool {
	t, ok := errors.AsType[*Error](target)
	return ok && t.Code == e.Code
}

// CodeOf returns the code that err carries: "" for nil, CANCELLED or TIMEOUT for context errors,
// the matching code for file system errors, INTERNAL for anything else.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return Forbidden
	default:
		return Internal
	}
}

// From returns err as an *Error: itself if it is one, else an error with its code. If the code is INTERNAL, the message
// does not include the text of err.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	code := CodeOf(err)
	if code == Internal {
		return Wrap(code, err, "an internal error occurred")
	}
	return Wrap(code, err, err.Error())
}

// Has reports whether err carries the code.
func Has(err error, code Code) bool { return err != nil && CodeOf(err) == code }
