package db

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// The reasons of DATABASE_ERROR.
const (
	// connectionFailed: the connection failed, so nothing ran.
	connectionFailed = "CONNECTION_FAILED"
	// queryFailed: the database rejected or aborted the statement, which has changed nothing.
	queryFailed = "QUERY_FAILED"
	// readOnly: a statement that was classified as a read tried to write, so it was rejected.
	readOnly = "READ_ONLY"
)

// connectError returns DATABASE_ERROR for a connection that failed. message is the reason from the server, if any.
func connectError(c connection, err error, message string) *fault.Error {
	if message == "" {
		message = networkMessage(err)
	}
	return fault.Wrap(fault.DatabaseError, err, "cannot connect to "+c.name()+": "+message).
		WithReason(connectionFailed).WithField(connectionField)
}

// networkMessage returns the reason of a network error, without addresses.
func networkMessage(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return dns.Err
	case errors.As(err, &op):
		return op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "the server uses a different protocol, or rejects this kind of connection"
}

// queryError returns DATABASE_ERROR for a statement that the database rejected.
func queryError(err error, message string) *fault.Error {
	return fault.Wrap(fault.DatabaseError, err, message).WithReason(queryFailed).WithField("query")
}

// readOnlyError returns DATABASE_ERROR for a write by a statement that was classified as a read.
func readOnlyError(err error, message string) *fault.Error {
	return fault.Wrap(fault.DatabaseError, err, message).WithReason(readOnly).WithField("query").
		WithHint("the statement counts as a read and runs read-only; use a data-changing statement to write")
}

// timeoutError returns TIMEOUT for a statement that the server stopped.
func timeoutError(err error) *fault.Error {
	return fault.Wrap(fault.Timeout, err, "the database ended the statement because it took too long").WithField("query")
}

// brokenConnection returns the error of a connection that broke during a statement: IN_DOUBT if it may have changed
// data.
func brokenConnection(q query, err error) *fault.Error {
	if q.reads() {
		return fault.Wrap(fault.DatabaseError, err, "the connection broke: "+networkMessage(err)).WithReason(connectionFailed)
	}
	return fault.Wrap(fault.InDoubt, err, "the connection broke, and it is unknown whether the statement has changed anything")
}

// sanitize returns the error that the tool reports. When ctx has ended, that is the cause of ctx, because err is only a
// consequence. Neither the message nor the cause contains the password, whatever a server or a driver returned
// (S0-124).
func (c connection) sanitize(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sanitized := *fault.From(err)
	if c.password == "" {
		return &sanitized
	}
	sanitized.Message = c.redact(sanitized.Message)
	if sanitized.Err != nil {
		sanitized.Err = errors.New(c.redact(sanitized.Err.Error()))
	}
	return &sanitized
}

func (c connection) redact(text string) string {
	for _, form := range []string{c.password, url.QueryEscape(c.password), url.PathEscape(c.password)} {
		text = strings.ReplaceAll(text, form, "[REDACTED]")
	}
	return text
}
