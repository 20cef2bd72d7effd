package metrics

import (
	"strconv"
	"time"

	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/schedules"
)

// Type is the type of a metric.
type Type string

// The types of metrics.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Label is a label of a metric.
type Label struct {
	Name string
	// Values says which values there are.
	Values string
}

// Family is a metric with all its series.
type Family struct {
	Name   string
	Type   Type
	Help   string
	Labels []Label
	// Standby is set if a process that stands by has the metric too.
	Standby bool

	write func(v *view, t *text)
}

// Group is a group of metrics in the documentation.
type Group struct {
	Title    string
	Families []Family
}

// Groups returns all metrics.
func Groups() []Group {
	return []Group{
		{"The node", nodeFamilies()},
		{"Tasks and people", taskFamilies()},
		{"Schedules", scheduleFamilies()},
		{"Hooks", hookFamilies()},
		{"Destinations", destinationFamilies()},
		{"Traces", traceFamilies()},
		{"Retention", retentionFamilies()},
		{"Calls", callFamilies()},
		{"The log and its store", logFamilies()},
		{"Models and MCP servers", outsideFamilies()},
		{"The process", processFamilies()},
	}
}

// first describes a label whose values are bounded.
func first(most int, what string) string {
	return what + "; after the first " + strconv.Itoa(most) + " that the process has seen, all others are `" + Other + "`"
}

// age returns the seconds since a time; 0 for no time.
func (v *view) age(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(v.At.Sub(since).Seconds(), 0)
}

func buildInfo() Family {
	return Family{
		"orch_build_info", Gauge, "Always 1; the labels say what runs.",
		[]Label{{"version", "the version of orch"}, {"go_version", "the version of Go"}},
		true,
		func(v *view, t *text) { t.add(1, v.Version, goVersion()) },
	}
}

func nodeFamilies() []Family {
	return []Family{
		buildInfo(),
		{
			"orch_active", Gauge, "1 for the active node, 0 for a process of a cluster that stands by.", nil, true,
			func(v *view, t *text) { t.flag(v.Node != nil) },
		},
		{
			"orch_ready", Gauge, "1 if the node accepts tasks, as /readyz says; otherwise 0.", nil, false,
			func(v *view, t *text) { t.flag(v.Node.Unready == "") },
		},
		{
			"orch_refusing", Gauge, "1 while the node accepts no tasks; absent while it does.",
			[]Label{{"reason", "the reason that /readyz gives"}},
			false,
			func(v *view, t *text) {
				if why := v.Node.Unready; why != "" {
					t.add(1, why)
				}
			},
		},
		{
			"orch_paused", Gauge, "1 while the whole node is paused.", nil, false,
			func(v *view, t *text) { t.flag(v.Node.Paused) },
		},
		{
			"orch_scrape_seconds", Gauge, "How long it took to collect these figures.", nil, true,
			func(v *view, t *text) { t.add(v.Took.Seconds()) },
		},
	}
}

func taskFamilies() []Family {
	return []Family{
		{
			"orch_tasks", Gauge, "Open tasks, without those of orch itself.",
			[]Label{{"status", "`pending`, `assigned`, `in_progress` or `blocked`, as in GET /queue"}},
			false,
			func(v *view, t *text) {
				for _, status := range Statuses() {
					t.add(float64(v.Node.Tasks[status]), status)
				}
			},
		},
		{
			"orch_tasks_finished", Gauge, "Finished tasks that the store still has.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Finished)) },
		},
		{
			"orch_task_oldest_age_seconds", Gauge, "Time since the oldest open task was submitted; 0 for none.", nil, false,
			func(v *view, t *text) { t.add(v.age(v.Node.Oldest)) },
		},
		{
			"orch_approvals_waiting", Gauge, "Tasks that wait for a decision about an approval.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Approvals)) },
		},
		{
			"orch_approval_oldest_age_seconds", Gauge, "Time since the first of these approvals was requested; 0 for none.", nil, false,
			func(v *view, t *text) { t.add(v.age(v.Node.OldestApproval)) },
		},
		{
			"orch_questions_waiting", Gauge, "Tasks that wait for an answer to a question.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Questions)) },
		},
	}
}

