package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxContext is the maximum size of the context of a log entry in bytes, because it is stored in the event itself.
const maxContext = 64 << 10

type logWriteIn struct {
	Level   string       `json:"level" jsonschema:"Severity" enum:"DEBUG,INFO,WARN,ERROR,CRITICAL"`
	Message string       `json:"message" jsonschema:"Log message" maxLength:"65536"`
	Context tools.Object `json:"context,omitempty" jsonschema:"Additional context data, at most 64 KiB"`
}

type logWriteOut struct {
	Written   bool      `json:"written" jsonschema:"Always true"`
	Timestamp time.Time `json:"timestamp" jsonschema:"Time of the entry"`
}

// logWrite is LOG_WRITE (S0-150, S0-151).
var logWrite = tools.Define(tools.Spec{
	Name:        "LOG_WRITE",
	Title:       "Write to the log",
	Purpose:     "Write entry to execution log",
	Conditions:  []string{"Any task state", "Always allowed"},
	Effect:      tools.Idempotent,
	Gate:        tools.AnyState,
	Approval:    tools.NoApproval,
	NoWorkspace: true,
	LogOnly:     true,
}, func(_ context.Context, env *tools.Env, in logWriteIn) (logWriteOut, error) {
	if len(in.Context) > maxContext {
		return logWriteOut{}, fault.New(fault.ValidationError, "must have at most %d bytes", maxContext).
			WithField("context").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	at := events.Time(env.Now())
	env.Record(events.LogWritten, &events.Logged{
		Step: env.Step, Level: in.Level, Message: in.Message, Context: json.RawMessage(in.Context), At: at,
	})
	return logWriteOut{Written: true, Timestamp: at}, nil
})
