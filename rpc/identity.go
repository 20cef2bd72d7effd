package rpc

import (
	"context"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/fault"
)

// IdentityMismatch is the reason of FORBIDDEN for a request whose actor is not the identity of its credential.
const IdentityMismatch = "IDENTITY_MISMATCH"

// ActorRequest is a request with an actor. The server sets the actor to the identity of the sender's credential.
type ActorRequest interface {
	// ActorFields returns pointers to the fields that name the actor.
	ActorFields() []*string
}

type callerKey struct{}

// withCaller returns a context with the identity of the sender's credential.
func withCaller(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// withOrigin is like withCaller, and gives the audit stream the credential.
func withOrigin(ctx context.Context, who, credential string) context.Context {
	return audit.WithOrigin(withCaller(ctx, who), audit.Origin{Actor: who, Credential: credential, Face: audit.FaceBus})
}

// callerOf returns the identity of the sender's credential. It returns false for calls inside the process and for workers, which
// have no identity.
func callerOf(ctx context.Context) (who string, ok bool) {
	who, ok = ctx.Value(callerKey{}).(string)
	return who, ok
}

// attribute sets the actor of a request to the identity of its credential. It returns FORBIDDEN if the request contains a
// different actor.
func attribute(ctx context.Context, request any) error {
	who, known := callerOf(ctx)
	acting, ok := request.(ActorRequest)
	if !known || !ok {
		return nil
	}
	for _, name := range acting.ActorFields() {
		if *name != "" && *name != who {
			return fault.New(fault.Forbidden, "this credential speaks as %s, and the request names somebody else who acts", who).
				WithField("actor").WithReason(IdentityMismatch).WithHint("leave the name out, or send the request with a credential of that identity")
		}
		*name = who
	}
	return nil
}