func scheduleFamilies() []Family {
	return []Family{
		{
			"orch_schedules", Gauge, "Schedules.",
			[]Label{{"state", "`active` or `paused`"}},
			false,
			func(v *view, t *text) {
				t.add(float64(v.Node.Schedules.Active), "active")
				t.add(float64(v.Node.Schedules.Paused), "paused")
			},
		},
		{
			"orch_schedule_firings_total", Counter, "Firings of schedules, since the node started.",
			[]Label{{"result", "`started`, `skipped` (an earlier task still ran), `missed` (the node was not running) or `failed` (its task was refused)"}},
			false,
			func(v *view, t *text) {
				for _, result := range schedules.Results() {
					t.add(float64(v.Node.Schedules.Firings[result]), string(result))
				}
			},
		},
		{
			"orch_schedule_late_seconds", Gauge, "How late the firing is that is due longest and has no task yet; 0 for none.", nil, false,
			func(v *view, t *text) { t.add(v.age(v.Node.Schedules.Waiting)) },
		},
	}
}

func hookFamilies() []Family {
	return []Family{
		{
			"orch_hooks", Gauge, "Hooks.",
			[]Label{{"state", "`active` or `paused`"}},
			false,
			func(v *view, t *text) {
				t.add(float64(v.Node.Hooks.Active), "active")
				t.add(float64(v.Node.Hooks.Paused), "paused")
			},
		},
		{
			"orch_hook_deliveries_total", Counter, "Deliveries to hooks, since the node started.",
			[]Label{{"result", "`accepted`, `duplicate`, `filtered`, `refused` (it could do nothing), `rejected` (no valid signature, or no such hook), `limited` (too many) or `failed` (it could not be taken at the time)"}},
			false,
			func(v *view, t *text) {
				for _, result := range hooks.Results() {
					t.add(float64(v.Node.Hooks.Deliveries[result]), string(result))
				}
			},
		},
		{
			"orch_hook_messages_waiting", Gauge, "Messages of NATS streams that wait for hooks, paused ones included, 15 s ago at the most. Absent without such hooks, and if the NATS server does not answer.", nil, false,
			func(v *view, t *text) {
				if n := v.Node.Hooks.Waiting; n != nil {
					t.add(float64(*n))
				}
			},
		},
	}
}

func destinationFamilies() []Family {
	return []Family{
		{
			"orch_destinations", Gauge, "Destinations.",
			[]Label{{"state", "`active` or `paused`"}},
			false,
			func(v *view, t *text) {
				t.add(float64(v.Node.Destinations.Active), "active")
				t.add(float64(v.Node.Destinations.Paused), "paused")
			},
		},
		{
			"orch_destination_attempts_total", Counter, "Attempts to deliver events to destinations, since the node started.",
			[]Label{{"result", "`delivered`, `failed` (it is tried again) or `dead` (it is a dead letter now)"}},
			false,
			func(v *view, t *text) {
				for _, result := range destinations.Results() {
					t.add(float64(v.Node.Destinations.Attempts[result]), string(result))
				}
			},
		},
		{
			"orch_destination_deliveries_pending", Gauge, "Deliveries that wait, at most 1,000 for each destination.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Destinations.Pending)) },
		},
		{
			"orch_destination_deliveries_dead", Gauge, "Dead letters.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Destinations.Dead)) },
		},
		{
			"orch_destination_oldest_age_seconds", Gauge, "Age of the oldest event that waits for a destination that is not paused; 0 for none.", nil, false,
			func(v *view, t *text) { t.add(v.age(v.Node.Destinations.Oldest)) },
		},
	}
}

