package tools

import "github.com/orch-dev/orch/traces"

// TraceParent returns the position of the call in the trace of its task, as W3C Trace Context writes it. Programs that the call asks
// make their spans below it. It is empty outside a task.
func (e *Env) TraceParent() string {
	c, err := traces.OfCall(e.Trace, e.Task, e.Step, e.Attempt)
	if err != nil {
		return ""
	}
	return c.String()
}
