package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks over a pair of streams, one message a line, until in ends or ctx does (S2-007).
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	to := &oneByOne{WriteCloser: out}
	t := &lines{s: s, inner: &mcp.IOTransport{Reader: &sieve{Closer: in, in: bufio.NewReader(in), out: to}, Writer: to}}
	session, err := s.sdk.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = session.Close()
		err = <-ended
	}
	return err
}

// lines is the stdio transport. It notes what the SDK drops when it decodes a request.
type lines struct {
	s     *Server
	inner mcp.Transport
}

// Connect implements mcp.Transport.
func (l *lines) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := l.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l.s.streams.open("", &line{c})
	return &noting{Connection: c, s: l.s}, nil
}

// line sends notifications that the SDK does not know over stdio.
type line struct{ to mcp.Connection }

// send implements sink.
func (l *line) send(message json.RawMessage) error {
	m, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return err
	}
	return l.to.Write(context.Background(), m)
}

// noting is a connection that notes on each request what the rest of the server has to know.
type noting struct {
	mcp.Connection
	s *Server
}

// Write implements mcp.Connection. An error that the SDK gives no code is one of the order of requests.
func (n *noting) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok && r.Error != nil {
		var wire *jsonrpc.Error
		if !asWire(r.Error, &wire) {
			r.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.Error.Error()}
		}
	}
	return n.Connection.Write(ctx, m)
}

// Read implements mcp.Connection.
func (n *noting) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := n.Connection.Read(ctx)
	req, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	var p peek
	decode(req.Params, &p.Params)
	if req.Method == "notifications/cancelled" {
		n.s.asked.of("").withdraw(string(p.Params.RequestID))
	}
	header := http.Header{}
	header.Set(noteID, string(mustJSON(req.ID.Raw())))
	if len(p.Params.Task) > 0 && string(p.Params.Task) != "null" {
		header.Set(noteTask, string(p.Params.Task))
	}
	req.Extra = &mcp.RequestExtra{Header: header}
	return m, nil
}
