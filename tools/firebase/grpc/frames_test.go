package grpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/orch-dev/orch/tools/firebase/grpc"
)

// peer is the side of a server on a connection, down to the frames.
type peer struct {
	*http2.Framer
	conn net.Conn
	over <-chan struct{} // closed at the end of the test
}

// serveFrames starts a server that gives each connection, with its number from 1, to a function, and closes it afterwards.
func serveFrames(t *testing.T, settings []http2.Setting, serve func(n int, p peer)) *grpc.Client {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				end := func() { _ = conn.Close() }
				defer end()
				defer context.AfterFunc(ctx, end)()
				p := peer{http2.NewFramer(conn, conn), conn, ctx.Done()}
				if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err == nil && p.WriteSettings(settings...) == nil {
					serve(n, p)
				}
			})
		}
	})
	t.Cleanup(func() { stop(); assert.NoError(t, l.Close()); all.Wait() })
	return client(t, l.Addr().String())
}

// request waits for a request and returns its stream, 0 at the end of the connection.
func (p peer) request() uint32 {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = p.WriteSettingsAck()
			}
		case *http2.DataFrame:
			return f.StreamID
		default:
		}
	}
}

// drain reads until the end of the connection.
func (p peer) drain() { _, _ = io.Copy(io.Discard, p.conn) }

func (p peer) headers(stream uint32, end bool, fields ...string) {
	var block bytes.Buffer
	to := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = to.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
}

func (p peer) begin(stream uint32) {
	p.headers(stream, false, ":status", "200", "content-type", "application/grpc")
}

func (p peer) say(stream uint32, text string) { _ = p.WriteData(stream, false, []byte(text)) }

func (p peer) end(stream uint32) { p.headers(stream, true, "grpc-status", "0") }

func (p peer) answer(stream uint32, text string) {
	p.begin(stream)
	p.say(stream, frame(text))
	p.end(stream)
}

// A request that a server resets is not sent again, since the server may have done what it asks for.
func TestReset(t *testing.T) {
	t.Parallel()
	for reason, code := range map[http2.ErrCode]grpc.Code{
		http2.ErrCodeProtocol: grpc.Unavailable, http2.ErrCodeInternal: grpc.Unavailable, http2.ErrCodeCancel: grpc.Unavailable, http2.ErrCodeNo: grpc.Unavailable,
		http2.ErrCodeEnhanceYourCalm: grpc.ResourceExhausted, http2.ErrCodeInadequateSecurity: grpc.PermissionDenied,
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprint(reason, " ", open), func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int32
				c := serveFrames(t, nil, func(_ int, p peer) {
					for stream := p.request(); stream != 0; stream = p.request() {
						calls.Add(1)
						_ = p.WriteRSTStream(stream, reason)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := c.One(ctx, grpc.Call{Method: method, Request: []byte("x"), Open: open})
				var e *grpc.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, code, e.Code, "%v", err)
				assert.False(t, e.Unanswered)
				assert.Equal(t, int32(1), calls.Load())
			})
		}
	}
}

