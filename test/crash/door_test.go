package crash_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// door is a proxy with a fixed address in front of the HTTP server of the current node.
type door struct {
	listener net.Listener
	group    sync.WaitGroup

	mu sync.Mutex
	// behind is the address of the node; "" while there is none.
	behind string
	open   map[net.Conn]bool
	shut   bool
}

func openDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{listener: l, open: map[net.Conn]bool{}}
	d.group.Go(d.accept)
	t.Cleanup(d.close)
	return d
}

// url is the address.
func (d *door) url() string { return "http://" + d.listener.Addr().String() }

// lead leads to another node from now on.
func (d *door) lead(behind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.behind = behind
}

// cut ends all connections, in the midst of whatever they carry.
func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.open {
		_ = c.Close() // both sides see it
	}
}

func (d *door) close() {
	_ = d.listener.Close() // nobody comes any more
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
	d.cut()
	d.group.Wait()
}

func (d *door) accept() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.group.Go(func() { d.carry(c) })
	}
}

// carry connects a client with the node.
func (d *door) carry(c net.Conn) {
	d.mu.Lock()
	behind := d.behind
	d.mu.Unlock()
	defer c.Close() //nolint:errcheck // it may be closed already
	n, err := net.Dial("tcp", behind)
	if err != nil || !d.register(c, n) {
		return
	}
	defer d.forget(c, n)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, n) // how a connection ends does not matter
		_ = c.Close()
	})
	_, _ = io.Copy(n, c)
	_ = n.Close()
	back.Wait()
}

// register registers connections; it returns false when the door is closed.
func (d *door) register(c, n net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		_ = n.Close() // nobody uses it
		return false
	}
	d.open[c], d.open[n] = true, true
	return true
}

func (d *door) forget(c, n net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
	delete(d.open, n)
}
