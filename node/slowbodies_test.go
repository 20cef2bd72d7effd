package node_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/node"
)

// Connections whose bodies never arrive are closed on every path, with a valid token or not.
func TestSlowBodiesAreClosed(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Faces.HTTPLimits = httplimit.Limits{Body: 200 * time.Millisecond} })
	at, err := url.Parse(e.RPCURL())
	require.NoError(t, err)
	var group sync.WaitGroup
	for _, path := range []string{"/mcp", "/rpc", "/agents/tasks", "/agents/status", "/nowhere"} {
		for _, token := range []string{e.token, "wrong"} {
			for range 20 {
				group.Go(func() { assert.NoError(t, slowBody(at.Host, path, token), "%s %s", path, token) })
			}
		}
	}
	group.Wait()
}

// slowBody sends a part of a body, and waits for the end of the connection.
func slowBody(host, path, token string) error {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", path, host, token); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
