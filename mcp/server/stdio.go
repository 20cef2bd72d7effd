package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxLine is the most bytes of one message over stdio; a longer one is refused and skipped.
const MaxLine = 16 << 20

// Serve serves one client over a pair of streams, with one message per line, until in or ctx ends (S2-007).
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	session, err := s.forClient().Connect(ctx, &stdioTransport{s, in, out}, nil)
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

// stdioTransport is the stdio transport. It replaces the SDK's transport, which ends at the first invalid line and drops fields
// of requests that the server needs.
type stdioTransport struct {
	s   *Server
	in  io.ReadCloser
	out io.WriteCloser
}

// Connect implements mcp.Transport.
func (l *stdioTransport) Connect(context.Context) (mcp.Connection, error) {
	c := &stdioConn{stdioTransport: l, came: make(chan line), closed: make(chan struct{})}
	go c.listen()
	c.endStream = l.s.clients.streams.open("", c)
	return c, nil
}

// line is a line that was read, or the error of reading it. long is set if the line is longer than MaxLine; data is then its beginning,
// and tail its end.
type line struct {
	data, tail []byte
	long       bool
	err        error
}

// stdioConn is a connection with one message per line.
type stdioConn struct {
	*stdioTransport

	came    chan line
	closed  chan struct{}
	closing sync.Once
	// endStream ends the standing stream.
	endStream func()
	// writing is locked while a message is written.
	writing sync.Mutex
	// calling contains a function to call after the answer, for each unanswered call by id.
	calling sync.Map
	// listing contains a pendingList for each unanswered tools/list by id.
	listing sync.Map
}

// pendingList is a tools/list that is being answered. The encoded tools are inserted into the answer after the SDK has encoded it.
type pendingList struct {
	*reservation

	detach func()
}

// SessionID implements mcp.Connection.
func (*stdioConn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *stdioConn) Close() (err error) {
	c.closing.Do(func() {
		close(c.closed)
		c.endStream()
		err = errors.Join(c.in.Close(), c.out.Close())
	})
	return err
}

// listen reads lines until the first error. Only closing the input interrupts a read.
func (c *stdioConn) listen() {
	for r := bufio.NewReader(c.in); ; {
		l := readLine(r)
		select {
		case c.came <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads a line. It discards the data of a line longer than MaxLine, up to its beginning and its end.
func readLine(r *bufio.Reader) (l line) {
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case l.long:
			l.tail = append(l.tail, part...)
			l.tail = l.tail[max(len(l.tail)-maxEdge, 0):]
		case len(l.data)+len(part) > MaxLine:
			l = line{data: bytes.Clone(l.data[:min(len(l.data), maxEdge)]), tail: bytes.Clone(part), long: true}
		default:
			l.data = append(l.data, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(l.data) == 0 && !l.long {
			l.err = err // otherwise the next call returns the error
		}
		return l
	}
}

// Read implements mcp.Connection. It answers an invalid message with an error and continues with the next message (S2-009).
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, io.EOF
		case l := <-c.came:
			if l.err != nil {
				return nil, l.err
			}
			if m, err := c.decodeLine(l); m != nil || err != nil {
				return m, err
			}
		}
	}
}

// decodeLine returns the message of a line. It returns nil for an empty line, and for a message that it has handled itself.
func (c *stdioConn) decodeLine(l line) (jsonrpc.Message, error) {
	if !l.long && len(bytes.TrimSpace(l.data)) == 0 {
		return nil, nil //nolint:nilnil // the line is empty
	}
	if l.long {
		return nil, c.refuseLong(l)
	}
	p, wrong := parseEnvelope(l.data)
	if wrong != nil {
		return nil, c.send(refusal(p.ID, wrong))
	}
	if c.handleReply(p) {
		return nil, nil //nolint:nilnil // the message is handled and the SDK must not see it
	}
	m, err := jsonrpc.DecodeMessage(l.data)
	if err != nil {
		return nil, c.send(refusal(p.ID, notOneMessage()))
	}
	if req, ok := m.(*jsonrpc.Request); ok {
		c.annotate(req, p)
	}
	return m, nil
}

// handleReply reports whether a message answers a question of the server, and handles it in a goroutine, so that the next
// message does not wait.
func (c *stdioConn) handleReply(p envelope) bool {
	if p.Method != nil || !bytes.HasPrefix(p.ID, []byte(`"`+questionPrefix)) {
		return false
	}
	c.s.background(func(ctx context.Context) { c.s.relays.handleReply(ctx, c.s.cfg.Local, "", p) })
	return true
}

// annotate records on a request the fields that the SDK drops when it decodes the request.
func (c *stdioConn) annotate(req *jsonrpc.Request, p envelope) {
	if req.Method == "notifications/cancelled" {
		c.s.clients.sessions.get("").recordCancelled(string(p.Params.RequestID))
	}
	header := http.Header{}
	header.Set(noteID, string(p.ID))
	if len(p.Params.Task) > 0 && string(p.Params.Task) != "null" {
		header.Set(noteTask, string(p.Params.Task))
	}
	req.Extra = &mcp.RequestExtra{Header: header}
	if req.Method == "tools/list" && len(p.ID) > 0 {
		c.insertTools(req.ID.Raw(), header)
	}
	if req.Method == "tools/call" && len(p.ID) > 0 {
		c.calling.Store(req.ID.Raw(), c.s.clients.replies.register("", string(p.ID)))
	}
}

// Write implements mcp.Connection. It gives SDK errors without a code the code of an invalid request: they report requests in
// the wrong order.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	var list *reservation
	if r, ok := m.(*jsonrpc.Response); ok {
		list = c.listAnswered(r.ID.Raw())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Response); ok && r.Error != nil {
		var wire *jsonrpc.Error
		if !asWire(r.Error, &wire) {
			r.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.Error.Error()}
		}
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		defer c.callAnswered(r.ID.Raw())
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.send(list.inline(data))
}

// insertTools prepares a tools/list with the given header for listAnswered.
func (c *stdioConn) insertTools(id any, header http.Header) {
	if _, used := c.listing.Load(id); used { // for another request that is not answered yet
		return
	}
	res := c.s.memory.newReservation("")
	res.unlimited = true
	c.listing.Store(id, pendingList{res, c.s.memory.attach(header, res)})
}

// listAnswered returns the reservation with the parts of an answered tools/list, nil for any other request.
func (c *stdioConn) listAnswered(id any) *reservation {
	pending, ok := c.listing.LoadAndDelete(id)
	if !ok {
		return nil
	}
	list := pending.(pendingList) //nolint:forcetypeassert // insertTools stores nothing else
	list.detach()
	return list.reservation
}

// callAnswered runs the function registered for an answered call.
func (c *stdioConn) callAnswered(id any) {
	if end, ok := c.calling.LoadAndDelete(id); ok {
		end.(func())() //nolint:forcetypeassert // annotate stores nothing else
	}
}

// send implements sink.
func (c *stdioConn) send(parts ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(bytes.Join(parts, nil), '\n')) // this process has only one client
	return err
}
