package grpc

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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

// ended returns the status in a trailer as an error, nil for OK. It returns false for a trailer without a status.
func ended(trailer http.Header) (*Error, bool) {
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
	message := trailer.Get("Grpc-Message")
	if plain, err := url.PathUnescape(message); err == nil {
		message = plain
	}
	return &Error{Code: Code(code), Message: message}, true
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
