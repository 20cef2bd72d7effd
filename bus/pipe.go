package bus

import (
	"net"
	"sync"
	"time"
)

// pipeBuffer is how many bytes wait in a bufferedPipe before a write waits too.
const pipeBuffer = 64 << 10

// lastWrites is how long the end of a bufferedPipe may take: until the server has read what was written before.
const lastWrites = time.Second

// bufferedPipe is the client's end of a pipe to the server. Its writes return at once as long as the buffer has room. A write to
// a pipe without a buffer returns when the server has handled what it carries, and all who publish on the connection wait meanwhile.
type bufferedPipe struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // signals a change of the fields below
	waiting []byte    // written, and not yet on its way
	sending bool      // bytes are on their way
	closed  bool
	err     error // of the pipe
}

func newBufferedPipe(pipe net.Conn) *bufferedPipe {
	p := &bufferedPipe{Conn: pipe}
	p.changed.L = &p.mu
	go p.send()
	return p
}

// Write implements net.Conn.
func (p *bufferedPipe) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > pipeBuffer && p.err == nil && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.err != nil:
		return 0, p.err
	case p.closed:
		return 0, net.ErrClosed
	}
	p.waiting = append(p.waiting, data...)
	p.changed.Broadcast()
	return len(data), nil
}

// send sends what is written until the connection is closed.
func (p *bufferedPipe) send() {
	var data []byte
	for {
		if data = p.next(data[:0]); len(data) == 0 {
			return
		}
		if _, err := p.Conn.Write(data); err != nil {
			p.fail(err)
			return
		}
	}
}

// next returns what to send next; nothing if the connection is closed. It reuses the memory of what was sent before.
func (p *bufferedPipe) next(sent []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = false
	p.changed.Broadcast()
	for len(p.waiting) == 0 && !p.closed {
		p.changed.Wait()
	}
	data := p.waiting
	p.waiting, p.sending = sent, len(data) > 0
	return data
}

func (p *bufferedPipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.changed.Broadcast()
}

// Close implements net.Conn. Everything that was written before is sent, for at most lastWrites.
func (p *bufferedPipe) Close() error {
	_ = p.Conn.SetWriteDeadline(time.Now().Add(lastWrites)) // pipes have deadlines
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	for (p.sending || len(p.waiting) > 0) && p.err == nil {
		p.changed.Wait()
	}
	p.mu.Unlock()
	return p.Conn.Close()
}

// SetDeadline implements net.Conn. Only reads have deadlines: the server is in this process.
func (p *bufferedPipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn. It has no effect.
func (p *bufferedPipe) SetWriteDeadline(time.Time) error { return nil }
