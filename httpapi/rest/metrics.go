package rest

import (
	"bytes"
	"net/http"
)

// MetricsPath is the path of the metrics for Prometheus.
const MetricsPath = "/metrics"

// metricsType is the content type of the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// toolSystemStatus shows similar figures as the metrics.
const toolSystemStatus = "system.getSystemStatus"

// metricsRoute returns the route of the metrics. It is outside of the API, and not in its description: scrapers expect it at the root.
func metricsRoute() route {
	r := plain(http.MethodGet, MetricsPath, "metrics", "Read the metrics of the node.", readsAll, toolSystemStatus, nothing())
	return r.streams((*Server).writeMetrics, metricsType)
}

// writeMetrics answers GET /metrics.
func (s *Server) writeMetrics(x *exchange, _ any) error {
	var out bytes.Buffer
	if err := s.cfg.Metrics(x.r.Context(), &out); err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", metricsType)
	_, _ = x.w.Write(out.Bytes()) // the client may be gone
	return nil
}
