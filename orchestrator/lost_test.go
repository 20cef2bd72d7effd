package orchestrator_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/work"
)

// lossy is a log whose blob store has lost every value but one.
type lossy struct {
	*memlog.Log
	kept string
}

// Get implements events.Blobs.
func (l *lossy) Get(ctx context.Context, ref string) ([]byte, error) {
	if ref == l.kept {
		return l.Log.Get(ctx, ref)
	}
	return nil, fault.New(fault.DataLoss, "the content of %s does not fit", ref)
}

func largeOutput() string {
	return `{"text":"` + strings.Repeat("x", 100_000) + `"}`
}

// loseOutput runs step a of a plan, gives it a large output, and restarts the node without that output.
func loseOutput(t *testing.T, plan string) (*node, events.TaskID) {
	t.Helper()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(plan)
	require.NoError(t, n.report("w", n.take("w"), largeOutput()))
	n.stop()
	return start(t, log, func(c *orchestrator.Config) { c.Blobs = &lossy{Log: log} }), id
}

// A lost value fails the step whose expression needs it. Views show the reference.
func TestLostValue(t *testing.T) {
	t.Parallel()
	plan := "orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], wait: {signal: go}}\n" +
		"  - {id: c, needs: [b], tool: READ, with: {text: \"${{ steps.a.output.text }}\"}}\n"
	n, id := loseOutput(t, plan)
	_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	failed := n.step(id, "c")
	require.NotNil(t, failed.Error)
	assert.Equal(t, fault.DataLoss, failed.Error.Code)
	var shown struct {
		Blob  string       `json:"$blob"`
		Size  int          `json:"size"`
		Error *fault.Error `json:"error"`
	}
	require.NoError(t, json.Unmarshal(n.step(id, "a").Output, &shown))
	assert.Equal(t, events.Offloaded(json.RawMessage(largeOutput())).Ref(), shown.Blob)
	assert.Equal(t, len(largeOutput()), shown.Size)
	assert.Equal(t, fault.DataLoss, shown.Error.Code)
	n.checkIdle()
}

// Outputs and items of a for_each that need a lost value fail too.
func TestLostValueElsewhere(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{
		"outputs":   "  - {id: b, needs: [a], wait: {signal: go}}\noutputs: {t: \"${{ steps.a.output.text }}\"}\n",
		"condition": "  - {id: b, needs: [a], wait: {signal: go}}\n  - {id: c, needs: [b], if: \"steps.a.output.text == ''\", set: {x: 1}}\n",
		"set":       "  - {id: b, needs: [a], wait: {signal: go}}\n  - {id: c, needs: [b], set: {x: \"${{ steps.a.output.text }}\"}}\n",
		"items":     "  - {id: b, needs: [a], wait: {signal: go}}\n  - {id: c, needs: [b], for_each: \"[steps.a.output.text]\", do: [{id: d, tool: READ}]}\n",
	} {
		n, id := loseOutput(t, "orch: v1\nsteps:\n  - {id: a, tool: READ}\n"+rest)
		_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go"})
		require.NoError(t, err, name)
		r := n.result(id)
		assert.Equal(t, statemachine.Failed, r.State, name)
		assert.Equal(t, fault.DataLoss, r.Error.Code, name)
		n.stop()
	}
}

// A call with lost arguments fails. A lost result is shown as its reference.
func TestLostArguments(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(readOf("${{ inputs.x }}"), big(t, "x", 100<<10))
	n.stop()
	inputs := events.Offloaded(json.RawMessage(`{"x":"` + strings.Repeat("x", 100<<10) + `"}`))
	n = start(t, log, func(c *orchestrator.Config) { c.Blobs = &lossy{Log: log, kept: inputs.Ref()} })
	n.none("w")
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Equal(t, fault.DataLoss, n.step(id, "a").Error.Code)
	n.checkIdle()
}

// stubborn is a log that does not archive some tasks.
type stubborn struct {
	*memlog.Log
	mu    sync.Mutex
	keeps map[events.TaskID]error
	tries map[events.TaskID]int
}

