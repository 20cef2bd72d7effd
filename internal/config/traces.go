package config

import (
	"net/url"
	"strings"
)

// Traces says where a node sends the spans of tasks, and where people see them.
type Traces struct {
	// To is the address of a collector; "" for none.
	To string
	// View is the URL of a trace in a backend, with TraceID in place of the id; "" for none.
	View string
}

// TraceID is what stands for the id of a trace in Traces.View.
const TraceID = "{trace}"

// traceKeys are the settings of traces.
func traceKeys() []Key {
	return []Key{
		{
			Name: "traces_to", Node: true, Personal: true, check: collectorURL,
			Usage: "address of an OpenTelemetry collector that gets the spans of each task that ends, such as http://127.0.0.1:4318; empty for none. OTEL_EXPORTER_OTLP_HEADERS sets headers",
			field: func(c *Config) any { return &c.Traces.To },
		},
		{
			Name: "traces_view", Node: true, Personal: true, check: traceView,
			Usage: "URL of a trace in a tracing backend, such as https://jaeger.example.com/trace/{trace}, for the page; empty for none",
			field: func(c *Config) any { return &c.Traces.View },
		},
	}
}

// collectorURL checks the address of a collector.
func collectorURL(text string) string {
	if wrong := webURL(text); wrong != "" {
		return wrong
	}
	if u, err := url.Parse(text); err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "it must have neither a query nor a fragment; OTEL_EXPORTER_OTLP_HEADERS is for tokens"
	}
	return ""
}

// traceView checks the URL of a trace.
func traceView(text string) string {
	const some = "0af7651916cd43dd8448eb211c80319c"
	whole := strings.ReplaceAll(text, TraceID, some)
	if wrong := webURL(whole); wrong != "" {
		return wrong
	}
	if u, err := url.Parse(whole); err != nil || whole == text || strings.Contains(u.Host, some) {
		return "it must have " + TraceID + " in place of the id of the trace, behind the host"
	}
	return ""
}