// A request that a server has promised not to look at is sent once more.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(p peer, stream uint32){
		"refused": func(p peer, stream uint32) { _ = p.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
		"going":   func(p peer, _ uint32) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"gone":    func(p peer, _ uint32) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); _ = p.conn.Close() },
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", open), func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int32
				c := serveFrames(t, nil, func(_ int, p peer) {
					for stream := p.request(); stream != 0; stream = p.request() {
						if calls.Add(1) == 1 {
							refuse(p, stream)
						} else {
							p.answer(stream, "a")
						}
					}
				})
				answer, err := c.One(t.Context(), grpc.Call{Method: method, Open: open})
				require.NoError(t, err)
				assert.Equal(t, "a", string(answer))
				assert.Equal(t, int32(2), calls.Load())
			})
		}
	}
	var calls atomic.Int32
	c := serveFrames(t, nil, func(_ int, p peer) {
		for stream := p.request(); stream != 0; stream = p.request() {
			calls.Add(1)
			_ = p.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.One(ctx, grpc.Call{Method: method})
	assert.Equal(t, grpc.Unavailable, grpc.CodeOf(err), "%v", err)
	assert.Equal(t, int32(2), calls.Load())
}

// A server that goes away ends the calls that it has begun.
func TestGoAway(t *testing.T) {
	t.Parallel()
	c := serveFrames(t, nil, func(_ int, p peer) {
		stream := p.request()
		p.begin(stream)
		p.say(stream, frame("one"))
		_ = p.WriteGoAway(stream, http2.ErrCodeNo, []byte("graceful shutdown GOAWAY"))
		p.say(stream, frame("two"))
		p.end(stream)
	})
	answers, err := c.Do(t.Context(), grpc.Call{Method: method})
	require.NoError(t, err)
	defer answers.Close()
	for _, want := range []string{"one", "two"} {
		answer, err := answers.Next()
		require.NoError(t, err)
		assert.Equal(t, want, string(answer))
	}
	_, err = answers.Next()
	require.ErrorIs(t, err, io.EOF)
}

// A call ends with its connection, also before it is answered.
func TestGoneInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		var calls atomic.Int32
		c := serveFrames(t, nil, func(_ int, p peer) {
			stream := p.request()
			calls.Add(1)
			_ = p.WriteGoAway(stream, http2.ErrCodeNo, []byte("graceful shutdown GOAWAY"))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := c.One(ctx, grpc.Call{Method: method, Open: open})
		cancel()
		assert.Equal(t, grpc.Unavailable, grpc.CodeOf(err), "%v", err)
		assert.Equal(t, int32(1), calls.Load())
	}
}

// What is odd about frames becomes an error.
func TestOddFrames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		serve   func(p peer, stream uint32)
		code    grpc.Code
		message string
	}{
		"trailers only": {func(p peer, s uint32) {
			p.headers(s, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "9", "grpc-message", "a%0Ab")
		}, grpc.FailedPrecondition, "a\nb"},
		"odd escapes": {func(p peer, s uint32) {
			p.headers(s, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "9", "grpc-message", "100% caf%C3%A9 %zz%2")
		}, grpc.FailedPrecondition, "100% café %zz%2"},
		"no UTF-8": {func(p peer, s uint32) {
			p.headers(s, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "9", "grpc-message", "%ff")
		}, grpc.FailedPrecondition, "\xff"},
		"no trailer": {func(p peer, s uint32) { p.begin(s); _ = p.WriteData(s, true, []byte(frame("a"))) }, grpc.Internal, "without a status"},
		"negative status": {func(p peer, s uint32) {
			p.headers(s, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "-1")
		}, grpc.Unknown, "-1"},
		"truncated": {func(p peer, s uint32) { p.begin(s); p.say(s, "\x00\x00\x00\x00\x05ab"); p.end(s) }, grpc.Internal, "broke off"},
		"reset": {func(p peer, s uint32) {
			p.begin(s)
			p.say(s, frame("a"))
			_ = p.WriteRSTStream(s, http2.ErrCodeEnhanceYourCalm)
		}, grpc.ResourceExhausted, "ENHANCE_YOUR_CALM"},
		"data before headers":    {func(p peer, s uint32) { p.say(s, frame("a")); p.drain() }, grpc.Unavailable, "PROTOCOL_ERROR"},
		"headers without status": {func(p peer, s uint32) { p.headers(s, false, "content-type", "application/grpc"); p.drain() }, grpc.Unavailable, ""},
		"large headers": {func(p peer, s uint32) {
			p.headers(s, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "5", "x", strings.Repeat("x", 7000), "y", strings.Repeat("y", 7000))
			p.drain()
		}, grpc.NotFound, ""},
		"unknown frame": {func(p peer, s uint32) {
			_ = p.WriteRawFrame(0x77, 0xff, s, []byte("x"))
			p.begin(s)
			p.headers(s, true, "grpc-status", "5")
		}, grpc.NotFound, ""},
		"push": {func(p peer, s uint32) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: s, PromiseID: 2, EndHeaders: true})
			p.drain()
		}, grpc.Unavailable, ""},
		"large frame": {func(p peer, s uint32) {
			p.begin(s)
			_, _ = p.conn.Write([]byte("\xff\xff\xff\x00\x00\x00\x00\x00\x01"))
			p.drain()
		}, grpc.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveFrames(t, nil, func(_ int, p peer) {
				if stream := p.request(); stream != 0 {
					test.serve(p, stream)
					p.drain()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := c.One(ctx, grpc.Call{Method: method, Request: []byte("x")})
			assert.Equal(t, test.code, grpc.CodeOf(err), "%v", err)
			assert.Contains(t, grpc.MessageOf(err), test.message)
		})
	}
}

// The time of a call ends it whatever the server does or does not do.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []http2.Setting
		serve    func(p peer)
	}{
		"silent":     {nil, func(p peer) { p.request(); p.drain() }},
		"reads none": {nil, func(p peer) { <-p.over }},
		"no windows": {[]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, func(p peer) { p.drain() }},
		"no streams": {[]http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}, func(p peer) { p.drain() }},
		"half a message": {nil, func(p peer) {
			s := p.request()
			p.begin(s)
			p.say(s, "\x00\x04\x00\x00\x00abc")
			p.drain()
		}},
		"no status": {nil, func(p peer) { s := p.request(); p.begin(s); p.say(s, frame("a")); p.drain() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int32
			c := serveFrames(t, test.settings, func(_ int, p peer) { conns.Add(1); test.serve(p) })
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_, err := c.One(ctx, grpc.Call{Method: method, Request: make([]byte, 8<<20)})
				cancel()
				if lost := strings.Contains(err.Error(), "connection loss"); !lost { // the call before it has ended their connection
					assert.Equal(t, grpc.DeadlineExceeded, grpc.CodeOf(err), "%v", err)
				}
			}
			assert.Less(t, conns.Load(), int32(10))
			c.Close()
		})
	}
}

// A connection that has ended is replaced.
func TestReconnect(t *testing.T) {
	t.Parallel()
	c := serveFrames(t, nil, func(_ int, p peer) {
		p.answer(p.request(), "a")
		_ = p.WriteGoAway(1, http2.ErrCodeNo, nil)
		p.drain() // a connection that is closed at once could break a call that has not read this
	})
	for range 5 {
		_, err := c.One(t.Context(), grpc.Call{Method: method})
		require.NoError(t, err)
	}
}

// Calls begin, end and are given up while their client is closed.
func TestRaces(t *testing.T) {
	t.Parallel()
	for range 30 {
		c := serveFrames(t, nil, func(_ int, p peer) {
			for stream := p.request(); stream != 0; stream = p.request() {
				p.begin(stream)
				p.say(stream, frame("one"))
			}
		})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				answers, err := c.Do(ctx, grpc.Call{Method: method, Open: i%2 == 0})
				if err != nil {
					return
				}
				defer answers.Close()
				for err == nil {
					_, err = answers.Next()
				}
			})
		}
		time.AfterFunc(10*time.Millisecond, c.Close)
		all.Wait()
	}
}
