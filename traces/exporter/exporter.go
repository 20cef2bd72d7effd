// Package exporter sends the spans of tasks to a collector when the tasks have ended.
//
// The log is the queue: a cursor moves along it, and is recorded in a journal after the spans were sent. What was sent after the last
// record is sent again after a crash, with the same ids. While the collector takes nothing the cursor stands, and the log keeps the rest.
package exporter

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

// Collector takes the spans. *otlp.Collector implements it.
type Collector interface {
	Send(ctx context.Context, body []byte) error
}

// Config configures an Exporter. Log, Open and Collector are required.
type Config struct {
	Log follow.Log
	// Open opens the journal of the cursor.
	Open      journaled.Open
	Collector Collector
	Source    otlp.Source
	// Interval is the time between two looks at the log. Default 1 s.
	Interval time.Duration
	// Pause is how long the pause after a failure is at most. Default 30 s.
	Pause time.Duration
	// Every is how often the cursor is recorded at most. Default 5 s.
	Every  time.Duration
	Logger *slog.Logger
}

const (
	// maxTasks is the number of finished tasks with which a look at the log ends.
	maxTasks = 1000
	// maxUnrecorded is the number of commits after which the cursor is recorded, and busy the number of commits of a look that the next
	// one follows at once.
	maxUnrecorded = 10_000
	busy          = 1000
	// firstPause is how long the first pause after a failure is at most.
	firstPause = time.Second
)

// Exporter sends the spans of the tasks of a node.
type Exporter struct {
	cfg Config
	log *slog.Logger

	// Only the goroutine of Run uses these fields once Start has returned.
	state *journaled.State[change]
	// begun is set once there is a cursor. recorded is what the journal has, since recordedAt.
	begun            bool
	cursor, recorded follow.Cursor
	recordedAt       time.Time
	// next is the cursor after the tasks in Figures.ended; more is set if there may be others at once.
	next     follow.Cursor
	more     bool
	failures int
	passing  passing
	// refusing is set after the collector has refused spans, until it has taken some.
	refusing bool

	mu sync.Mutex
	// ended are the tasks whose spans are not yet sent.
	ended   []ended
	figures Figures
}

// ended is a task that has ended.
type ended struct {
	task events.TaskID
	at   time.Time
	// spans are its spans if the look has seen its whole history; nil if they have to be read.
	spans []traces.Span
}

// change is an entry of the journal.
type change struct {
	Cursor follow.Cursor `json:"cursor"`
}

// Figures are what a node reports about its export.
type Figures struct {
	// Sent counts the spans that the collector has taken since the node started, Refused those that it has refused.
	Sent, Refused int
	// Waiting is the number of tasks that are known to wait, at most about a thousand. Oldest is the end of the oldest of them; zero for
	// none.
	Waiting int
	Oldest  time.Time
	// Error is why the last attempt has failed, Hint what to do about it, if that is known, and Since when the first one in a row has
	// failed; empty if it has not.
	Error, Hint string
	Since       time.Time
}

// New returns an exporter that does nothing until Start.
func New(cfg Config) *Exporter {
	cfg.Interval, cfg.Pause, cfg.Every = cmp.Or(cfg.Interval, time.Second), cmp.Or(cfg.Pause, 30*time.Second), cmp.Or(cfg.Every, 5*time.Second)
	e := &Exporter{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	e.passing.clear()
	e.state = journaled.New(journaled.Config[change]{
		What: "traces", Open: cfg.Open, Logger: e.log,
		Apply: func(changes []change, _ bool) { e.set(changes[len(changes)-1].Cursor) },
		Save:  func() any { return change{e.recorded} },
		Load:  e.load,
	})
	return e
}

func (e *Exporter) set(c follow.Cursor) { e.begun, e.cursor, e.recorded = true, c, c }

func (e *Exporter) load(data []byte) error {
	var c change
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	e.set(c.Cursor)
	return nil
}

// Start reads the cursor. The first one is behind everything that the log has. Errors: DATA_LOSS, UNAVAILABLE, DISK_FULL.
func (e *Exporter) Start(ctx context.Context) error {
	if err := e.state.Start(ctx); err != nil || e.begun {
		return err
	}
	newest, err := follow.Newest(ctx, e.cfg.Log)
	if err != nil {
		return err
	}
	return e.state.Record(ctx, change{newest})
}

// Run sends spans until ctx ends.
func (e *Exporter) Run(ctx context.Context) {
	for {
		err := e.step(ctx)
		if ctx.Err() != nil {
			break
		}
		wait := e.cfg.Interval
		switch {
		case err != nil:
			wait = e.failed(ctx, err)
		case e.more:
			wait = 0
		}
		if pause.For(ctx, wait) != nil {
			break
		}
	}
	if e.cursor != e.recorded {
		_ = e.record(context.WithoutCancel(ctx)) // else the spans are sent again
	}
}

// step sends what has ended since the last step.
func (e *Exporter) step(ctx context.Context) error {
	if len(e.ended) == 0 {
		if err := e.look(ctx); err != nil {
			return err
		}
	}
	if err := e.export(ctx); err != nil {
		return err
	}
	e.cursor = e.next
	if e.cursor != e.recorded && (time.Since(e.recordedAt) >= e.cfg.Every || e.cursor.Seq-e.recorded.Seq >= maxUnrecorded) {
		if err := e.record(ctx); err != nil {
			return err
		}
	}
	e.succeeded(ctx)
	return nil
}

// record records the cursor. The journal of an external server may have got one of another node meanwhile: the older one counts then.
func (e *Exporter) record(ctx context.Context) error {
	reached := e.cursor
	if err := e.state.Reload(ctx); err != nil {
		return err
	}
	err := e.state.Record(ctx, change{reached})
	if err == nil {
		e.recordedAt = time.Now()
	}
	return err
}

// failed notes a failure, and returns how long to wait after it. The first of several in a row is a warning.
func (e *Exporter) failed(ctx context.Context, err error) time.Duration {
	level := slog.LevelDebug
	e.mu.Lock()
	if e.figures.Error == "" {
		level, e.figures.Since = slog.LevelWarn, time.Now()
	}
	why := fault.From(err)
	e.figures.Error, e.figures.Hint = why.Message, why.Hint
	e.mu.Unlock()
	e.log.LogAttrs(ctx, level, "traces_not_sent", slog.Any("error", err))
	e.failures++
	return pause.Backoff(firstPause, e.cfg.Pause, e.failures-1)
}

// succeeded notes that a step has done everything.
func (e *Exporter) succeeded(ctx context.Context) {
	e.mu.Lock()
	since := e.figures.Since
	e.figures.Error, e.figures.Hint, e.figures.Since = "", "", time.Time{}
	e.mu.Unlock()
	if e.failures > 0 {
		e.log.LogAttrs(ctx, slog.LevelInfo, "traces_sent_again", slog.Duration("after", time.Since(since)))
	}
	e.failures = 0
}

// Figures returns the current figures.
func (e *Exporter) Figures() Figures {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.figures
	if f.Waiting = len(e.ended); f.Waiting > 0 {
		f.Oldest = e.ended[0].at
	}
	return f
}
