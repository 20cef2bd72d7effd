package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/api"
)

// scheduleRoutes returns the routes of schedules.
func scheduleRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	one := func(path, act, summary string, hidden ...string) route {
		return plain(post, "/schedules/{name}/"+path, act+"_schedule", summary, operates, anyTool, steers(act)).
			with(fromPath("name", "name")).hides(append(hidden, "act")...)
	}
	put := plain(post, "/schedules", "put_schedule", "Create a schedule, or replace its definition.", operates, anyTool, on(api.API.PutSchedule)).hides("root")
	return []route{
		plain(get, "/schedules", "schedules", "List the schedules, by name.", readsAll, toolList, on(api.API.Schedules)).query("upcoming"),
		plain(get, "/schedules/{name}", "schedule", "Read a schedule.", readsAll, toolList, then(api.API.Schedules, soleSchedule)).
			with(fromPath("name", "name")).query("upcoming"),
		put,
		one("pause", api.ActPause, "Pause a schedule.", "overlap", "from", "to"),
		one("resume", api.ActResume, "End the pause of a schedule.", "note", "overlap", "from", "to"),
		one("trigger", api.ActTrigger, "Start a task of a schedule now.", "note", "from", "to"),
		one("backfill", api.ActBackfill, "Start the tasks of a time in the past that a schedule has not started.", "note"),
		one("delete", api.ActDelete, "Delete a schedule.", "note", "overlap", "from", "to"),
	}
}

// steers returns the action that steers a schedule.
func steers(act string) action {
	return on(func(a api.API, ctx context.Context, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
		r.Act = act
		return a.SteerSchedule(ctx, r)
	})
}

func soleSchedule(_ *api.SchedulesRequest, r api.SchedulesReply) (api.ScheduleView, error) {
	return r.Schedules[0], nil
}
