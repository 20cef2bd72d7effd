// Package grpc is a client of the protocol gRPC over the HTTP/2 of the standard library. A call has one request and any
// number of answers. Messages are bytes to it, and it compresses none.
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
	// MaxMessage is the greatest size of an answer in bytes.
	MaxMessage = 64 << 20
	// maxHeader is how many bytes of headers an answer may have.
	maxHeader = 64 << 10
	// handshakeTime bounds the handshake of TLS, idleTime the time that a connection without calls is kept.
	handshakeTime = 15 * time.Second
	idleTime      = 5 * time.Minute
	// longestTimeout is the longest time that the header of the protocol holds in milliseconds.
	longestTimeout = 99_999_999
	// prefix is how many bytes stand before a message: whether it is compressed, and its size.
	prefix = 5
)

var errClosed = errors.New("the client was closed")

// Config is the configuration of a client.
type Config struct {
	// Target is the host:port of the server.
	Target string
	// TLS is how the connection is secured; nil means that it is not.
	TLS *tls.Config
	// Dial makes a connection.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Authorize returns the header Authorization of a call. An *Error ends the call as if it came from the server.
	Authorize func(ctx context.Context) (string, error)
	// Agent is the name of the client.
	Agent string
}

// Client calls a server. It is safe for concurrent use, and connects when it has something to send.
type Client struct {
	cfg       Config
	transport *http.Transport

	mu     sync.Mutex // guards what follows
	closed bool
	calls  map[*Answers]struct{}
	conns  map[*connection]struct{}
}

// New returns a client. It sends nothing.
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

// Close ends all calls, with Canceled, and the connections.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	calls, conns := slices.Collect(maps.Keys(c.calls)), slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	for _, call := range calls {
		call.cancel(errClosed)
	}
	for _, conn := range conns {
		_ = conn.Close() // nothing is lost that was promised
	}
	c.transport.CloseIdleConnections()
}

// connection is a connection that ends with its client.
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

// Call is what is sent.
type Call struct {
	// Method is the name of the method with that of its service: "google.firestore.v1.Firestore/Commit".
	Method string
	// Header are headers of the call.
	Header map[string]string
	// Request is the request. With Open the client may have more to say, and the server goes on answering.
	Request []byte
	Open    bool
}

// Do makes a call and returns when its answer begins, or the call fails. Errors are *Error. The caller closes the answers.
func (c *Client) Do(ctx context.Context, call Call) (*Answers, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &Answers{client: c, cancel: cancel, cause: func() error { return context.Cause(ctx) }}
	if err := a.begin(ctx, call); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// One makes a call that has one answer. Errors are *Error.
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
	req, err := a.client.request(ctx, call)
	if err != nil {
		return a.failed(err)
	}
	if a.res, err = a.client.transport.RoundTrip(req); err != nil { //nolint:bodyclose // Close closes it
		e := a.failed(err)
		e.Unanswered = true
		return e
	}
	if e, ok := ended(a.res.Header); ok && e != nil { // a failure may come without a trailer
		return e
	}
	if a.res.StatusCode != http.StatusOK || !strings.HasPrefix(a.res.Header.Get("Content-Type"), "application/grpc") {
		return ofHTTP(a.res)
	}
	return nil
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
	binary.BigEndian.PutUint32(message[1:], uint32(len(call.Request))) //nolint:gosec // the caller makes no message of 4 GiB
	message = append(message, call.Request...)
	var body io.Reader = bytes.NewReader(message)
	if call.Open {
		body = io.MultiReader(body, untilEnd(ctx.Done()))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+c.cfg.Target+"/"+call.Method, body)
	if err != nil {
		return nil, err
	}
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

// untilEnd is a body without bytes that ends with a call.
type untilEnd <-chan struct{}

// Read implements io.Reader.
func (u untilEnd) Read([]byte) (int, error) {
	<-u
	return 0, io.EOF
}

// Next returns the next answer. Errors: io.EOF after the last one, else *Error.
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

// end returns what the trailer says, which is there after the last byte.
func (a *Answers) end() error {
	for _, trailer := range []http.Header{a.res.Trailer, a.res.Header} {
		if e, ok := ended(trailer); ok && e != nil {
			return e
		} else if ok {
			return io.EOF
		}
	}
	return failure(Internal, "the server ended the call without a status")
}

// failed returns the error of a call that broke off.
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
		return failure(Unavailable, "%s", err.Error())
	}
}

// Close ends the call.
func (a *Answers) Close() {
	a.cancel(nil)
	if a.res != nil {
		_ = a.res.Body.Close() // it was read as far as wanted
	}
	a.client.mu.Lock()
	delete(a.client.calls, a)
	a.client.mu.Unlock()
}