// Archive implements events.Log.
func (s *stubborn) Archive(ctx context.Context, id events.TaskID) error {
	s.mu.Lock()
	s.tries[id]++
	err := s.keeps[id]
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Log.Archive(ctx, id)
}

// A task that cannot be archived is retried now and then, and blocks no other.
func TestArchivingGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &stubborn{Log: memlog.New(memlog.Config{}), keeps: map[events.TaskID]error{}, tries: map[events.TaskID]int{}}
		n := start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Limits.ArchiveAfter = log, time.Minute })
		n.serve(echoArgs)
		var ids []events.TaskID
		for range 5 {
			ids = append(ids, n.submit(onePlan))
		}
		log.mu.Lock()
		log.keeps[ids[0]] = fault.New(fault.DataLoss, "damaged")
		log.mu.Unlock()
		<-time.After(5 * time.Minute)
		assert.False(t, n.get(ids[0]).Archived)
		for _, id := range ids[1:] {
			assert.True(t, n.get(id).Archived)
		}
		<-time.After(20 * time.Minute)
		log.mu.Lock()
		assert.InDelta(t, 3, log.tries[ids[0]], 1)
		delete(log.keeps, ids[0])
		log.mu.Unlock()
		<-time.After(11 * time.Minute)
		assert.True(t, n.get(ids[0]).Archived)
	})
}

// Resolving a step of an ended task cannot run the step again.
func TestResolveAsRetryAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(writePlan)
		require.NoError(t, n.Start(context.Background(), startedBy("w", n.take("w"))))
		<-time.After(3 * time.Second)
		require.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
		require.NoError(t, n.cancel(id))
		_, err := n.Resolve(context.Background(), api.ResolveRequest{ID: id, Step: "a", As: "retry"})
		hasCode(t, err, fault.StateNotAllowed)
		assert.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
		_, err = n.Resolve(context.Background(), api.ResolveRequest{ID: id, Step: "a", As: "failed"})
		require.NoError(t, err)
		assert.Equal(t, statemachine.StepFailed, n.step(id, "a").State)
	})
}

func TestHoldsAreBounded(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := start(t, memlog.New(memlog.Config{}))
	for i := range 1000 {
		n.pause(api.PauseRequest{Queue: "q" + strconv.Itoa(i)})
	}
	_, err := n.Pause(context.Background(), api.PauseRequest{Node: true})
	hasCode(t, err, fault.QuotaExceeded)
	n.pause(api.PauseRequest{Queue: "q1", Reason: "again"})
	n.resume(api.PauseRequest{Queue: "q1"})
	n.pause(api.PauseRequest{Node: true})
}

// A tool that cannot tell whether its call has happened leaves it in doubt, if a second call may do harm.
func TestToolInDoubt(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for plan, want := range map[string]statemachine.StepState{
		oneWrite: statemachine.StepInDoubt,
		`{"orch":"v1","steps":[{"id":"a","tool":"READ"}]}`: statemachine.StepFailed,
	} {
		id := n.submit(plan)
		c := n.begun("w")
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: c.Ref, Worker: "w", StartedAt: time.Now(), Class: "tool_error", Error: fault.New(fault.InDoubt, "the connection was lost"),
		}))
		assert.Equal(t, want, n.step(id, "a").State, plan)
	}
}

// What a call has started elsewhere may be lost. A person who lets the call be repeated has it started again.
func TestBegunAnew(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.note("w", n.begun("w"), handle))
	c := n.take("w")
	assert.True(t, c.Away)
	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: c.Ref, Worker: "w", StartedAt: time.Now(), Class: "tool_error", Error: fault.New(fault.InDoubt, "nobody knows the job"),
	}))
	require.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
	_, err := n.Resolve(n.ctx(), api.ResolveRequest{ID: id, Step: "a", As: "retry", Actor: "user:ada"})
	require.NoError(t, err)
	c = n.begun("w")
	assert.Empty(t, c.Note)
	assert.False(t, c.Away)
	assert.True(t, c.Anew)
	require.NoError(t, n.note("w", c, "{}", elicit("who")))
	_, err = n.answer(n.open().ID, ada)
	require.NoError(t, err)
	assert.False(t, n.take("w").Anew, "it has asked since")
}
