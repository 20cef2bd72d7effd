// Package metrics writes the metrics of a node in the text format of Prometheus.
//
// A Snapshot has the figures that a node collects when somebody asks for them. Groups is the table of all metrics: from it come
// the text, and the page docs/reference/metrics.md. An Exporter bounds the values of labels.
package metrics

import (
	"runtime"
	"time"

	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/histogram"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/stats"
)

// ContentType is the content type of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// The most values of a label. What is beyond them is counted together, as Other.
const (
	MaxTools     = 45
	MaxQueues    = 8
	MaxServers   = 15
	MaxProviders = 5
	MaxBudgets   = 5
	// MaxSeries is more series than a node can have.
	MaxSeries = 500
)

// Other is the value of a label for everything that has no value of its own.
const Other = "other"

// Snapshot has the figures of a process at a time.
type Snapshot struct {
	// Version is the version of orch.
	Version string
	// At is the time, Took how long it took to collect the figures.
	At   time.Time
	Took time.Duration
	// Node is nil for a process that stands by.
	Node *Node
	// Worker is set for a process of orch worker.
	Worker *Worker
	// Process has the figures of the operating system and of the runtime.
	Process Process
}

// Node has the figures of an active node.
type Node struct {
	// Unready is why the node accepts no tasks; empty if it does.
	Unready string
	// Paused is set if the node gives no calls to workers.
	Paused bool
	// Tasks counts the open tasks by their status in the queue. Finished counts those that have ended, Oldest is when the oldest open
	// task was submitted; zero for none.
	Tasks    map[string]int
	Finished int
	Oldest   time.Time
	// Queues are the calls that wait for workers, Running those that workers have.
	Queues  map[string]Queue
	Running int
	// Online and Silent count the workers.
	Online, Silent int
	// Tools are the calls that have ended.
	Tools map[string]*stats.Counter
	// Approvals and Questions count what waits for people. OldestApproval is when the first of these approvals was requested.
	Approvals, Questions int
	OldestApproval       time.Time
	Schedules            Schedules
	Hooks                Hooks
	Destinations         Destinations
	Traces               *Traces
	Retention            Retention
	Budgets              []Budget
	// Providers are the failures in a row of the providers of models.
	Providers map[string]int
	Store     *Store
	Commits   Commits
	// Servers are the external MCP servers, and their states.
	Servers map[string]string
}

// Worker has the figures of a worker in a process of its own.
type Worker struct {
	// Slots is the number of calls that it runs at the same time. Running, Unreported and Abandoned count the calls that run, those that
	// wait to be reported, and the tools that still run after their calls.
	Slots, Running, Unreported, Abandoned int
	// Ended counts the calls that have ended, by what became of them, and Took is how long they took.
	Ended map[string]uint64
	Took  *histogram.Counts
	// ReportFailures, PollFailures and Reconnects count failures since the process started. Connected is set if it has a connection.
	ReportFailures, PollFailures, Reconnects uint64
	Connected                                bool
}

// Schedules describes what starts tasks at certain times.
type Schedules struct {
	Active, Paused int
	// Firings counts the firings since the node started.
	Firings map[schedules.Result]int
	// Waiting is since when the firing is due that is due longest and has no task; zero for none.
	Waiting time.Time
}

// Hooks describes what starts tasks when other systems deliver something.
type Hooks struct {
	Active, Paused int
	// Deliveries counts the deliveries since the node started.
	Deliveries map[hooks.Result]int
	// Waiting is the number of messages of streams that wait for hooks; nil if it is not known, or if no hook takes any.
	Waiting *int
}

// Destinations describes what is told to other systems.
type Destinations struct {
	Active, Paused int
	// Attempts counts the attempts to deliver since the node started.
	Attempts map[destinations.Result]int
	// Pending counts the deliveries that wait, Dead the dead letters. Oldest is the time of the oldest event that waits for a
	// destination that is not paused; zero for none.
	Pending, Dead int
	Oldest        time.Time
}

// Traces describes the export of traces.
type Traces struct {
	// Oldest is the end of the oldest task whose spans wait for the collector; zero for none.
	Oldest time.Time
}

// Retention describes the removal of archived tasks.
type Retention struct {
	// Removed counts the tasks that were removed since the node started. Fails is set if the last run has failed.
	Removed int
	Fails   bool
}

// Queue describes the calls that wait in a queue.
type Queue struct {
	Calls int
	// Since is since when the call waits that has waited longest of those that workers get next.
	Since time.Time
}

// Budget is what was spent of a budget. A limit of 0 is none.
type Budget struct {
	Name                       string
	Spent, Limit               float64
	SpentTokens, TokensAllowed int64
}

// Store describes the space that the store takes. Used, MaxStore, Free and MinFree are 0 if another server has the store.
type Store struct {
	Live, Archive, Used, MaxStore, Free, MinFree int64
	// Last is the position of the newest commit.
	Last uint64
}

// Commits describes how commits become durable.
type Commits struct {
	// Took are the times from a commit to its acknowledgement, Synced those of the syncs; nil if another process syncs.
	Took, Synced *histogram.Counts
	// Failed counts the commits that the log did not take.
	Failed uint64
}

// The states of MCP servers.
const (
	ServerReady    = "ready"
	ServerDegraded = "degraded"
	ServerOffline  = "offline"
	ServerOff      = "disabled"
)

// serverStates returns the states of MCP servers.
func serverStates() []string {
	return []string{ServerReady, ServerDegraded, ServerOffline, ServerOff}
}

func goVersion() string { return runtime.Version() }
