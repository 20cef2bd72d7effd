package orchestrator

import (
	"context"
	crand "crypto/rand"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// RegisteredAgent is an agent and how it is.
type RegisteredAgent struct {
	work.Agent

	// Online is false for an agent that was not heard of lately, LastSeen when it was last; zero for never since the node started.
	Online   bool
	LastSeen time.Time
	// Calls are those that it has, Slots how many it takes.
	Calls []HeldCall
	Slots int
}

// Notice is something that people should know at once. It is told when the commit that says it is durable,
// once, and never again by a restart or a replay: who was away then misses it.
type Notice struct {
	Kind string
	Task events.TaskID
	Name string
	// Key is the same for the same notice, and for no other.
	Key string
	// Approval is set with the kinds of approvals.
	Approval string
	// Priority is low, medium, high or critical.
	Priority string
	Text     string
	At       time.Time
}

// Catalogue finds tools by name.
type Catalogue interface {
	Get(name string) (tools.Tool, bool)
	Names() []string
}

// Config says what an orchestrator works with. Log, Blobs, Checkpoints and Catalogue are required.
type Config struct {
	Log         events.Log
	Blobs       events.Blobs
	Checkpoints events.Checkpoints
	Catalogue   Catalogue
	// Indexes keeps what a restart has to know of all tasks. Nil has it read the head of each.
	Indexes events.Indexes
	// Logger receives what people who run the node should know. Default: discard.
	Logger *slog.Logger
	// Clock is the time of decisions. Default: time.Now.
	Clock func() time.Time
	// Random returns a number in [0,1) for the jitter of retries. Default: math/rand.
	Random func() float64
	// Entropy gives the random bits of new ids; it must not fail. Default: crypto/rand.
	Entropy io.Reader
	// Paused starts the node with all dispatch held.
	Paused bool
	// Redact removes secrets from what is about to be written. Default: nothing.
	Redact func(data []byte) (clean []byte, changed bool)
	// Program returns a program of the user's own by its absolute name, with its content as it is now. Default: there is none.
	Program func(name string) (events.Program, error)
	// Secrets are the patterns of sources from which plans may have secrets; none allows none.
	Secrets []string
	// FindSecret names the rule by which data holds a secret. Default: never.
	FindSecret func(data []byte) (rule string, found bool)
	// Workspace returns the absolute path of a task's workspace, Root the root that tools are confined
	// to; both are only text for expressions.
	Workspace func(id events.TaskID) string
	Root      string
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// Gone names workers that have ended for certain: their calls are given up at the start. Default: none.
	Gone []string
	// Limits bound what it holds and how long it waits.
	Limits Limits
	// Hooks are what it asks and tells.
	Hooks Hooks
}

// Limits bound what an orchestrator holds and how long it waits. 0 is the default of each.
type Limits struct {
	// Lease is how long a call lives without a heartbeat of its worker. Default 15 s, at least 100 ms.
	Lease time.Duration
	// Overrun is for how long after its time limit the call of a lost worker may still run: what ending it takes, and what
	// the clocks of machines differ by. Default 10 s.
	Overrun time.Duration
	// MaxDeliveries bounds how often a call is handed out again after it has ended with its worker,
	// whatever the retry rule of its step says. Default 10.
	MaxDeliveries int
	// MaxSpawned bounds the child tasks that the calls of one task start (S0-181). Default 16.
	MaxSpawned int
	// MaxOpen bounds the tasks that are open at the same time, MaxOpenEach those of one requestor.
	// Children of tasks count, but are not refused. Default 250,000 and 150,000.
	MaxOpen, MaxOpenEach int
	// MaxOpenSteps bounds the steps of open tasks, whatever their state, MaxOpenStepsEach those of one requestor: a task that
	// would be one more is refused then. Default 500,000 and 300,000.
	MaxOpenSteps, MaxOpenStepsEach int
	// MaxWaiting bounds the requests that wait for something to happen. Default 12,000.
	MaxWaiting int
	// KeepOpen is the number of finished tasks kept whole in memory, KeepListed that of those kept as
	// a line of the list. Default 8,192 and 50,000. Older ones are read from the log when asked for.
	KeepOpen, KeepListed int
	// ArchiveAfter moves finished tasks to the archive this long after their end. Default 1 h.
	ArchiveAfter time.Duration
	// Retention says how long archived tasks are kept. Default for ever.
	Retention Retention
}

// Hooks are what an orchestrator asks and tells the program around it. Each may be nil.
type Hooks struct {
	// Over is called after a task has ended, Archived after it was archived. Neither may block.
	Over     func(id events.TaskID)
	Archived func(id events.TaskID, done bool)
	// Notify hears of what people should know at once, when it is durable: tasks that are blocked or have
	// failed (S0-186), approvals that were opened, reminded of or escalated. It must not block.
	Notify func(Notice)
	// Committed hears of every commit that the log has acknowledged: its position, and the calls that it ends. It is
	// called with the lock held and must not block. Nil costs nothing.
	Committed func(seq uint64, ended []stats.Call)
	// Describe adds to the answer of Status.
	Describe func(*api.StatusReply)
	// Agents returns the registered agents, and whether an agent of a name was removed; nil where they are not known.
	Agents func(ctx context.Context) (all []RegisteredAgent, removed func(name string) bool)
	// HandOn returns why an agent must not leave its call to others. It is called with the lock held and must not block.
	// Default: it may always.
	HandOn func(decide.HandOn) error
	// ShareOf returns the identity in whose share the tasks of another one count, such as the one that has registered an agent; "" for
	// its own. It is asked once for each task, with the lock held, and must not block. Default: its own for everybody.
	ShareOf func(who string) string
	// Limited reports whether calls of a class are limited per task and minute (S0-113). Default: none.
	Limited func(tools.Rate) bool
}

func (c Config) withDefaults() (Config, error) {
	if c.Log == nil || c.Blobs == nil || c.Checkpoints == nil || c.Catalogue == nil {
		return c, fault.New(fault.Internal, "the orchestrator needs a log, blobs, checkpoints and a catalogue")
	}
	if c.Limits.Lease < 0 || (c.Limits.Lease > 0 && c.Limits.Lease < 100*time.Millisecond) {
		return c, fault.New(fault.ValidationError, "must be at least 100ms, not %s", c.Limits.Lease).WithField("lease")
	}
	c.Limits.setDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Entropy == nil {
		c.Entropy = crand.Reader
	}
	c.setFuncs()
	c.Hooks.setDefaults()
	return c, nil
}

func (c *Config) setFuncs() {
	if c.Redact == nil {
		c.Redact = func(data []byte) ([]byte, bool) { return data, false }
	}
	if c.Program == nil {
		c.Program = func(name string) (events.Program, error) {
			return events.Program{}, fault.New(fault.NotFound, "there is no program %s here", name)
		}
	}
	if c.FindSecret == nil {
		c.FindSecret = func([]byte) (string, bool) { return "", false }
	}
	if c.Workspace == nil {
		c.Workspace = func(events.TaskID) string { return "" }
	}
}

func (l *Limits) setDefaults() {
	setDefault(&l.Lease, 15*time.Second)
	setDefault(&l.Overrun, 10*time.Second)
	setDefault(&l.MaxDeliveries, 10)
	setDefault(&l.MaxSpawned, 16)
	setDefault(&l.MaxOpen, 250_000)
	setDefault(&l.MaxOpenEach, 150_000)
	setDefault(&l.MaxOpenSteps, 500_000)
	setDefault(&l.MaxOpenStepsEach, 300_000)
	setDefault(&l.MaxWaiting, 12_000)
	setDefault(&l.KeepOpen, 8_192)
	setDefault(&l.KeepListed, 50_000)
	setDefault(&l.ArchiveAfter, time.Hour)
}

func (h *Hooks) setDefaults() {
	if h.Over == nil {
		h.Over = func(events.TaskID) {}
	}
	if h.Archived == nil {
		h.Archived = func(events.TaskID, bool) {}
	}
	if h.HandOn == nil {
		h.HandOn = func(decide.HandOn) error { return nil }
	}
	if h.ShareOf == nil {
		h.ShareOf = func(string) string { return "" }
	}
	if h.Limited == nil {
		h.Limited = func(tools.Rate) bool { return false }
	}
	if h.Notify == nil {
		h.Notify = func(Notice) {}
	}
	if h.Describe == nil {
		h.Describe = func(*api.StatusReply) {}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// rules are those of the configuration by which tasks are decided about.
func (c Config) rules() decide.Rules {
	return decide.Rules{
		Catalogue: c.Catalogue, Entropy: c.Entropy, Random: c.Random, MaxDeliveries: c.Limits.MaxDeliveries, MaxSpawned: c.Limits.MaxSpawned,
		Overrun: c.Limits.Overrun, Gone: c.Gone, FourEyes: c.FourEyes, Workspace: c.Workspace, Root: c.Root, Redact: c.Redact,
		FindSecret: c.FindSecret, HandOn: c.Hooks.HandOn, Counted: c.Hooks.Committed != nil,
	}
}

// Retention says how long archived tasks are kept since their end; 0 is for ever.
type Retention struct {
	// Done is for tasks that are DONE, Failed for all others.
	Done, Failed time.Duration
}
