package grpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Code is the status code of a call.
type Code uint32

// The codes of the protocol.
const (
	OK Code = iota
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)

// Error is the status of a failed call.
type Error struct {
	Code    Code
	Message string
	// Unanswered is true when no server answered.
	Unanswered bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("gRPC status %d: %s", e.Code, e.Message) }

// CodeOf returns the code of an error: OK for nil, and Unknown for an error that is not an *Error.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Unknown
}

// MessageOf returns the message of an *Error, or the text of any other error.
func MessageOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func failure(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// resetError is how the transport tells that a call was reset. It fills in a type with these fields.
type resetError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (resetError) Error() string { return "the call was reset" }

// The reasons of a reset that have a code of their own.
const (
	enhanceYourCalm    = 0xb
	inadequateSecurity = 0xc
)

// notRepeated begins the error of the transport for a request that it would repeat if it could.
const notRepeated = "http2: Transport: cannot retry err ["

// wasReset reports whether a call failed because the other side reset it.
func wasReset(err error) bool {
	_, ok := errors.AsType[resetError](err)
	return ok || strings.HasPrefix(err.Error(), notRepeated)
}

// unheard reports whether the server promised that it did not look at a request. The transport would repeat a request also
// when the server complains about the protocol, which promises nothing.
func unheard(err error) bool {
	return strings.HasPrefix(err.Error(), notRepeated) && !strings.Contains(err.Error(), "PROTOCOL_ERROR")
}

// ofTransport returns the error for a call that the transport could not bring to an end.
func ofTransport(err error) *Error {
	code := Unavailable
	if reset, ok := errors.AsType[resetError](err); ok {
		switch reset.Code {
		case enhanceYourCalm:
			code = ResourceExhausted
		case inadequateSecurity:
			code = PermissionDenied
		default:
		}
	}
	return failure(code, "%s", err.Error())
}

// trailerError returns the status in a trailer as an error, nil for OK. It returns false for a trailer without a status.
func trailerError(trailer http.Header) (*Error, bool) {
	text := trailer.Get("Grpc-Status")
	if text == "" {
		return nil, false
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return failure(Unknown, "the server ended the call with the status %q", text), true
	}
	if Code(code) == OK {
		return nil, true
	}
	return &Error{Code: Code(code), Message: unescape(trailer.Get("Grpc-Message"))}, true
}

// escaped matches a byte of a message that is escaped.
var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape returns a message in plain text. What is no valid escape stays as it is.
func unescape(message string) string {
	return escaped.ReplaceAllStringFunc(message, func(e string) string {
		b, _ := hex.DecodeString(e[1:]) // the expression matches nothing else
		return string(b)
	})
}

// ofHTTP returns the error for a response that is not a gRPC response, such as the response of a proxy.
func ofHTTP(res *http.Response) *Error {
	code := Unknown
	switch res.StatusCode {
	case http.StatusBadRequest:
		code = Internal
	case http.StatusUnauthorized:
		code = Unauthenticated
	case http.StatusForbidden:
		code = PermissionDenied
	case http.StatusNotFound:
		code = Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		code = Unavailable
	default:
	}
	return failure(code, "the server answered with the HTTP status %d and the content type %q", res.StatusCode, res.Header.Get("Content-Type"))
}
