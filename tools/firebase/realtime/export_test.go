package realtime

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Told returns what a stream of bytes from the server tells is at the path, and how it ends; revoked is
// true when that is for the sake of the credential.
func (c *Client) Told(body io.Reader) (root *tree.Node, revoked bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	alive := time.AfterFunc(time.Hour, cancel)
	s := &stream{client: c, ctx: ctx, cancel: cancel, body: io.NopCloser(nil), idleTimer: alive, reader: newReader(body, c.cfg.MaxAnswer)}
	defer s.close()
	for err == nil {
		_, err = s.next()
	}
	return s.root, errors.Is(err, errRevoked), err
}

// Trusts reports whether a redirect may lead to a URL.
func (c *Client) Trusts(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && c.trusts(u)
}
