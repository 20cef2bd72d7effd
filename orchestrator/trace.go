package orchestrator

import (
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
)

// checkTrace checks the position of a caller in a trace.
func checkTrace(r api.SubmitRequest) error {
	if r.TraceParent != "" && !traces.IsContext(r.TraceParent) {
		return fault.New(fault.InvalidFormat, "is not a traceparent of W3C Trace Context").WithField("traceparent")
	}
	if _, ok := traces.ParseState(r.TraceState); r.TraceState != "" && !ok {
		return fault.New(fault.InvalidFormat, "is not a tracestate of W3C Trace Context").WithField("tracestate")
	}
	if r.TraceState != "" && r.TraceParent == "" {
		return fault.New(fault.RequiredField, "is missing beside tracestate").WithField("traceparent")
	}
	return nil
}
