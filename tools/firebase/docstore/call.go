package docstore

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/grpc"
)

const (
	// attempts is how often a read is made that a server cannot answer.
	attempts = 5
	// firstPause and longestPause bound the pauses between two attempts.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

var (
	errAnswer  = errors.New("the answer does not belong to the request")
	errTooMuch = errors.New("the answer is too large")
)

// databaseName returns the name of the database in the protocol.
func (c *Client) databaseName() string {
	return "projects/" + c.cfg.Project + "/databases/" + c.cfg.Database
}

// documentName is that of a document in the protocol; the empty path is what collections at the top lie in.
func (c *Client) documentName(at document.Path) string {
	name := c.databaseName() + "/documents"
	if len(at) > 0 {
		name += "/" + at.String()
	}
	return name
}

// call returns a call of a method. The server finds the database by the headers.
func (c *Client) call(method, routing, value string, request []byte) grpc.Call {
	return grpc.Call{
		Method: "google.firestore.v1.Firestore/" + method, Request: request,
		Header: map[string]string{
			"Google-Cloud-Resource-Prefix": c.databaseName(), "X-Goog-Request-Params": routing + "=" + url.QueryEscape(value),
		},
	}
}

// repeated reads until it succeeds: while nobody answers, and a few times while the server fails in a way that passes.
func repeated(ctx context.Context, read func() error) error {
	for failures := 0; ; failures++ {
		err := read()
		if !passes(err, failures) {
			return err
		}
		if pause.For(ctx, pause.Backoff(firstPause, longestPause, failures)) != nil {
			return err
		}
	}
}

// answers makes a call and gives the answers to use.
func (c *Client) answers(ctx context.Context, call grpc.Call, use func(answer []byte) error) error {
	answers, err := c.conn.Do(ctx, call)
	if err != nil {
		return err
	}
	defer answers.Close()
	for {
		answer, err := answers.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := use(answer); err != nil {
			return err
		}
	}
}

// passes reports whether a read that failed is worth another attempt.
func passes(err error, failures int) bool {
	e, ok := errors.AsType[*grpc.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case grpc.Unavailable, grpc.Internal, grpc.DeadlineExceeded:
		return e.Unanswered || failures+1 < attempts
	default:
		return false
	}
}
