package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/api"
)

// destinationRoutes returns the routes of destinations.
func destinationRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	one := func(act, summary string, hidden ...string) route {
		return plain(post, "/destinations/{name}/"+act, act+"_destination", summary, operates, anyTool, steersDestination(act)).
			with(fromPath("name", "name")).hides(append(hidden, "act")...)
	}
	return []route{
		plain(get, "/destinations", "destinations", "List the destinations of events, by name.", readsAll, toolList, on(api.API.Destinations)).query("deliveries"),
		plain(get, "/destinations/{name}", "destination", "Read a destination, with the deliveries that wait and the dead letters.", readsAll, toolList, then(api.API.Destinations, soleDestination)).
			with(fromPath("name", "name")).query("deliveries"),
		plain(post, "/destinations", "put_destination", "Create a destination, or replace its definition.", operates, anyTool, on(api.API.PutDestination)),
		one(api.ActPause, "Keep deliveries for a destination.", "secret", "keep", "deliveries"),
		one(api.ActResume, "Deliver to a destination again.", "note", "secret", "keep", "deliveries"),
		one(api.ActRotate, "Give a destination another secret.", "note", "deliveries"),
		one(api.ActRedeliver, "Deliver now what has failed, dead letters included.", "note", "secret", "keep"),
		one(api.ActDiscard, "Forget dead letters of a destination.", "note", "secret", "keep"),
		one(api.ActTest, "Deliver a test event to a destination.", "note", "secret", "keep", "deliveries"),
		one(api.ActDelete, "Delete a destination with its deliveries.", "note", "secret", "keep", "deliveries"),
	}
}

// steersDestination returns the action that steers a destination.
func steersDestination(act string) action {
	return on(func(a api.API, ctx context.Context, r api.SteerDestinationRequest) (api.DestinationView, error) {
		r.Act = act
		return a.SteerDestination(ctx, r)
	})
}

func soleDestination(_ *api.DestinationsRequest, r api.DestinationsReply) (api.DestinationView, error) {
	return r.Destinations[0], nil
}
