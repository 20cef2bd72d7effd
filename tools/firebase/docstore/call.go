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
	// attempts is the maximum number of attempts of a read that fails on the server.
	attempts = 5
	// firstPause and longestPause bound the pauses between two attempts.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

var (
	errAnswer  = errors.New("the answer does not belong to the request")
	errCount   = errors.New("the server counts other documents")
	errTooMuch = errors.New("the answer is too large")
)

// databaseName returns the name of the database in the protocol.
func (c *Client) databaseName() string {
	return "projects/" + c.cfg.Project + "/databases/" + c.cfg.Database
}

// documentName returns the full name of a document in the protocol. The empty path stands for the parent of top-level
// collections.
func (c *Client) documentName(at document.Path) string {
	name := c.databaseName() + "/documents"
	if len(at) > 0 {
		name += "/" + at.String()
	}
	return name
}

// call returns a call of a method. Google's servers route it by the headers.
func (c *Client) call(method, routing, value string, request []byte) grpc.Call {
	return grpc.Call{
		Method: "google.firestore.v1.Firestore/" + method, Request: request,
		Header: map[string]string{
			"Google-Cloud-Resource-Prefix": c.databaseName(), "X-Goog-Request-Params": routing + "=" + url.QueryEscape(value),
		},
	}
}

// repeated calls read until it succeeds or fails permanently (see passes), with pauses in between. It returns the last
// error when ctx ends.
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

// answers makes a call and calls use with each answer. It returns the first error of the call or of use.
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

// passes reports whether a failed read should be repeated: always if no server has answered; after a temporary error of
// the server, until the maximum number of attempts.
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
