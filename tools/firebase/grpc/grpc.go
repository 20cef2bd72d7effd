// Package grpc is a client of the gRPC protocol that uses HTTP/2 of the standard library. A call has one request and any
// number of answers. The caller encodes and decodes messages; they are not compressed.
package grpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxMessage is the maximum size of an answer in bytes.
	MaxMessage = 64 << 20
	// maxHeader is the maximum size of the headers of a response in bytes.
	maxHeader = 64 << 10
	// handshakeTime is the time limit of the TLS handshake. A connection without calls is closed after idleTime.
	handshakeTime = 15 * time.Second
	idleTime      = 5 * time.Minute
	// longestTimeout is the maximum in the header Grpc-Timeout, in milliseconds: the protocol permits 8 digits.
	longestTimeout = 99_999_999
	// prefix is the number of bytes before a message: a flag for compression, and the size of the message.
	prefix = 5
)

var errClosed = errors.New("the client was closed")

// Config is the configuration of a client.
type Config struct {
	// Target is the host:port of the server.
	Target string
	// TLS configures TLS; nil means that the connection is not encrypted.
	TLS *tls.Config
	// Dial opens a connection to an address.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Authorize returns the value of the header Authorization of a call. If it returns an *Error, the call fails with
	// that error, as if it came from the server.
	Authorize func(ctx context.Context) (string, error)
	// Agent is the value of the header User-Agent.
	Agent string
}

// Client makes calls to a server. It is safe for concurrent use, and connects at the first call.
type Client struct {
	cfg       Config
	transport *http.Transport

	mu     sync.Mutex // guards the following fields
	closed bool
	calls  map[*Answers]struct{}
	conns  map[*connection]struct{}
}

// New returns a client. It opens no connection.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg, calls: map[*Answers]struct{}{}, conns: map[*connection]struct{}{}}
	c.transport = &http.Transport{
		DialContext: c.dial, TLSClientConfig: cfg.TLS, Protocols: new(http.Protocols), DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, TLSHandshakeTimeout: handshakeTime, IdleConnTimeout: idleTime,
	}
	c.transport.Protocols.SetHTTP2(cfg.TLS != nil)
	c.transport.Protocols.SetUnencryptedHTTP2(cfg.TLS == nil)
	return c
}

// Close closes all connections. Running calls fail with Canceled.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	calls, conns := slices.Collect(maps.Keys(c.calls)), slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, call := range calls {
		call.cancel(errClosed)
	}
	for _, conn := range conns {
		_ = conn.Close() // all calls have failed already
	}
	c.transport.CloseIdleConnections()
}

// connection is a connection that its client closes.
type connection struct {
	net.Conn
	client *Client
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.client.mu.Lock()
	delete(c.client.conns, c)
	c.client.mu.Unlock()
	return c.Conn.Close()
}

func (c *Client) dial(ctx context.Context, _, address string) (net.Conn, error) {
	plain, err := c.cfg.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = plain.Close() // nothing was sent
		return nil, errClosed
	}
	conn := &connection{Conn: plain, client: c}
	c.conns[conn] = struct{}{}
	return conn, nil
}

// Call describes a call.
type Call struct {
	// Method is the full name of the method, such as "google.firestore.v1.Firestore/Commit".
	Method string
	// Header contains additional headers of the call.
	Header map[string]string
	// Request is the encoded request. If Open is set, the client does not end the request until the call ends, so that
	// the server continues to send answers.
	Request []byte
	Open    bool
}

