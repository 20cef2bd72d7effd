// Package traces tests the export of traces with processes: orch, and the receiver of the OpenTelemetry Collector.
package traces
