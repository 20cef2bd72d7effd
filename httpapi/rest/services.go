package rest

import (
	"context"
	"reflect"

	"github.com/orch-dev/orch/fault"
)

// served returns a route that calls a method of a service of the node. The route answers UNAVAILABLE if the node has no such service.
func served[S, In, Out any](r route, service func(Config) S, do func(S, context.Context, In) (Out, error)) route {
	r.action = action{in: reflect.TypeFor[In](), out: reflect.TypeFor[Out]()}
	return r.streams(func(s *Server, x *exchange, in any) error {
		request, ok := in.(*In)
		if !ok {
			return fault.New(fault.Internal, "a request has the wrong type")
		}
		of := service(s.cfg)
		if any(of) == nil {
			return fault.New(fault.Unavailable, "this node does not offer that").WithReason("NO_SUCH_SERVICE")
		}
		out, err := do(of, x.r.Context(), *request)
		if err == nil {
			writeJSON(x.w, 200, out)
		}
		return err
	}, "")
}

// prepared converts a check of a request struct to the form of route.prepare.
func prepared[In any](check func(*In) error) func(any) error {
	return func(in any) error {
		request, ok := in.(*In)
		if !ok {
			return fault.New(fault.Internal, "a request has the wrong type")
		}
		return check(request)
	}
}