func traceFamilies() []Family {
	return []Family{
		{
			"orch_traces_oldest_age_seconds", Gauge, "Time since the end of the oldest task whose spans wait for the collector; 0 for none. Absent without `traces_to`.", nil, false,
			func(v *view, t *text) {
				if v.Node.Traces != nil {
					t.add(v.age(v.Node.Traces.Oldest))
				}
			},
		},
	}
}

func retentionFamilies() []Family {
	return []Family{
		{
			"orch_retention_removed_total", Counter, "Tasks that retention has removed, since the node started.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Retention.Removed)) },
		},
		{
			"orch_retention_failing", Gauge, "1 if the last run of retention has failed, such as for an archive that cannot be reached; else 0.", nil, false,
			func(v *view, t *text) { t.flag(v.Node.Retention.Fails) },
		},
	}
}

// Statuses returns the values of the label status.
func Statuses() []string { return []string{"pending", "assigned", "in_progress", "blocked"} }

func callFamilies() []Family {
	tool := Label{"tool", first(MaxTools, "the name of the tool")}
	queue := Label{"queue", first(MaxQueues, "the name of the queue")}
	return []Family{
		{
			"orch_queue_calls", Gauge, "Calls that wait for a worker or an agent.",
			[]Label{queue},
			false,
			func(v *view, t *text) {
				for _, q := range v.queues {
					t.add(float64(q.Calls), q.name)
				}
			},
		},
		{
			"orch_queue_wait_seconds", Gauge, "How long the call has waited that waits longest of those that workers get next; 0 for none.",
			[]Label{queue},
			false,
			func(v *view, t *text) {
				for _, q := range v.queues {
					t.add(v.age(q.Since), q.name)
				}
			},
		},
		{
			"orch_calls_running", Gauge, "Calls that workers and agents have.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Running)) },
		},
		{
			"orch_calls_total", Counter, "Attempts of calls that have ended. It goes on after a restart, except for `other`.",
			[]Label{tool, {"outcome", "`succeeded`, `failed`, `denied` (by policy, root, credential or a person), `timeout`, `lost` (its worker was lost, or it is in doubt) or `cancelled`"}},
			false, writeCalls,
		},
		{
			"orch_call_seconds_total", Counter, "How long these attempts took, together.",
			[]Label{tool},
			false,
			func(v *view, t *text) {
				for _, calls := range v.tools {
					t.add(calls.took.Seconds(), calls.tool)
				}
			},
		},
		{
			"orch_leases_lost_total", Counter, "Attempts whose worker was lost: its lease has expired.", nil, false,
			func(v *view, t *text) { t.add(float64(v.lost)) },
		},
		{
			"orch_workers", Gauge, "Workers that have contacted the node lately.",
			[]Label{{"state", "`online`, or `silent` for too long"}},
			false,
			func(v *view, t *text) {
				t.add(float64(v.Node.Online), "online")
				t.add(float64(v.Node.Silent), "silent")
			},
		},
	}
}

// writeCalls writes the calls by tool and outcome. A rate needs series that exist before the first failure.
func writeCalls(v *view, t *text) {
	for _, calls := range v.tools {
		for o, n := range calls.counts {
			if kind := outcome(o); n > 0 || kind == succeeded || kind == failed {
				t.add(float64(n), calls.tool, kind.String())
			}
		}
	}
}

