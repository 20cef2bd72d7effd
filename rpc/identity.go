package rpc

import (
	"context"

	"github.com/orch-dev/orch/fault"
)

// NotYourName is the reason of the FORBIDDEN that a request gets which names somebody else than its credential.
const NotYourName = "IDENTITY_MISMATCH"

// ActorRequest is a request that says who acts. The credential of the sender decides about that, the request does not.
type ActorRequest interface {
	// ActorFields returns the fields that name who acts.
	ActorFields() []*string
}

type callerKey struct{}

// withCaller returns a context for what an identity asks with its credential.
func withCaller(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// callerOf returns the identity of the credential with which something is asked; false inside of the process and for workers.
func callerOf(ctx context.Context) (who string, ok bool) {
	who, ok = ctx.Value(callerKey{}).(string)
	return who, ok
}

// attribute gives a request the identity of its credential: FORBIDDEN when it names another one.
func attribute(ctx context.Context, request any) error {
	who, known := callerOf(ctx)
	acting, ok := request.(ActorRequest)
	if !known || !ok {
		return nil
	}
	for _, name := range acting.ActorFields() {
		if *name != "" && *name != who {
			return fault.New(fault.Forbidden, "this credential speaks as %s, and the request names somebody else who acts", who).
				WithField("actor").WithReason(NotYourName).WithHint("leave the name out, or send the request with a credential of that identity")
		}
		*name = who
	}
	return nil
}
