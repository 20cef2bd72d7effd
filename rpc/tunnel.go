package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// A tunnel is a byte stream over the NATS server, between processes that may have no other connection. Each side sends one part
// at a time, and waits until the other side has accepted it. So a slow reader slows down the writer.

const (
	// tunnelPart is the maximum size of a part in bytes.
	tunnelPart = 64 << 10
	// tunnelSilence is how long one side may send nothing before the other side checks that it still exists.
	tunnelSilence = 10 * time.Second
	// tunnelAckTimeout is how long a side may take to accept a part.
	tunnelAckTimeout = time.Minute
)

// tunnelEnd is one side of a tunnel. It sends the data that its user writes to the subject of the other side.
type tunnelEnd struct {
	conn *bus.Conn
	peer atomic.Value // of string
	// pipe is the other end of the user's connection.
	pipe net.Conn
	sub  *nats.Subscription
	ctx  context.Context //nolint:containedctx // the lifetime of the tunnel
	stop context.CancelFunc
	once sync.Once
}

// openTunnelEnd returns one side of a tunnel, which receives parts at subject, and the connection for its user.
func openTunnelEnd(c *bus.Conn, subject string) (*tunnelEnd, net.Conn, error) {
	user, pipe := net.Pipe()
	e := &tunnelEnd{conn: c, pipe: pipe}
	e.ctx, e.stop = context.WithCancel(context.Background())
	var err error
	if e.sub, err = c.NATS().Subscribe(subject, e.deliver); err != nil {
		e.close()
		return nil, nil, fault.Wrap(fault.Unavailable, err, "no connection over the NATS server can be made")
	}
	return e, user, nil
}

// deliver writes a received part to the user's connection. An empty part only checks that the tunnel exists.
func (e *tunnelEnd) deliver(m *nats.Msg) {
	if m.Header.Get(tunnelEndHeader) != "" {
		e.close()
		return
	}
	if len(m.Data) > 0 {
		if _, err := e.pipe.Write(m.Data); err != nil {
			e.close()
			return
		}
	}
	_ = m.Respond(nil) // a lost connection ends the tunnel
}

// tunnelEndHeader marks the message that ends a tunnel.
const tunnelEndHeader = "Orch-End"

// run sends what the user writes, until either side closes.
func (e *tunnelEnd) run() {
	defer e.close()
	defer e.conn.OnLoss(e.close)()
	go e.watch()
	part := make([]byte, tunnelPart)
	for {
		n, err := e.pipe.Read(part)
		if n > 0 && e.send(part[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

func (e *tunnelEnd) send(part []byte) error {
	ctx, cancel := context.WithTimeout(e.ctx, tunnelAckTimeout)
	defer cancel()
	_, err := e.conn.NATS().RequestWithContext(ctx, e.peer.Load().(string), part) //nolint:forcetypeassert // only strings are stored
	return err
}

// watch closes the tunnel if the other side has disappeared.
func (e *tunnelEnd) watch() {
	tick := time.NewTicker(tunnelSilence)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
			if errors.Is(e.send(nil), nats.ErrNoResponders) {
				e.close()
			}
		}
	}
}

func (e *tunnelEnd) close() {
	e.once.Do(func() {
		e.stop()
		_ = e.pipe.Close() // never fails
		if e.sub != nil {
			_ = e.sub.Unsubscribe() // fails only on a closed connection
		}
		if peer, ok := e.peer.Load().(string); ok {
			_ = e.conn.NATS().PublishMsg(&nats.Msg{Subject: peer, Header: nats.Header{tunnelEndHeader: {"1"}}}) // if this fails, the other side notices the silence
		}
	})
}

// DialTunnel connects to the TunnelListener at a subject. If there is none, it retries until ctx ends or failoverWithin has
// passed.
func DialTunnel(ctx context.Context, c *bus.Conn, subject string) (net.Conn, error) {
	inbox := c.NATS().NewInbox()
	e, user, err := openTunnelEnd(c, inbox)
	if err != nil {
		return nil, err
	}
	peer, err := requestWithFailover(ctx, c, subject, []byte(inbox))
	if err != nil {
		e.close()
		return nil, err
	}
	e.peer.Store(string(peer))
	go e.run()
	return user, nil
}

// TunnelListener implements net.Listener for tunnels.
type TunnelListener struct {
	conn     *bus.Conn
	sub      *nats.Subscription
	accepted chan net.Conn
	// slots has one element for each open tunnel.
	slots chan struct{}
	ctx   context.Context //nolint:containedctx // the lifetime of the listener
	stop  context.CancelFunc
}

var _ net.Listener = (*TunnelListener)(nil)

// MaxTunnels limits the open tunnels of a node. Each buffers at most one part of tunnelPart bytes in each direction.
const MaxTunnels = 2048

// ListenTunnel accepts tunnels at a subject. It answers requests for more than limit concurrent tunnels with RATE_LIMITED.
func ListenTunnel(c *bus.Conn, subject string, limit int) (*TunnelListener, error) {
	l := &TunnelListener{conn: c, accepted: make(chan net.Conn), slots: make(chan struct{}, limit)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	var err error
	if l.sub, err = c.NATS().Subscribe(subject, l.admit); err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		l.stop()
		return nil, fault.Wrap(fault.Unavailable, err, "no connections over the NATS server can be taken")
	}
	return l, nil
}

// admit starts to open a requested tunnel, or refuses it above the limit. It must not block.
func (l *TunnelListener) admit(m *nats.Msg) {
	select {
	case l.slots <- struct{}{}:
		go func() {
			defer func() { <-l.slots }()
			l.open(m)
		}()
	default:
		l.refuse(m)
	}
}

// refuse answers a request for a tunnel above the limit.
func (l *TunnelListener) refuse(m *nats.Msg) {
	f := fault.New(fault.RateLimited, "the active node has %d connections through NATS servers open", cap(l.slots)).
		WithHint("try again when some have ended, or ask the active node itself; see orch nodes")
	body, err := json.Marshal(f)
	if err != nil || !ordinaryInbox(m) {
		return
	}
	_ = m.RespondMsg(&nats.Msg{Data: body, Header: nats.Header{errorHeader: {string(f.Code)}}}) // if this fails, the caller tries again
}

// open opens this side of a requested tunnel. A node that does not hold the lease ignores the request, because the active node
// receives it too.
func (l *TunnelListener) open(m *nats.Msg) {
	if !l.conn.AwaitLease(l.ctx) || !ordinaryInbox(&nats.Msg{Reply: string(m.Data)}) {
		return
	}
	inbox := l.conn.NATS().NewInbox()
	e, user, err := openTunnelEnd(l.conn, inbox)
	if err != nil {
		return
	}
	e.peer.Store(string(m.Data))
	select {
	case l.accepted <- user:
	case <-l.ctx.Done():
		e.close()
		return
	}
	if m.Respond([]byte(inbox)) != nil {
		e.close()
		return
	}
	e.run()
}

// Accept implements net.Listener.
func (l *TunnelListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Accepted tunnels stay open.
func (l *TunnelListener) Close() error {
	l.stop()
	_ = l.sub.Unsubscribe() // fails only on a closed connection
	return nil
}

// Addr implements net.Listener.
func (l *TunnelListener) Addr() net.Addr { return tunnelAddr(bus.TunnelSubject) }

// tunnelAddr is the subject of a tunnel.
type tunnelAddr string

// Network implements net.Addr.
func (tunnelAddr) Network() string { return "nats" }

// String implements net.Addr.
func (a tunnelAddr) String() string { return string(a) }
