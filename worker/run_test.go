package worker_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

func TestRunExecutesAndReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{Name: "w1", Queues: []string{"q"}, Tools: []string{"ECHO"}, Concurrency: 3}, echoTool())
		stop := b.run(t)
		c := call("ECHO", `{"text":"hello"}`)
		b.owner.calls <- []work.Call{c}
		out := <-b.owner.outcomes
		assert.Equal(t, c.Ref, out.Ref)
		assert.JSONEq(t, `{"text":"hello"}`, string(out.Output))
		assert.Equal(t, work.Poll{Worker: "w1", Queues: []string{"q"}, Tools: []string{"ECHO"}, Free: 3, Slots: 3, Wait: 20 * time.Second, LastBatch: 1}, b.owner.firstPoll())
		stop()
	})
}

// An attempt that is dispatched twice runs once.
func TestRepeatedCallRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, began := waitTool("WAIT")
		b := newBench(t, worker.Config{}, tool)
		stop := b.run(t)
		calls := b.give("WAIT", 1)
		<-began
		b.owner.calls <- calls
		b.noneReported(t)
		assert.Empty(t, began)
		b.owner.cancels <- []work.Ref{calls[0].Ref}
		<-b.owner.outcomes
		stop()
		assert.Empty(t, b.owner.outcomes)
	})
}

// A full worker still receives cancellations, and polls for calls as soon as a slot is free.
func TestCancelReachesAFullWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, began := waitTool("WAIT")
		b := newBench(t, worker.Config{Concurrency: 2}, tool)
		stop := b.run(t)
		calls := b.give("WAIT", 2)
		<-began
		<-began
		advance(10 * time.Millisecond)
		require.Equal(t, 0, b.owner.lastPoll().Free)

		b.owner.cancels <- []work.Ref{calls[1].Ref}
		out := <-b.owner.outcomes
		assert.Equal(t, calls[1].Ref, out.Ref)
		assert.Equal(t, fault.Cancelled, out.Error.Code)
		assert.Equal(t, "cancelled", out.Class)
		synctest.Wait()
		assert.Equal(t, 1, b.owner.lastPoll().Free)

		b.owner.cancels <- []work.Ref{calls[0].Ref, {Task: task, Step: "unknown", Attempt: 1}}
		<-b.owner.outcomes
		stop()
	})
}

// A slot that becomes free ends a poll that only waits for cancellations.
func TestFreeSlotEndsAnIdlePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, worker.Config{Concurrency: 1}, readTool("HOLD", func(context.Context, *tools.Env) (string, error) {
			<-release
			return "", nil
		}))
		stop := b.run(t)
		b.give("HOLD", 1)
		advance(10 * time.Millisecond)
		require.Equal(t, 0, b.owner.lastPoll().Free)
		begin := time.Now()
		close(release)
		<-b.owner.outcomes
		synctest.Wait()
		assert.Equal(t, 1, b.owner.lastPoll().Free)
		assert.Zero(t, time.Since(begin))
		stop()
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, _ := waitTool("WAIT")
		s := spec("SLOW", tools.Read)
		s.Timeout = 7 * time.Second
		slow := tools.Define(s, func(ctx context.Context, _ *tools.Env, _ none) (none, error) {
			<-ctx.Done()
			return none{}, ctx.Err()
		})
		b := newBench(t, worker.Config{}, tool, slow)
		own := call("WAIT", "{}")
		own.Timeout = 3 * time.Second
		for _, tc := range []struct {
			call work.Call
			want time.Duration
		}{
			{own, 3 * time.Second}, {call("SLOW", "{}"), 7 * time.Second}, {call("WAIT", "{}"), 2 * time.Minute},
		} {
			out := b.Execute(t.Context(), tc.call)
			assert.Equal(t, fault.Timeout, out.Error.Code)
			assert.Equal(t, "timeout", out.Class)
			assert.Equal(t, tc.want, out.Duration)
			assert.Contains(t, out.Error.Message, tc.want.String())
		}
	})
}

// hangTool ignores its context until it is released.
func hangTool(name string, release <-chan struct{}) tools.Tool {
	return readTool(name, func(context.Context, *tools.Env) (string, error) {
		<-release
		return "late", nil
	})
}

