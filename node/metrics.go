package node

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/mcp/registry"
)

// processStarted is when this process started, approximately.
var processStarted = sync.OnceValue(time.Now)

// monitor collects the metrics of a node when somebody asks for them.
type monitor struct {
	*host

	exporter metrics.Exporter
}

// write writes the metrics of the node.
func (m *monitor) write(ctx context.Context, w io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, probeWithin)
	defer stop()
	began := time.Now()
	s := metrics.Snapshot{Version: m.cfg.Version, At: began, Node: m.figures(ctx), Process: metrics.ReadProcess(processStarted())}
	s.Took = time.Since(began)
	text, _ := m.exporter.Text(&s)
	_, err := w.Write(text)
	return err
}

// figures returns the figures of the node. What cannot be read in time is left out.
func (m *monitor) figures(ctx context.Context) *metrics.Node {
	f := m.orch.Figures()
	n := &metrics.Node{
		Unready: m.unready(ctx), Paused: f.Paused, Finished: f.Finished, Running: f.Running, Online: f.Online, Silent: f.Silent,
		Tasks: map[string]int{
			api.QueuePending: f.Queue.Pending, api.QueueAssigned: f.Queue.Assigned, api.QueueInProgress: f.Queue.InProgress, api.QueueBlocked: f.Queue.Blocked,
		},
		Queues: map[string]metrics.Queue{}, Tools: m.stats.Table().Tools, Approvals: f.Approvals, Questions: f.Questions, OldestApproval: f.OldestApproval,
		Schedules: metrics.Schedules(m.scheduler.Figures()), Hooks: metrics.Hooks(m.receiver.Figures()),
		Destinations: metrics.Destinations(m.sender.Figures()), Traces: m.tracesMetrics(),
		Retention: metrics.Retention{Removed: f.Removed, Fails: f.RemovalFails},
		Budgets:   m.budgets(), Providers: map[string]int{}, Servers: m.servers(ctx),
	}
	if f.Queue.Oldest != nil {
		n.Oldest = *f.Queue.Oldest
	}
	for name, w := range f.Waits {
		n.Queues[name] = metrics.Queue{Calls: w.Calls, Since: w.Since}
	}
	for name, b := range m.executor.models.Breakers() {
		n.Providers[name] = b.Failures
	}
	m.readStore(ctx, n)
	return n
}

// readStore adds what the store knows.
func (m *monitor) readStore(ctx context.Context, n *metrics.Node) {
	timing := m.store.Timing()
	n.Commits = metrics.Commits{Took: timing.Appends, Synced: timing.Syncs, Failed: timing.Failed}
	s, err := m.store.Status(ctx)
	if err != nil {
		return
	}
	n.Store = &metrics.Store{
		Live: int64(s.Bytes), Archive: int64(s.ArchiveBytes), Last: s.Last, //nolint:gosec // a store has less than 2^63 bytes
		Used: s.Used, MaxStore: s.MaxStore, Free: s.Free, MinFree: s.MinFree,
	}
}

// servers returns the states of the external MCP servers.
func (m *monitor) servers(ctx context.Context) map[string]string {
	states := map[string]string{}
	if m.executor.gateway == nil {
		return states
	}
	list, err := m.executor.gateway.Servers().List(ctx)
	if err != nil {
		return states
	}
	for _, s := range list {
		switch {
		case !s.Enabled:
			states[s.Name] = metrics.ServerOff
		case s.Status == registry.Ready:
			states[s.Name] = metrics.ServerReady
		case s.Status == registry.Degraded:
			states[s.Name] = metrics.ServerDegraded
		default:
			states[s.Name] = metrics.ServerOffline
		}
	}
	return states
}

// budgets returns the first budgets of the settings. Of a budget that each identity has for itself, it is that of the identity that
// has spent the largest part.
func (m *monitor) budgets() (list []metrics.Budget) {
	now, known := m.clock(), map[string]bool{}
	for _, b := range m.cfg.budgets() {
		name := b.Name("each identity")
		if known[name] || len(list) == metrics.MaxBudgets {
			continue
		}
		known[name] = true
		spent := m.spent(b, now)
		list = append(list, metrics.Budget{
			Name: name, Spent: dollars(spent.NanoUSD), Limit: dollars(b.NanoUSD), SpentTokens: spent.Tokens, TokensAllowed: b.Tokens,
		})
	}
	return list
}

// spent returns what was spent of a budget.
func (m *monitor) spent(b costs.Budget, now time.Time) (most events.Spent) {
	if b.By != costs.ByIdentity {
		return m.stats.Spent(b, "", now)
	}
	for _, who := range m.stats.Spenders(b, now) {
		if s := m.stats.Spent(b, who, now); b.NanoUSD > 0 && s.NanoUSD > most.NanoUSD || b.NanoUSD == 0 && s.Tokens > most.Tokens {
			most = s
		}
	}
	return most
}

func dollars(nano int64) float64 {
	const perDollar = 1e9
	return float64(nano) / perDollar
}

// standbyMetrics writes the metrics of a process that stands by.
type standbyMetrics struct {
	version  string
	exporter metrics.Exporter
}

func (m *standbyMetrics) write(w http.ResponseWriter) {
	began := time.Now()
	s := metrics.Snapshot{Version: m.version, At: began, Process: metrics.ReadProcess(processStarted())}
	s.Took = time.Since(began)
	text, _ := m.exporter.Text(&s)
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) //nolint:gosec // plain text, of the figures of this process; the client may be gone
}

// serveMetrics answers GET /metrics while this process stands by: with its own figures, because each process is scraped. The active
// node checks the token.
func (f *front) serveMetrics(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), probeWithin)
	defer stop()
	header := http.Header{"Authorization": r.Header.Values("Authorization")}
	answer, err := f.ask(ctx, http.MethodHead, rest.MetricsPath, header)
	if err != nil {
		writeUnavailable(w, r, fault.New(fault.Unavailable, "no node of the cluster is active that could check the token").WithReason(reasonNoActive))
		return
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		f.remote.ServeHTTP(w, r)
		return
	}
	f.metrics.write(w)
}
