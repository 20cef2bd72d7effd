package realtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// errRevoked says that the credential of a stream is no longer good.
var errRevoked = errors.New("the credential was revoked")

// stream is one connection that tells what is at a path, and every change of it.
type stream struct {
	client *Client
	ctx    context.Context //nolint:containedctx // it is the life of the connection
	cancel context.CancelFunc
	body   io.Closer
	reader *reader
	alive  *time.Timer // ends the connection when it is silent for too long
	root   *tree.Node  // what is at the path
}

// connect opens a stream and waits for what is at the path.
func (c *Client) connect(ctx context.Context, at tree.Path) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{client: c, ctx: ctx, cancel: cancel, body: io.NopCloser(nil), alive: time.AfterFunc(c.cfg.Call, cancel)}
	err := s.open(at)
	if err == nil {
		err = s.first()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stream) open(at tree.Path) error {
	r := request{method: http.MethodGet, path: at, header: http.Header{
		"Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "Cache-Control": {"no-cache"},
	}}
	limit := s.client.cfg.MaxAnswer
	res, err := through(s.ctx, s.client, r, s.client.net.Stream, func(res *netguard.Stream) *redirection {
		to := redirected(res.Status, res.Header, res.URL)
		if to != nil {
			res.Body.Close()
		}
		return to
	})
	if err != nil {
		return err
	}
	s.body = res.Body
	if res.Status >= 300 {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 16<<10)) // what is there of it is enough
		return s.client.refused(r, res.Status, said)
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return noDatabase(netguard.Endpoint(res.URL))
	}
	s.reader = newReader(res.Body, limit)
	return nil
}

// close ends the connection.
func (s *stream) close() {
	s.alive.Stop()
	s.cancel()
	s.body.Close()
}

// first waits for the event that tells what is at the path.
func (s *stream) first() error {
	for {
		told, err := s.next()
		if told || err != nil {
			return err
		}
	}
}

// next takes one event and brings root up to date. It reports whether the event was about that. Errors:
// errRevoked; QUOTA_EXCEEDED with errTooLarge; PERMISSION_DENIED when the rules end the stream;
// CONNECTION_ERROR when it broke.
func (s *stream) next() (told bool, err error) {
	m, err := s.reader.next()
	switch {
	case errors.Is(err, errTooLarge):
		return false, tooLarge(s.client.cfg.MaxAnswer)
	case errors.Is(err, io.EOF):
		return false, refusal.New(refusal.ConnectionError, "the stream ended")
	case s.ctx.Err() != nil:
		return false, refusal.New(refusal.ConnectionError, "the stream was silent for too long")
	case err != nil:
		return false, s.client.failed(s.ctx, err)
	}
	s.alive.Reset(s.client.cfg.Idle)
	switch m.name {
	case "put", "patch":
		return true, s.apply(m)
	case "cancel":
		return false, refusal.New(refusal.PermissionDenied, "the database ended the watch: its rules no longer let it be read")
	case "auth_revoked":
		return false, fmt.Errorf("%w: %s", errRevoked, s.client.plain(string(m.data)))
	default: // keep-alive, and what later versions of the protocol may add
		return false, nil
	}
}

// apply makes the change of root that an event tells.
func (s *stream) apply(m message) error {
	var c change
	err := json.Unmarshal(m.data, &c)
	root := s.root
	switch {
	case err != nil:
	case m.name == "put":
		root, err = root.Told(c.keys(), c.Data)
	default:
		children, ok := c.Data.(map[string]any)
		if err = errors.New("a patch holds an object"); ok {
			root, err = root.ToldUpdate(c.keys(), children)
		}
	}
	if err != nil {
		return refusal.New(refusal.ConnectionError, "the stream holds an event that is none: %s", m.name)
	}
	if int64(root.Size()) > s.client.cfg.MaxAnswer {
		return tooLarge(s.client.cfg.MaxAnswer)
	}
	s.root = root
	return nil
}