// A tool that ignores its context is abandoned after the grace period. If it holds half of the slots, its further calls fail at
// once, and other tools continue.
func TestToolsThatIgnoreTheEndAreAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, worker.Config{Concurrency: 4, Grace: 3 * time.Second}, hangTool("HANG", release), echoTool())
		stop := b.run(t)
		calls := b.give("HANG", 4)
		begin := time.Now()
		synctest.Wait()
		b.owner.cancels <- []work.Ref{calls[0].Ref, calls[1].Ref, calls[2].Ref, calls[3].Ref}
		for range calls {
			out := <-b.owner.outcomes
			assert.Equal(t, "cancelled", out.Class)
			assert.GreaterOrEqual(t, time.Since(begin), 3*time.Second)
		}
		b.give("HANG", 1)
		out := <-b.owner.outcomes
		require.NotNil(t, out.Error)
		assert.Equal(t, fault.ToolUnavailable, out.Error.Code)
		assert.Contains(t, out.Error.Message, "4 calls of HANG still run here")
		good := call("ECHO", `{"text":"x"}`)
		b.owner.calls <- []work.Call{good}
		assert.Nil(t, (<-b.owner.outcomes).Error)
		close(release)
		synctest.Wait()
		assert.Empty(t, b.owner.outcomes, "what they returned late is thrown away")
		assert.Equal(t, 4, strings.Count(b.log.String(), "is abandoned"))
		b.give("HANG", 1)
		assert.Nil(t, (<-b.owner.outcomes).Error, "the tool is called again")
		stop()
	})
}

// A worker whose slots are all held by abandoned tools reports that and ends.
func TestWorkerEndsWhenNothingCanRunAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, worker.Config{Concurrency: 1, Grace: time.Second}, hangTool("HANG", release), hangTool("HANG2", release))
		ended := make(chan error, 1)
		go func() { ended <- b.Run(t.Context()) }()
		for _, tool := range []string{"HANG", "HANG2"} {
			calls := b.give(tool, 1)
			synctest.Wait()
			b.owner.cancels <- []work.Ref{calls[0].Ref}
			<-b.owner.outcomes
			synctest.Wait()
		}
		assert.Equal(t, fault.Unavailable, fault.CodeOf(<-ended))
		close(release)
	})
}

// A tool that ends its goroutine fails its call.
func TestToolThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, readTool("GONE", func(context.Context, *tools.Env) (string, error) {
		runtime.Goexit()
		return "", nil
	}))
	out := b.Execute(t.Context(), call("GONE", "{}"))
	require.NotNil(t, out.Error)
	assert.Equal(t, fault.Internal, out.Error.Code)
	assert.Equal(t, "tool_error", out.Class)
}

// The stop is soft at first: running calls may end.
func TestDrainLetsCallsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{DrainTimeout: 10 * time.Second}, readTool("FIVE", func(ctx context.Context, _ *tools.Env) (string, error) {
			select {
			case <-time.After(5 * time.Second):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}))
		stop := b.run(t)
		c := call("FIVE", "{}")
		c.Lease = 3 * time.Second
		b.owner.calls <- []work.Call{c}
		synctest.Wait()
		begin := time.Now()
		stop()
		assert.Equal(t, 5*time.Second, time.Since(begin))
		assert.Nil(t, (<-b.owner.outcomes).Error)
		_, beats, _ := b.owner.count()
		assert.GreaterOrEqual(t, beats, 4, "the lease is renewed while the worker drains")
	})
}

// Then it is hard: running calls are cancelled and reported as a shutdown, even if they hang.
func TestHardStopReportsShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		wait, _ := waitTool("WAIT")
		b := newBench(t, worker.Config{DrainTimeout: 4 * time.Second, Grace: 3 * time.Second}, wait, readTool("HANG", func(context.Context, *tools.Env) (string, error) {
			<-release
			return "", nil
		}))
		stop := b.run(t)
		b.give("WAIT", 1)
		hang := call("HANG", "{}")
		hang.Step = "h"
		b.owner.calls <- []work.Call{hang}
		synctest.Wait()
		begin := time.Now()
		stop()
		assert.Equal(t, 7*time.Second, time.Since(begin))
		for range 2 {
			out := <-b.owner.outcomes
			assert.Equal(t, "shutdown", out.Class)
			assert.Equal(t, fault.Unavailable, out.Error.Code)
		}
	})
}