func logFamilies() []Family {
	space := func(name, help string, limit bool, of func(*Store) int64) Family {
		return Family{name, Gauge, help, nil, false, func(v *view, t *text) {
			if s := v.Node.Store; s != nil && (!limit || of(s) > 0) {
				t.add(float64(of(s)))
			}
		}}
	}
	return []Family{
		{
			"orch_commits_total", Counter, "Commits that the log has taken since it exists: the position of the newest one.", nil, false,
			func(v *view, t *text) {
				if s := v.Node.Store; s != nil {
					t.add(float64(s.Last))
				}
			},
		},
		{
			"orch_commit_seconds", Histogram, "Time from a commit to its acknowledgement, since the node started.", nil, false,
			func(v *view, t *text) { t.histogram(v.Node.Commits.Took) },
		},
		{
			"orch_commits_failed_total", Counter, "Commits that the log did not take, without those that lost a race, since the node started.", nil, false,
			func(v *view, t *text) { t.add(float64(v.Node.Commits.Failed)) },
		},
		{
			"orch_sync_seconds", Histogram, "Time that a sync of the log to the disk took, since the node started. Absent if the NATS server syncs.", nil, false,
			func(v *view, t *text) { t.histogram(v.Node.Commits.Synced) },
		},
		space("orch_log_bytes", "Size of the log of the tasks that are not archived.", false, func(s *Store) int64 { return s.Live }),
		space("orch_archive_bytes", "Size of the archive.", false, func(s *Store) int64 { return s.Archive }),
		space("orch_store_bytes", "Size of everything that the store holds, before compression. Absent with an external NATS server.", true, func(s *Store) int64 { return s.Used }),
		space("orch_store_limit_bytes", "The setting max_store. Absent without a limit.", true, func(s *Store) int64 { return s.MaxStore }),
		space("orch_disk_free_bytes", "Free space on the disk of the store. Absent with an external NATS server.", true, func(s *Store) int64 { return s.Free }),
		space("orch_disk_min_free_bytes", "Free space below which the node accepts no tasks. Absent with an external NATS server.", true, func(s *Store) int64 { return s.MinFree }),
	}
}

func outsideFamilies() []Family {
	budget := []Label{{"budget", "the budget of the settings, such as `$5.00 a day`; at most " + strconv.Itoa(MaxBudgets) + ". For a budget of each identity: of the one that has spent most of it"}}
	money := func(name, help string, of func(Budget) float64, has func(Budget) bool) Family {
		return Family{name, Gauge, help, budget, false, func(v *view, t *text) {
			for _, b := range v.Node.Budgets {
				if has(b) {
					t.add(of(b), b.Name)
				}
			}
		}}
	}
	dollars, tokens := func(b Budget) bool { return b.Limit > 0 }, func(b Budget) bool { return b.TokensAllowed > 0 }
	return []Family{
		money("orch_budget_spent_dollars", "What was spent of a budget in its period.", func(b Budget) float64 { return b.Spent }, dollars),
		money("orch_budget_limit_dollars", "What may be spent.", func(b Budget) float64 { return b.Limit }, dollars),
		money("orch_budget_spent_tokens", "The tokens that were spent of a budget in its period.", func(b Budget) float64 { return float64(b.SpentTokens) }, tokens),
		money("orch_budget_limit_tokens", "The tokens that may be spent.", func(b Budget) float64 { return float64(b.TokensAllowed) }, tokens),
		{
			"orch_model_provider_failures", Gauge, "Failures in a row of a provider of models.",
			[]Label{{"provider", "the provider; the first " + strconv.Itoa(MaxProviders)}},
			false,
			func(v *view, t *text) {
				for _, name := range v.providers {
					t.add(float64(v.Node.Providers[name]), name)
				}
			},
		},
		{
			"orch_mcp_server_up", Gauge, "1 if an external MCP server answers, 0 if not. Absent for one that is disabled.",
			[]Label{{"server", "the server; the first " + strconv.Itoa(MaxServers)}},
			false,
			func(v *view, t *text) {
				for _, name := range v.servers {
					if state := v.Node.Servers[name]; state != ServerOff {
						t.flag(state == ServerReady, name)
					}
				}
			},
		},
		{
			"orch_mcp_servers", Gauge, "All external MCP servers.",
			[]Label{{"state", "`ready`, `degraded`, `offline` or `disabled`"}},
			false,
			func(v *view, t *text) {
				count := map[string]int{}
				for _, state := range v.Node.Servers {
					count[state]++
				}
				for _, state := range serverStates() {
					t.add(float64(count[state]), state)
				}
			},
		},
	}
}
