package orchestrator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// core is shared by all parts of an orchestrator. It holds the configuration, the lock, the background jobs, the timers and the
// counters.
type core struct {
	cfg     Config
	started time.Time
	ready   chan struct{}
	stopped chan struct{}
	// log is cfg.Log, wrapped to track which positions have been processed.
	log *trackedLog

	rules decide.Rules

	// mu guards the state of all parts. Comments of this package that say "mu must be held" mean this mutex. It is not held
	// during I/O, except for the scan of heads at the start. Appends and reads wait in outbox until mu is released (see
	// unlock).
	mu     sync.Mutex
	outbox []func()
	// held, if it is set, receives how long mu was held since lockedAt. Benchmarks set it.
	held     func(time.Duration)
	lockedAt time.Time
	// turnStarted is when the newest decision started.
	turnStarted time.Time
	// deferred holds the I/O that sendDeferred does. send wakes sendDeferred.
	deferred []func()
	send     chan struct{}
	timers   timers
	quota    quota
	// loss is the error of the first history that could not be read completely. Nothing is appended after it.
	loss *fault.Error
	// spawnJob starts a goroutine that Run waits for. It is nil before Run and after it has ended.
	spawnJob func(job func(ctx context.Context))
	// jobs counts the running jobs. sending is set while sendDeferred does I/O.
	jobs    int
	sending bool
	// removed counts the tasks that retention has removed since the start. removalFails is set if its last run has failed.
	removed      atomic.Int64
	removalFails atomic.Bool
}

func newCore(cfg Config) *core {
	log := &trackedLog{Log: cfg.Log, inFlight: map[uint64]flight{}}
	cfg.Log = log
	return &core{
		cfg: cfg, started: cfg.Clock(), log: log, rules: cfg.rules(),
		ready: make(chan struct{}), stopped: make(chan struct{}), send: make(chan struct{}, 1),
		timers: newTimers(), quota: quota{each: map[string]int{}, stepsEach: map[string]int{}},
	}
}

func (c *core) setSpawn(spawn func(job func(context.Context))) {
	c.lock()
	defer c.unlock()
	c.spawnJob = spawn
}

// background runs a job that Run waits for. Its context ends with that of Run. If Run has ended, it calls refused instead, with
// mu held.
func (c *core) background(job func(ctx context.Context), refused func()) {
	c.lock()
	defer c.unlock()
	if c.spawnJob == nil {
		refused()
		return
	}
	c.spawnJob(c.counted(job))
}

func stopping() error {
	return fault.New(fault.Unavailable, "the node is stopping").WithHint("try again on a running node")
}

// Ready returns a channel that is closed when the log has been read and commands are accepted.
func (c *core) Ready() <-chan struct{} { return c.ready }

// serving returns UNAVAILABLE while the orchestrator cannot accept commands.
func (c *core) serving() error {
	select {
	case <-c.stopped:
		return stopping()
	default:
	}
	select {
	case <-c.ready:
		return nil
	default:
		return fault.New(fault.Unavailable, "the node is still reading its log").WithHint("try again in a moment")
	}
}

func (c *core) lock() {
	c.mu.Lock()
	if c.held != nil {
		c.lockedAt = time.Now()
	}
}

// release releases mu.
func (c *core) release() {
	if c.held != nil {
		c.held(time.Since(c.lockedAt))
	}
	c.mu.Unlock()
}

// unlock releases mu and then does the I/O in the outbox.
func (c *core) unlock() {
	out := c.outbox
	c.outbox = nil
	c.release()
	for _, send := range out {
		send()
	}
}

// unlockAnswer releases mu in a callback of the log, which must not block. Another goroutine does the I/O in the outbox.
func (c *core) unlockAnswer() {
	idle := len(c.outbox) == 0
	c.deferred = append(c.deferred, c.outbox...)
	c.outbox = nil
	c.release()
	if idle {
		return
	}
	select {
	case c.send <- struct{}{}:
	default:
	}
}

// sendDeferred does the I/O that unlockAnswer deferred, until ctx ends.
func (c *core) sendDeferred(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.send:
		}
		c.lock()
		out := c.deferred
		c.deferred, c.sending = nil, true
		c.unlock()
		for _, send := range out {
			send()
		}
		c.lock()
		c.sending = false
		c.unlock()
	}
}

func (c *core) now() time.Time { return events.Time(c.cfg.Clock()) }

// counted wraps a job so that it counts in jobs until it has ended. mu must be held.
func (c *core) counted(job func(context.Context)) func(context.Context) {
	c.jobs++
	return func(ctx context.Context) {
		job(ctx)
		c.lock()
		defer c.unlock()
		c.jobs--
	}
}
