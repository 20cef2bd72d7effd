package docstore

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// maxSaid is how many bytes of what a server says are repeated.
const maxSaid = 300

// errSlow is why a call ends that takes longer than Config.Call.
var errSlow = errors.New("the call took too long")

// bounded gives a call its time, unless its context has ended.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.cfg.Call, errSlow)
	return bounded, cancel, nil
}

// failed tells what an error of the protocol means. An end of the caller's context stays what it is.
func (c *Client) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return refusal.New(refusal.ConnectionError, "there was no answer within %s", c.cfg.Call)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	said := plain(status.Convert(err).Message())
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return refusal.New(refusal.PermissionDenied, "Firestore refused: %s", said).
			WithHint("the account of firestore_credentials needs a role for the database")
	case codes.NotFound:
		return refusal.New(refusal.NotFound, "Firestore found nothing: %s", said).WithField("path")
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return changedMeanwhile()
	case codes.ResourceExhausted:
		return refusal.New(refusal.QuotaExceeded, "a quota of Firestore is used up: %s", said)
	case codes.InvalidArgument, codes.OutOfRange:
		return invalid(said)
	default:
		return refusal.New(refusal.ConnectionError, "Firestore failed: %s", said)
	}
}

// unread tells what an error of the protocol means for a read.
func (c *Client) unread(ctx context.Context, err error) error {
	said := plain(status.Convert(err).Message())
	switch code := status.Code(err); {
	case ctx.Err() != nil:
		return c.failed(ctx, err)
	case code == codes.NotFound:
		return refusal.New(refusal.ConnectionError, "Firestore found no database: %s", said).WithHint("check firestore_project")
	case code == codes.InvalidArgument, code == codes.OutOfRange, code == codes.FailedPrecondition: // such as an index that is missing
		return refusal.New(refusal.ValidationError, "Firestore refused: %s", said).WithField("query")
	case code == codes.Aborted, code == codes.AlreadyExists:
		return refusal.New(refusal.ConnectionError, "Firestore failed: %s", said)
	default:
		return c.failed(ctx, err)
	}
}

// invalid tells what of a write was refused.
func invalid(said string) error {
	for _, size := range []string{"exceeds the maximum", "longer than", "maximum entity size", "too large"} {
		if strings.Contains(said, size) {
			return refusal.New(refusal.SizeLimitExceeded, "Firestore refused: %s", said).WithField("data")
		}
	}
	return refusal.New(refusal.ValidationError, "Firestore refused: %s", said)
}

func changedMeanwhile() error {
	return refusal.New(refusal.Conflict, "somebody else wrote there meanwhile").WithField("path").
		WithHint("read again and decide again")
}

func tooLarge(limit int) error {
	return refusal.New(refusal.QuotaExceeded, "there are more than %d bytes at the path", limit).
		WithHint("choose a path further down, or a query with a limit")
}

// plain returns a text of a server on one line.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// statusOf returns the refusal of a token as the protocol has it, so that the library does not take it for
// something that passes.
func statusOf(err error) error {
	e := fault.From(err)
	if e.Reason == refusal.PermissionDenied {
		return status.Error(codes.PermissionDenied, e.Message)
	}
	return status.Error(codes.Unavailable, e.Message)
}
