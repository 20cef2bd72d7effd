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
	// connectionFailed: there is no connection, so that nothing was run.
	connectionFailed = "CONNECTION_FAILED"
	// queryFailed: the database refused the statement or broke it off; it has changed nothing.
	queryFailed = "QUERY_FAILED"
	// readOnly: a statement that counts as a read wanted to write, so it was refused.
	readOnly = "READ_ONLY"
)

// unreachable says why there is no connection.
func unreachable(c connection, err error, said string) *fault.Error {
	if said == "" {
		said = networkSays(err)
	}
	return fault.Wrap(fault.DatabaseError, err, "cannot connect to "+c.name()+": "+said).
		WithReason(connectionFailed).WithField(connectionField)
}

// networkSays returns what is wrong with the network, without addresses.
func networkSays(err error) string {
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
	return "the server speaks another protocol, or refuses the way of connecting"
}

// refused says what the database has against a statement.
func refused(err error, said string) *fault.Error {
	return fault.Wrap(fault.DatabaseError, err, said).WithReason(queryFailed).WithField("query")
}

// wroteInRead says that a statement only looked like a read.
func wroteInRead(err error, said string) *fault.Error {
	return fault.Wrap(fault.DatabaseError, err, said).WithReason(readOnly).WithField("query").
		WithHint("the statement counts as a read and runs read-only; change data by a statement that says so")
}

// tookTooLong says that the server has ended the statement.
func tookTooLong(err error) *fault.Error {
	return fault.Wrap(fault.Timeout, err, "the database ended the statement because it took too long").WithField("query")
}

// broken says that the connection broke while a statement ran.
func broken(q query, err error) *fault.Error {
	if q.reads() {
		return fault.Wrap(fault.DatabaseError, err, "the connection broke: "+networkSays(err)).WithReason(connectionFailed)
	}
	return fault.Wrap(fault.InDoubt, err, "the connection broke, and it is unknown whether the statement has changed anything")
}

// discreet returns err as it may leave the tool: the end of ctx goes before what it led to, and neither
// the message nor the cause repeats the password, whatever a server or a driver says (S0-124).
func (c connection) discreet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	known := *fault.From(err)
	if c.password == "" {
		return &known
	}
	known.Message = c.without(known.Message)
	if known.Err != nil {
		known.Err = errors.New(c.without(known.Err.Error()))
	}
	return &known
}

func (c connection) without(text string) string {
	for _, form := range []string{c.password, url.QueryEscape(c.password), url.PathEscape(c.password)} {
		text = strings.ReplaceAll(text, form, "[REDACTED]")
	}
	return text
}