// Calls that arrive together with the stop are returned unexecuted.
func TestWorkThatComesWithTheStopIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, echoTool())
		ctx, cancel := context.WithCancel(t.Context())
		b.owner.onPoll = func(work.Poll) error {
			cancel()
			return nil
		}
		b.owner.calls <- []work.Call{call("ECHO", `{"text":"x"}`)}
		late := &lateOwner{owner: b.owner}
		w := b.withOwner(t, late, echoTool())
		require.NoError(t, w.Run(ctx))
		assert.Equal(t, "shutdown", (<-b.owner.outcomes).Class)
	})
}

// An outcome is reported until the owner is available again.
func TestReportOutlastsAnOwnerThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, echoTool())
		back := time.Now().Add(10 * time.Minute)
		b.owner.onReport = func(int) error {
			if time.Now().Before(back) {
				return unavailable()
			}
			return nil
		}
		stop := b.run(t)
		b.owner.calls <- []work.Call{call("ECHO", `{"text":"x"}`)}
		out := <-b.owner.outcomes
		assert.Nil(t, out.Error)
		assert.Less(t, time.Since(back), 3*time.Second)
		assert.Equal(t, out.Ref, b.owner.lastBeat().Calls[0].Ref, "the lease is renewed while the outcome waits")
		stop()
	})
}

// A report that is too late is not repeated. If the owner refuses it for another reason, the worker reports that reason
// instead, once.
func TestRefusedReportsEnd(t *testing.T) {
	t.Parallel()
	for refusal, want := range map[error]int{fault.New(fault.Conflict, "too late"): 1, fault.New(fault.ValidationError, "unreadable"): 2} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, worker.Config{}, echoTool())
			b.owner.onReport = func(int) error { return refusal }
			stop := b.run(t)
			b.owner.calls <- []work.Call{call("ECHO", `{"text":"x"}`)}
			advance(time.Minute)
			stop()
			_, _, reports := b.owner.count()
			assert.Equal(t, want, reports)
		})
	}
}

// A call whose outcome the owner cannot accept fails with the refusal, and the rest of the outcome is dropped.
func TestRefusedOutcomeFailsTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, readTool("LOG", func(_ context.Context, env *tools.Env) (string, error) {
			env.Record(events.LogWritten, &events.Logged{Level: "INFO", Message: "x"})
			return "x", nil
		}))
		b.owner.onReport = func(n int) error {
			if n == 1 {
				return fault.New(fault.ValidationError, "too large").WithField("facts").WithReason("SIZE_LIMIT_EXCEEDED")
			}
			return nil
		}
		stop := b.run(t)
		b.owner.calls <- []work.Call{call("LOG", `{}`)}
		out := <-b.owner.outcomes
		stop()
		assert.Equal(t, fault.New(fault.ValidationError, "too large").WithField("facts").WithReason("SIZE_LIMIT_EXCEEDED"), out.Error)
		assert.Equal(t, "tool_error", out.Class)
		assert.Empty(t, out.Output)
		assert.Empty(t, out.Facts)
	})
}

// A stopping worker ends its last poll, so that the owner dispatches no more calls to it.
func TestStopEndsThePoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, echoTool())
		stop := b.run(t)
		synctest.Wait()
		assert.Positive(t, b.owner.lastPoll().Free)
		stop()
		last := b.owner.lastPoll()
		assert.Zero(t, last.Free)
		assert.Zero(t, last.Wait)
	})
}

// A worker whose owner does not come back ends anyway.
func TestStopWithoutAnOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{DrainTimeout: 4 * time.Second, Grace: time.Second}, echoTool())
		b.owner.onReport = func(int) error { return unavailable() }
		stop := b.run(t)
		b.owner.calls <- []work.Call{call("ECHO", `{"text":"x"}`)}
		synctest.Wait()
		begin := time.Now()
		stop()
		assert.Equal(t, 7*time.Second, time.Since(begin))
		assert.Contains(t, b.log.String(), "could not be reported")
	})
}

