package metrics

import (
	"maps"
	"slices"
)

// WorkerGroups returns the metrics of a process of orch worker.
func WorkerGroups() []Group {
	return []Group{
		{"Workers", append([]Family{buildInfo()}, workerFamilies()...)},
		{"The process", processFamilies()},
	}
}

// workerFamilies returns the metrics of a worker. No label names what others do: everybody on the machine may read them.
func workerFamilies() []Family {
	figure := func(name string, kind Type, help string, of func(w *Worker) float64) Family {
		return Family{name, kind, help, nil, false, func(v *view, t *text) { t.add(of(v.Worker)) }}
	}
	return []Family{
		figure("orch_worker_slots", Gauge, "Calls that the worker runs at the same time (concurrency).", func(w *Worker) float64 { return float64(w.Slots) }),
		figure("orch_worker_calls_running", Gauge, "Calls that run.", func(w *Worker) float64 { return float64(w.Running) }),
		figure("orch_worker_outcomes_unreported", Gauge, "Calls that have ended and that the node has not acknowledged yet.", func(w *Worker) float64 { return float64(w.Unreported) }),
		figure("orch_worker_calls_abandoned", Gauge, "Tools that still run although their calls have ended.", func(w *Worker) float64 { return float64(w.Abandoned) }),
		{
			"orch_worker_calls_total", Counter, "Calls that have ended, since the process started.",
			[]Label{{"class", "`succeeded`, `continued` (it waits for a person, an agent or a child task), or the [class](plans.md#retries) of its failure, such as `timeout` or `denied`"}},
			false,
			func(v *view, t *text) {
				for _, class := range slices.Sorted(maps.Keys(v.Worker.Ended)) {
					t.add(float64(v.Worker.Ended[class]), class)
				}
			},
		},
		{
			"orch_worker_call_seconds", Histogram, "How long these calls took.", nil, false,
			func(v *view, t *text) { t.histogram(v.Worker.Took) },
		},
		figure("orch_worker_report_failures_total", Counter, "Reports of ended calls that the node has not taken, since the process started. All but those that came too late are repeated.", func(w *Worker) float64 { return float64(w.ReportFailures) }),
		figure("orch_worker_poll_failures_total", Counter, "Requests for work that have failed, since the process started.", func(w *Worker) float64 { return float64(w.PollFailures) }),
		figure("orch_worker_reconnects_total", Counter, "How often the connection to the node was lost and came back, since the process started.", func(w *Worker) float64 { return float64(w.Reconnects) }),
		{
			"orch_worker_connected", Gauge, "1 if the worker has a connection to the node, or to its NATS server; otherwise 0.", nil, false,
			func(v *view, t *text) { t.flag(v.Worker.Connected) },
		},
	}
}