// Do makes a call. It returns when the response begins or the call fails. Errors are of type *Error. The caller must close
// the answers.
func (c *Client) Do(ctx context.Context, call Call) (*Answers, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &Answers{client: c, cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	if err := a.begin(ctx, call); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// One makes a call and returns its only answer. Errors are of type *Error.
func (c *Client) One(ctx context.Context, call Call) ([]byte, error) {
	answers, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	defer answers.Close()
	answer, err := answers.Next()
	if errors.Is(err, io.EOF) {
		return nil, failure(Internal, "the server answered nothing")
	}
	if err != nil {
		return nil, err
	}
	switch _, err := answers.Next(); {
	case errors.Is(err, io.EOF):
		return answer, nil
	case err != nil:
		return nil, err
	default:
		return nil, failure(Internal, "the server answered more than once")
	}
}

// Answers are the answers to a call. They are not safe for concurrent use.
type Answers struct {
	client *Client
	cancel context.CancelCauseFunc
	cause  func() error
	res    *http.Response
	// keep stops that the end of the call closes the body, and reports whether the body is still open.
	keep func() bool
}

func (a *Answers) begin(ctx context.Context, call Call) error {
	a.client.mu.Lock()
	closed := a.client.closed
	if !closed {
		a.client.calls[a] = struct{}{}
	}
	a.client.mu.Unlock()
	if closed {
		return failure(Canceled, "%s", errClosed.Error())
	}
	res, answered, err := a.client.send(ctx, call)
	if err != nil {
		e := a.failed(err)
		e.Unanswered = e.Unanswered || !answered
		return e
	}
	a.res = res
	// The transport does not see the end of a call while it waits to send the rest of the request.
	a.keep = context.AfterFunc(ctx, func() { _ = res.Body.Close() })
	if e, ok := trailerError(a.res.Header); ok && e != nil { // the status of a failed call may be in the headers
		return e
	}
	if a.res.StatusCode != http.StatusOK || !strings.HasPrefix(a.res.Header.Get("Content-Type"), "application/grpc") {
		return ofHTTP(a.res)
	}
	return nil
}

// send sends the request of a call, and once more if the server did not look at it. It reports whether a server answered.
func (c *Client) send(ctx context.Context, call Call) (res *http.Response, answered bool, err error) {
	for again := false; ; again = true {
		req, err := c.request(ctx, call)
		if err != nil {
			return nil, true, err
		}
		res, err := c.transport.RoundTrip(req)
		if err == nil || again || !unheard(err) {
			return res, err == nil || wasReset(err), err
		}
	}
}

// request returns the HTTP request of a call.
func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	authorization, err := c.cfg.Authorize(ctx)
	if err != nil {
		return nil, err
	}
	scheme := "http"
	if c.cfg.TLS != nil {
		scheme = "https"
	}
	message := make([]byte, prefix, prefix+len(call.Request))
	binary.BigEndian.PutUint32(message[1:], uint32(len(call.Request))) //nolint:gosec // requests are smaller than 4 GiB
	message = append(message, call.Request...)
	var body io.Reader = bytes.NewReader(message)
	if call.Open {
		open, end := context.WithCancel(ctx)
		body = openBody{io.MultiReader(body, untilEnd(open.Done())), end}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+c.cfg.Target+"/"+call.Method, body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // else the transport repeats what the server may have done
	for name, value := range call.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("User-Agent", c.cfg.Agent)
	if deadline, ok := ctx.Deadline(); ok {
		left := max(1, min(time.Until(deadline).Milliseconds(), longestTimeout))
		req.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", left))
	}
	return req, nil
}

// openBody is the body of an open call. It ends with the call, or when the transport closes it, which waits for that.
type openBody struct {
	io.Reader
	end context.CancelFunc
}

// Close implements io.Closer.
func (b openBody) Close() error {
	b.end()
	return nil
}

// untilEnd is an empty body that ends with a context.
type untilEnd <-chan struct{}

// Read implements io.Reader.
func (u untilEnd) Read([]byte) (int, error) {
	<-u
	return 0, io.EOF
}

// Next returns the next answer. Errors: io.EOF after the last answer, otherwise an *Error.
func (a *Answers) Next() ([]byte, error) {
	var head [prefix]byte
	if _, err := io.ReadFull(a.res.Body, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, a.end()
		}
		return nil, a.failed(err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 {
		return nil, failure(Internal, "the server sent a compressed message")
	}
	if size > MaxMessage {
		return nil, failure(ResourceExhausted, "the server sent a message of %d bytes, at most %d are read", size, MaxMessage)
	}
	var message bytes.Buffer
	if _, err := io.CopyN(&message, a.res.Body, int64(size)); err != nil {
		return nil, a.failed(err)
	}
	return message.Bytes(), nil
}

// end returns the status of the call after the last answer: io.EOF for OK, otherwise an *Error.
func (a *Answers) end() error {
	for _, trailer := range []http.Header{a.res.Trailer, a.res.Header} {
		if e, ok := trailerError(trailer); ok && e != nil {
			return e
		} else if ok {
			return io.EOF
		}
	}
	return failure(Internal, "the server ended the call without a status")
}

// failed returns the error of a call that has failed with err.
func (a *Answers) failed(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch cause := a.cause(); {
	case errors.Is(cause, context.DeadlineExceeded):
		return failure(DeadlineExceeded, "the time of the call is over")
	case cause != nil:
		return failure(Canceled, "%s", cause.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure(Internal, "the server broke off an answer")
	default:
		return ofTransport(err)
	}
}

// Close ends the call, even if there are more answers.
func (a *Answers) Close() {
	open := a.res != nil && a.keep()
	a.cancel(nil)
	if open {
		_ = a.res.Body.Close() // the answers that are not read yet are not needed
	}
	a.client.mu.Lock()
	delete(a.client.calls, a)
	a.client.mu.Unlock()
}
