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

// errRevoked means that the server no longer accepts the credential of a stream.
var errRevoked = errors.New("the credential was revoked")

// stream is one connection that receives the data at a path, and every change of the data.
type stream struct {
	client    *Client
	ctx       context.Context //nolint:containedctx // the lifetime of the connection
	cancel    context.CancelFunc
	body      io.Closer
	reader    *reader
	idleTimer *time.Timer // closes an idle connection
	root      *tree.Node  // the data at the path
}

// connect opens a stream and waits for the initial data.
func (c *Client) connect(ctx context.Context, at tree.Path) (*stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{client: c, ctx: ctx, cancel: cancel, body: io.NopCloser(nil), idleTimer: time.AfterFunc(c.cfg.Call, cancel)}
	err := s.open(at)
	if err == nil {
		err = s.waitInitial()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open sends the request of the stream and checks the response.
func (s *stream) open(at tree.Path) error {
	r := request{method: http.MethodGet, path: at, header: http.Header{
		"Accept": {"text/event-stream"}, "Accept-Encoding": {"identity"}, "Cache-Control": {"no-cache"},
	}}
	limit := s.client.cfg.MaxAnswer
	res, err := roundTrip(s.ctx, s.client, r, s.client.net.Stream, func(res *netguard.Stream) *redirection {
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
		body, _ := io.ReadAll(io.LimitReader(res.Body, 16<<10)) // a partial message is enough
		return s.client.statusError(r, res.Status, body)
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return notDatabaseError(netguard.Endpoint(res.URL))
	}
	s.reader = newReader(res.Body, limit)
	return nil
}

// close closes the connection.
func (s *stream) close() {
	s.idleTimer.Stop()
	s.cancel()
	s.body.Close()
}

// waitInitial waits for the event with the initial data.
func (s *stream) waitInitial() error {
	for {
		changed, err := s.next()
		if changed || err != nil {
			return err
		}
	}
}

// next reads one event and applies it to root. changed reports whether the event changed data. Errors: errRevoked;
// QUOTA_EXCEEDED with errTooLarge; PERMISSION_DENIED when the rules end the stream; CONNECTION_ERROR when it breaks.
func (s *stream) next() (changed bool, err error) {
	m, err := s.reader.next()
	switch {
	case errors.Is(err, errTooLarge):
		return false, tooLarge(s.client.cfg.MaxAnswer)
	case errors.Is(err, io.EOF):
		return false, refusal.New(refusal.ConnectionError, "the stream ended")
	case s.ctx.Err() != nil:
		return false, refusal.New(refusal.ConnectionError, "the stream was silent for too long")
	case err != nil:
		return false, s.client.transportError(s.ctx, err)
	}
	s.idleTimer.Reset(s.client.cfg.Idle)
	switch m.name {
	case "put", "patch":
		return true, s.apply(m)
	case "cancel":
		return false, refusal.New(refusal.PermissionDenied, "the database ended the watch: its rules no longer let it be read")
	case "auth_revoked":
		return false, fmt.Errorf("%w: %s", errRevoked, s.client.sanitize(string(m.data)))
	default: // keep-alive, and events of later protocol versions
		return false, nil
	}
}

// apply applies the change in an event to root.
func (s *stream) apply(m message) error {
	var c change
	err := json.Unmarshal(m.data, &c)
	root := s.root
	switch {
	case err != nil:
	case m.name == "put":
		root, err = root.Replace(c.keys(), c.Data)
	default:
		children, ok := c.Data.(map[string]any)
		if err = errors.New("the data of a patch must be an object"); ok {
			root, err = root.ReplaceChildren(c.keys(), children)
		}
	}
	if err != nil {
		return refusal.New(refusal.ConnectionError, "the stream contains an invalid event: %s", m.name)
	}
	if int64(root.Size()) > s.client.cfg.MaxAnswer {
		return tooLarge(s.client.cfg.MaxAnswer)
	}
	s.root = root
	return nil
}
