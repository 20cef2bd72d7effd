package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/hooks"
)

// hookRoutes returns the routes of hooks.
func hookRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	one := func(path, act, summary string, hidden ...string) route {
		return plain(post, "/hooks/{name}/"+path, act+"_hook", summary, operates, anyTool, steersHook(act)).
			with(fromPath("name", "name")).hides(append(hidden, "act")...)
	}
	return []route{
		plain(get, "/hooks", "hooks", "List the hooks, by name.", readsAll, toolList, on(api.API.Hooks)).query("deliveries", "brief"),
		plain(get, "/hooks/{name}", "hook", "Read a hook.", readsAll, toolList, then(api.API.Hooks, soleHook)).
			with(fromPath("name", "name")).query("deliveries"),
		plain(get, "/hooks/{name}/deliveries", "hook_deliveries", "List the last deliveries to a hook, the newest first.", readsAll, toolList, then(listDeliveries(), soleDeliveries)).
			with(fromPath("name", "name")).query("deliveries"),
		plain(post, "/hooks", "put_hook", "Create a hook, or replace its definition.", operates, anyTool, on(api.API.PutHook)).hides("root"),
		one("pause", api.ActPause, "Keep a hook from taking deliveries.", "secret", "keep"),
		one("resume", api.ActResume, "Let a hook take deliveries again.", "note", "secret", "keep"),
		one("rotate", api.ActRotate, "Give a hook another secret.", "note"),
		one("delete", api.ActDelete, "Delete a hook.", "note", "secret", "keep"),
		plain(post, "/hooks/{name}/test", "test_hook", "Show what a delivery to a hook, or to a definition of one, would do.", operates, anyTool, on(api.API.TestHook)).
			with(fromPath("name", "name")).hides("root"),
	}
}

// steersHook returns the action that steers a hook.
func steersHook(act string) action {
	return on(func(a api.API, ctx context.Context, r api.SteerHookRequest) (api.HookView, error) {
		r.Act = act
		return a.SteerHook(ctx, r)
	})
}

func soleHook(_ *api.HooksRequest, r api.HooksReply) (api.HookView, error) { return r.Hooks[0], nil }

// listDeliveries returns the method that reads a hook with its deliveries, by default all that are kept.
func listDeliveries() func(api.API, context.Context, api.HooksRequest) (api.HooksReply, error) {
	return func(a api.API, ctx context.Context, r api.HooksRequest) (api.HooksReply, error) {
		if r.Deliveries == 0 {
			r.Deliveries = hooks.MaxOutcomes
		}
		return a.Hooks(ctx, r)
	}
}

// hookDeliveries are the last deliveries to a hook.
type hookDeliveries struct {
	Deliveries []hooks.Outcome `json:"deliveries"`
}

func soleDeliveries(_ *api.HooksRequest, r api.HooksReply) (hookDeliveries, error) {
	return hookDeliveries{r.Hooks[0].Deliveries}, nil
}
