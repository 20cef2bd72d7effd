package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/proc"
)

func TestDoctorSaysWhatIsEnforced(t *testing.T) {
	t.Parallel()
	all, old := proc.Support{Landlock: 7, Seccomp: true, Views: true, Loopback: true}, proc.Support{Landlock: 5, Seccomp: true}
	user := proc.Support{Landlock: 7, Seccomp: true}
	for _, tc := range []struct {
		mode string
		has  proc.Support
		ok   bool
		says string
	}{
		{"enforce", all, true, "enforce: Landlock 7, filter for system calls yes, changes of modes and owners bounded by a mount namespace for each program, loopback networks for tests yes"},
		{"required", all, true, "required: Landlock 7"},
		{"enforce", user, true, "changes of modes and owners made by the node for each program, loopback networks for tests no"},
		{"required", user, false, "programs of tools are refused, because this process cannot make mount namespaces: Landlock 7"},
		{"best-effort", all, true, "best-effort: Landlock 7"},
		{"enforce", old, false, "programs of tools are refused: Landlock 5"},
		{"enforce", proc.Support{}, false, "programs of tools are refused: Landlock none, filter for system calls no"},
		{"best-effort", old, true, "best-effort, and not all that it should be: Landlock 5"},
		{"off", all, true, "off: programs of tools may do all that this user may"},
	} {
		f := probeSandbox(tc.mode, tc.has)
		assert.Equal(t, tc.ok, f.OK, tc.says)
		assert.Contains(t, f.Says, tc.says)
		assert.Equal(t, tc.ok, f.Mend == "", tc.says)
	}
}

func TestDoctorSaysHowTracesStand(t *testing.T) {
	t.Parallel()
	const to = "http://127.0.0.1:4318"
	assert.Empty(t, traceFindings(nil))
	assert.Empty(t, traceFindings(&api.TracesView{View: "https://jaeger/{trace}"}))
	for _, tc := range []struct {
		view api.TracesView
		ok   bool
		says string
	}{
		{api.TracesView{To: to, Sent: 1234}, true, to + " has got 1,234 spans since the node started"},
		{api.TracesView{To: to, Sent: 1234, Refused: 2}, false, to + " has refused 2 spans since the node started, and taken 1,234"},
		{api.TracesView{To: to, Error: "cut", FailingSince: at(0)}, false, "the export fails since " + stamp(at(0)) + ": cut"},
		{
			api.TracesView{To: to, Error: "cut", FailingSince: at(9), Waiting: 3, Oldest: at(0)},
			false,
			to + " gets nothing since " + stamp(at(9)) + ": cut; tasks wait that have ended since " + stamp(at(0)),
		},
	} {
		all := traceFindings(&tc.view)
		assert.Len(t, all, 1)
		assert.Equal(t, tc.ok, all[0].OK)
		assert.Equal(t, tc.says, all[0].Says)
		assert.Equal(t, tc.ok, all[0].Mend == "")
	}
	failing := api.TracesView{To: to, Error: "the collector answers 401 Unauthorized", Waiting: 1}
	assert.Equal(t, "start the collector, or change traces_to; the log keeps what waits", traceFindings(&failing)[0].Mend)
	failing.Hint = "set OTEL_EXPORTER_OTLP_HEADERS"
	assert.Equal(t, "set OTEL_EXPORTER_OTLP_HEADERS; the log keeps what waits", traceFindings(&failing)[0].Mend)
	failing.Waiting = 0
	assert.Equal(t, "set OTEL_EXPORTER_OTLP_HEADERS", traceFindings(&failing)[0].Mend)
}