// A worker repeats requests to an owner that is down, and ends if the owner refuses it.
func TestPollFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, echoTool())
		polls := 0
		b.owner.onPoll = func(work.Poll) error {
			if polls++; polls <= 20 {
				return unavailable()
			}
			return fault.New(fault.Unauthorized, "the credential is wrong")
		}
		err := b.Run(t.Context())
		require.ErrorIs(t, err, &fault.Error{Code: fault.Unauthorized})
		assert.Equal(t, 21, polls)
		assert.Equal(t, 1, strings.Count(b.log.String(), "cannot be asked"))
	})
}

// A worker ends if the owner is of a version that does not know its requests, and says so.
func TestPollOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, code := range []fault.Code{fault.NewerRequest, fault.MethodNotFound, fault.InvalidParams} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, worker.Config{}, echoTool())
			b.owner.onPoll = func(work.Poll) error { return fault.New(code, "is not known").WithField("mood") }
			err := b.Run(t.Context())
			require.ErrorIs(t, err, &fault.Error{Code: fault.NewerRequest})
			assert.Contains(t, err.Error(), "mood: is not known")
			assert.Contains(t, fault.From(err).Hint, "for the node")
		})
	}
}

// A call whose attempt is not current any more is neither made nor reported.
func TestStartConflictIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, touchTool(t))
		b.owner.onStart = func(context.Context, int) error { return fault.New(fault.Conflict, "attempt 2 runs") }
		stop := b.run(t)
		b.owner.calls <- []work.Call{call("TOUCH", `{"file_path":"`+b.root.Name()+`/x"}`)}
		b.noneReported(t)
		assert.NoFileExists(t, b.root.Name()+"/x")
		stop()
		_, _, reports := b.owner.count()
		assert.Zero(t, reports)
	})
}

// A cancellation also ends a call that waits for the answer to Start.
func TestCancelWhileTheStartWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{}, touchTool(t))
		b.owner.onStart = func(context.Context, int) error { return unavailable() }
		stop := b.run(t)
		c := call("TOUCH", `{"file_path":"`+b.root.Name()+`/x"}`)
		b.owner.calls <- []work.Call{c}
		advance(time.Minute)
		b.owner.cancels <- []work.Ref{c.Ref}
		assert.Equal(t, "cancelled", (<-b.owner.outcomes).Class)
		assert.NoFileExists(t, b.root.Name()+"/x")
		stop()
	})
}

// While too many outcomes wait for the owner, the worker accepts no calls.
func TestUnreportedOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, worker.Config{Concurrency: 4, MaxUnreported: 3}, echoTool())
		away := true
		b.owner.onReport = func(int) error {
			if away {
				return unavailable()
			}
			return nil
		}
		stop := b.run(t)
		for i := range 3 {
			c := call("ECHO", `{"text":"x"}`)
			c.Attempt = i + 1
			b.owner.calls <- []work.Call{c}
		}
		advance(time.Minute)
		assert.Equal(t, 0, b.owner.lastPoll().Free)
		b.owner.mu.Lock()
		away = false
		b.owner.mu.Unlock()
		for range 3 {
			<-b.owner.outcomes
		}
		synctest.Wait()
		assert.Positive(t, b.owner.lastPoll().Free)
		stop()
	})
}

// Every call is reported exactly once, however many run concurrently.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	const n = 2000
	b := newBench(t, worker.Config{Concurrency: 16}, echoTool())
	stop := b.run(t)
	go func() {
		for i := range n / 10 {
			calls := make([]work.Call, 10)
			for j := range calls {
				calls[j] = call("ECHO", `{"text":"x"}`)
				calls[j].Attempt = 10*i + j
			}
			b.owner.calls <- calls
		}
	}()
	seen := map[int]bool{}
	for range n {
		out := <-b.owner.outcomes
		assert.Nil(t, out.Error)
		assert.False(t, seen[out.Attempt])
		seen[out.Attempt] = true
	}
	stop()
	assert.Empty(t, b.owner.outcomes)
}

// The end of its context ends a single call.
func TestExecuteEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tool, began := waitTool("WAIT")
		b := newBench(t, worker.Config{}, tool)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		assert.Equal(t, "cancelled", b.Execute(ctx, call("WAIT", "{}")).Class)
		assert.Equal(t, "cancelled", b.Execute(ctx, call("WAIT", "{}")).Class)
		assert.Empty(t, began, "the second one was not even made")
	})
}
