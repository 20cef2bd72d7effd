package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/agents"
)

// WorkService gives calls to registered agents.
type WorkService interface {
	// Work processes a request of the worker protocol.
	Work(ctx context.Context, r WorkRequest) (agents.Exchanged, error)
}

// WorkRequest is a request of the worker protocol.
type WorkRequest struct {
	agents.Exchange

	// Actor is the agent.
	Actor string `json:"actor"`
}

// ActorFields returns the fields that name the actor of the request.
func (r *WorkRequest) ActorFields() []*string { return []*string{&r.Actor} }

// workRoutes returns the route of the worker protocol.
func workRoutes() []route {
	work := plain(http.MethodPost, "/work", "work", "Report calls that have ended, keep those that run, and take new ones.", works, "", nothing())
	return []route{served(work, func(c Config) WorkService { return c.Work }, WorkService.Work)}
}
