package node

import (
	"context"
	"os"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/metrics"
	"github.com/orch-dev/orch/traces/exporter"
	"github.com/orch-dev/orch/traces/otlp"
)

// startTraces reads how far the spans of tasks were sent. A temporary node leaves them to permanent ones.
func (n *Node) startTraces(ctx context.Context) error {
	if n.cfg.Traces.To == "" || n.cfg.Guest != "" {
		return nil
	}
	collector, err := n.collector(os.Getenv)
	if err != nil {
		return err
	}
	source, err := n.source(os.Getenv)
	if err != nil {
		return err
	}
	n.traces = exporter.New(exporter.Config{
		Log: n.store, Open: opens(n.host, bus.TracesJournal, ofState), Collector: collector, Source: source, Logger: n.cfg.logger(),
	})
	n.onStop(func(context.Context) error { collector.Client.CloseIdleConnections(); return nil })
	return n.traces.Start(ctx)
}

// runTraces sends the spans of tasks that have ended.
func (n *Node) runTraces(ctx context.Context) error {
	if n.traces == nil {
		return nil
	}
	return n.runService(ctx, n.traces.Run)
}

// collector returns the collector of the settings.
func (h *host) collector(getenv func(string) string) (*otlp.Collector, error) {
	header, err := otlp.ParseHeaders(getenv(otlp.HeadersVariable))
	if err != nil {
		return nil, err
	}
	collector, err := otlp.NewCollector(h.cfg.Traces.To, header)
	if err != nil {
		return nil, fault.From(err).WithField("traces_to")
	}
	collector.Once = true // the exporter tries again, and says so at the first failure
	return collector, nil
}

// source describes the node as the source of spans.
func (h *host) source(getenv func(string) string) (otlp.Source, error) {
	host, id := instanceOf(h.cfg.DataDir)
	return otlp.Source{Version: h.cfg.Version, Host: host, Instance: id}.From(getenv)
}

// tracesStatus returns how the export of traces stands; nil if traces are neither exported nor shown.
func (h *host) tracesStatus() *api.TracesView {
	v := api.TracesView{To: h.cfg.Traces.To, View: h.cfg.Traces.View}
	if h.traces == nil {
		if v.To = ""; v.View == "" {
			return nil
		}
		return &v
	}
	f := h.traces.Figures()
	v.Sent, v.Refused, v.Waiting, v.Error, v.Hint = f.Sent, f.Refused, f.Waiting, f.Error, f.Hint
	v.Oldest, v.FailingSince = f.Oldest, f.Since
	return &v
}

// tracesMetrics returns the figures of the export of traces; nil without one.
func (h *host) tracesMetrics() *metrics.Traces {
	if h.traces == nil {
		return nil
	}
	return &metrics.Traces{Oldest: h.traces.Figures().Oldest}
}
