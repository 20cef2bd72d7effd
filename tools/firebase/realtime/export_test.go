package realtime

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/orch-dev/orch/tools/firebase/tree"
)

// ReadStream returns the data at the path after a stream from the server, and the error that ends it. revoked is true
// when the server revoked the credential.
func (c *Client) ReadStream(body io.Reader) (root *tree.Node, revoked bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	alive := time.AfterFunc(time.Hour, cancel)
	s := &stream{client: c, ctx: ctx, cancel: cancel, body: io.NopCloser(nil), idleTimer: alive, reader: newReader(body, c.cfg.MaxAnswer)}
	defer s.close()
	for err == nil {
		_, err = s.next()
	}
	return s.root, errors.Is(err, errRevoked), err
}

// Trusts reports whether a redirect to a URL may be followed.
func (c *Client) Trusts(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && c.trusts(u)
}
