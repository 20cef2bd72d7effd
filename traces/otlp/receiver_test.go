package otlp_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

// The receiver of the OpenTelemetry Collector gets the spans that the fold has made, with all that they have.
func TestCollectorReceivesTheFold(t *testing.T) {
	t.Parallel()
	receive, address := startReceiver(t)
	body, err := otlp.Source{Version: "1.2.3"}.Encode(history(t))
	require.NoError(t, err)
	url, err := otlp.TracesURL("http://" + address)
	require.NoError(t, err)
	collector := &otlp.Collector{URL: url, Header: http.Header{}, Client: &http.Client{Timeout: 10 * time.Second}}
	for range 2 { // a repeated export has the same spans
		require.NoError(t, collector.Send(t.Context(), body))
		require.True(t, receive.Scan(), receive.Err())
		received := strings.ReplaceAll(receive.Text(), `,"status":{}`, "") // the receiver writes also a status that is unset
		assert.JSONEq(t, string(body), received)
	}
	page := `{"trace":"4bf92f3577b34da6a3ce929d0e0e4736","spans":5,"open":0,"next":7,` + strings.TrimPrefix(string(body), "{")
	require.NoError(t, collector.Send(t.Context(), []byte(page)), "an answer of GET /tasks/{id}/trace is a request too")
	require.True(t, receive.Scan(), receive.Err())
	assert.JSONEq(t, string(body), strings.ReplaceAll(receive.Text(), `,"status":{}`, ""))
	broken := collector.Send(t.Context(), []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xyz"}]}]}]}`))
	assert.Equal(t, fault.NetworkError, fault.From(broken).Code, "the receiver reads what it gets")
}

// history returns the spans of a task with a caller, a retried call, an approval, an agent and a failure.
func history(t *testing.T) []traces.Span {
	t.Helper()
	const task = events.TaskID("TASK_01M8HX1ARCG7ZDBTAJP0BRM23R")
	sub := &events.Submitted{
		Name: "release ü", Queue: "q", Priority: "high", PlanSHA256: "ab", Labels: map[string]string{"team": "<a&b>"},
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "rojo=1,congo=t61",
	}
	lost := &events.Retrying{Step: "a", Attempt: 1, Error: fault.New(fault.WorkerLost, "gone"), Class: fault.ClassWorkerLost}
	fold, now := traces.NewFold(task), time.Unix(1_800_000_000, 123456789)
	var spans []traces.Span
	list := []events.Event{{Kind: events.TaskSubmitted, Data: sub}}
	for range 130 { // more than a span has
		list = append(list, events.Event{Kind: events.SignalReceived, Data: &events.Signal{Name: "go"}})
	}
	for _, e := range append(list, []events.Event{
		{Kind: events.TaskStarted, Data: &events.Moved{}},
		{Kind: events.ApprovalRequested, Data: &events.Approval{ID: "APR_1", Step: "a", Type: "tool", Priority: "high"}},
		{Kind: events.ApprovalGranted, Data: &events.Decision{ID: "APR_1"}},
		{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 1, Tool: "GIT_PUSH", Approval: "APR_1", Effect: "write"}},
		{Kind: events.StepCalled, Data: &events.Called{Step: "a", Attempt: 1, Worker: "w"}},
		{Kind: events.StepRetrying, Data: lost},
		{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 2, Tool: "GIT_PUSH", Approval: "APR_1"}},
		{Kind: events.StepCalled, Data: &events.Called{Step: "a", Attempt: 2}},
		{Kind: events.StepFailed, Data: &events.StepError{Step: "a", Attempt: 2, Error: fault.New(fault.ToolFailed, "no\n\"way\""), Duration: time.Millisecond}},
		{Kind: events.TaskFailed, Data: &events.Moved{Error: fault.New(fault.ToolFailed, "step a failed")}},
	}...) {
		now = now.Add(time.Second)
		spans = append(spans, fold.Add(now, "user:ada", []events.Event{e})...)
	}
	require.Zero(t, fold.Open())
	require.Len(t, spans, 5)
	trace, err := traces.OfTask(task, sub)
	require.NoError(t, err)
	assert.Equal(t, trace, fold.Trace())
	return spans
}

// startReceiver starts the receiver and returns the lines that it writes, one for each request, and its address.
func startReceiver(t *testing.T) (lines *bufio.Scanner, address string) {
	t.Helper()
	need.Program(t, "go")
	program := filepath.Join(t.TempDir(), "collector")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = "../../test/collector", append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = l.Addr().String()
	require.NoError(t, l.Close())
	receiver := exec.CommandContext(t.Context(), program, address)
	receiver.Stderr = os.Stderr
	receiver.Cancel = func() error { return receiver.Process.Signal(os.Interrupt) }
	stdout, err := receiver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, receiver.Start())
	t.Cleanup(func() { _ = receiver.Wait() })
	lines = bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan(), lines.Err())
	require.Equal(t, "listening", lines.Text())
	return lines, address
}
