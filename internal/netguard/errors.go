package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/orch-dev/orch/fault"
)

// forbidden returns the error for an endpoint with an address that is not public.
func forbidden(err error, endpoint string) *fault.Error {
	return fault.Wrap(fault.Forbidden, err, endpoint+" is not a public address").WithReason("ADDRESS_NOT_PUBLIC").
		WithHint("only public addresses and those in the setting net_allow of the node are allowed")
}

// failed returns the coded error for a request without a response. It drops the URL that errors of package http
// contain.
func failed(ctx context.Context, err error, endpoint string) *fault.Error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var timeout net.Error
	switch {
	case errors.Is(err, errNotPublic):
		return forbidden(err, endpoint)
	case errors.Is(ctx.Err(), context.Canceled):
		return fault.Wrap(fault.Cancelled, err, "the request was cancelled")
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return fault.Wrap(fault.Timeout, err, endpoint+" did not answer in time")
	}
	return fault.Wrap(fault.NetworkError, err, endpoint+" "+cause(err)).WithReason("CONNECTION_ERROR")
}

// cause describes a connection error without details of the request.
func cause(err error) string {
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "has a name that nobody knows"
	case errors.As(err, &dns):
		return "has a name that cannot be resolved now"
	case errors.As(err, &certificate):
		return "has no certificate that can be trusted"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "cannot be reached"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "closed the connection too early"
	default:
		return "broke the rules of HTTP"
	}
}
