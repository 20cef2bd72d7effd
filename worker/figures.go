package worker

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/histogram"
	"github.com/orch-dev/orch/work"
)

// What became of calls, beside the classes of failed attempts (fault.ClassTimeout and so on).
const (
	// Succeeded calls have a result.
	Succeeded = "succeeded"
	// Continued calls wait for a person, an agent or a child task, or go on outside of the worker.
	Continued = "continued"
)

// endings returns all that can become of calls.
func endings() []string {
	return []string{
		Succeeded, Continued, fault.ClassTimeout, fault.ClassTransport, fault.ClassToolError, fault.ClassRateLimited, fault.ClassDenied, fault.ClassInvalidArgs,
		fault.ClassToolNotFound, fault.ClassShutdown, fault.ClassWorkerLost, fault.ClassCancelled,
	}
}

// Figures are what a worker reports about itself.
type Figures struct {
	// Slots is the number of calls that run at the same time, Running the number of those that run, Unreported that of the outcomes that
	// wait for the owner, and Abandoned that of the tools that still run after their calls have ended.
	Slots, Running, Unreported, Abandoned int
	// Ended counts the calls that have ended, by what became of them, and Took is how long they took.
	Ended map[string]uint64
	Took  *histogram.Counts
	// ReportFailures counts the attempts to report an outcome that have failed, PollFailures those to ask for work.
	ReportFailures, PollFailures uint64
}

// counts counts what a worker does.
type counts struct {
	reportFailures, pollFailures atomic.Uint64
	took                         *histogram.Histogram

	mu    sync.Mutex
	ended map[string]uint64
}

// newCounts returns counts of nothing. The buckets suit calls, from short ones to builds.
func newCounts() *counts {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	c := &counts{took: histogram.Of(5*ms, 25*ms, 100*ms, 500*ms, 2*s, 10*s, 30*s, 2*m, 10*m, 60*m), ended: map[string]uint64{}}
	for _, ending := range endings() {
		c.ended[ending] = 0
	}
	return c
}

// add counts a call that has ended.
func (c *counts) add(o *work.Outcome) {
	c.took.Observe(o.Duration)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[endingOf(o)]++
}

// endingOf returns what became of a call.
func endingOf(o *work.Outcome) string {
	switch {
	case o.Error != nil:
		return o.Class
	case o.Output == nil:
		return Continued
	default:
		return Succeeded
	}
}

// Figures returns what the worker has done and does.
func (w *Worker) Figures() Figures {
	f := w.attempts.figures()
	f.Took, f.ReportFailures, f.PollFailures = w.counts.took.Counts(), w.counts.reportFailures.Load(), w.counts.pollFailures.Load()
	w.counts.mu.Lock()
	defer w.counts.mu.Unlock()
	f.Ended = maps.Clone(w.counts.ended)
	return f
}
