package docstore

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/grpc"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// maxMessage is the maximum number of bytes of a server's message in an error.
const maxMessage = 300

// errSlow is the cause of the context of a call that exceeds Config.Call.
var errSlow = errors.New("the call took too long")

// withCallTimeout returns a context with the time limit of a call. It returns an error if ctx has already ended.
func (c *Client) withCallTimeout(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return ctx, nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.cfg.Call, errSlow)
	return bounded, cancel, nil
}

// protocolError converts an error of the protocol. When ctx has ended it returns the error of ctx.
func (c *Client) protocolError(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		return refusal.New(refusal.ConnectionError, "there was no answer within %s", c.cfg.Call)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	message := sanitize(grpc.MessageOf(err))
	switch grpc.CodeOf(err) {
	case grpc.PermissionDenied, grpc.Unauthenticated:
		return refusal.New(refusal.PermissionDenied, "Firestore refused: %s", message).
			WithHint("the account of firestore_credentials needs a role for the database")
	case grpc.NotFound:
		return refusal.New(refusal.NotFound, "Firestore found nothing: %s", message).WithField("path")
	case grpc.AlreadyExists, grpc.FailedPrecondition, grpc.Aborted:
		return conflictError()
	case grpc.ResourceExhausted:
		return refusal.New(refusal.QuotaExceeded, "a quota of Firestore is used up: %s", message)
	case grpc.InvalidArgument, grpc.OutOfRange:
		return invalidWrite(message)
	default:
		return refusal.New(refusal.ConnectionError, "Firestore failed: %s", message)
	}
}

// readError converts the error of a read. Some codes mean something else than for a write, see protocolError.
func (c *Client) readError(ctx context.Context, err error) error {
	message := sanitize(grpc.MessageOf(err))
	switch code := grpc.CodeOf(err); {
	case ctx.Err() != nil:
		return c.protocolError(ctx, err)
	case code == grpc.NotFound:
		return refusal.New(refusal.ConnectionError, "Firestore found no database: %s", message).WithHint("check firestore_project")
	case code == grpc.InvalidArgument, code == grpc.OutOfRange, code == grpc.FailedPrecondition: // such as a missing index
		return refusal.New(refusal.ValidationError, "Firestore refused: %s", message).WithField("query")
	case code == grpc.Aborted, code == grpc.AlreadyExists:
		return refusal.New(refusal.ConnectionError, "Firestore failed: %s", message)
	default:
		return c.protocolError(ctx, err)
	}
}

// invalidWrite returns SIZE_LIMIT_EXCEEDED or VALIDATION_ERROR for a rejected write, by the message of the server.
func invalidWrite(message string) error {
	for _, size := range []string{"exceeds the maximum", "longer than", "maximum entity size", "too large"} {
		if strings.Contains(message, size) {
			return refusal.New(refusal.SizeLimitExceeded, "Firestore refused: %s", message).WithField("data")
		}
	}
	return refusal.New(refusal.ValidationError, "Firestore refused: %s", message)
}

func conflictError() error {
	return refusal.New(refusal.Conflict, "somebody else wrote there meanwhile").WithField("path").
		WithHint("read again and decide again")
}

func tooLarge(limit int) error {
	return refusal.New(refusal.QuotaExceeded, "there are more than %d bytes at the path", limit).
		WithHint("choose a path further down, or a query with a limit")
}

// sanitize prepares a text of a server for display: it replaces unprintable characters, and truncates the text.
func sanitize(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// tokenStatus converts the error of a token request to a gRPC status, so that only temporary errors are retried.
func tokenStatus(err error) error {
	e := fault.From(err)
	if e.Reason == refusal.PermissionDenied {
		return &grpc.Error{Code: grpc.PermissionDenied, Message: e.Message}
	}
	return &grpc.Error{Code: grpc.Unavailable, Message: e.Message, Unanswered: true}
}
