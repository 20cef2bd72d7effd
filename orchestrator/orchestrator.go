// Package orchestrator owns tasks: it is the single writer of their histories.
//
// Every command becomes a decision over the folded task, one commit in the log, and, once the log
// has acknowledged it, its consequences: calls for workers, timers, child tasks, answers. Queues,
// leases, timers and lists are folds of the log kept in memory, made again after a restart.
package orchestrator

import (
	"context"
	crand "crypto/rand"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
)

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
	// Lease is how long a call lives without a heartbeat of its worker. Default 15 s, at least 100 ms.
	Lease time.Duration
	// MaxDeliveries bounds how often a call is handed out again after it has ended with its worker,
	// whatever the retry rule of its step says. Default 10.
	MaxDeliveries int
	// MaxOpen bounds the tasks that are open at the same time, MaxOpenEach those of one requestor.
	// Children of tasks count, but are not refused. Default 250,000 and 150,000.
	MaxOpen, MaxOpenEach int
	// MaxOpenSteps bounds the steps of open tasks, whatever their state, MaxOpenStepsEach those of one requestor: a task that
	// would be one more is refused then. Default 500,000 and 300,000.
	MaxOpenSteps, MaxOpenStepsEach int
	// MaxSpawned bounds the child tasks that the calls of one task start (S0-181). Default 16.
	MaxSpawned int
	// MaxWaiting bounds the requests that wait for something to happen. Default 12,000.
	MaxWaiting int
	// KeepOpen is the number of finished tasks kept whole in memory, KeepListed that of those kept as
	// a line of the list. Default 8,192 and 50,000. Older ones are read from the log when asked for.
	KeepOpen, KeepListed int
	// ArchiveAfter moves finished tasks to the archive this long after their end. Default 1 h.
	ArchiveAfter time.Duration
	// Retention says how long archived tasks are kept. Default for ever.
	Retention Retention
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
	// Over is called after a task has ended, Archived after it was archived. Neither may block.
	Over     func(id events.TaskID)
	Archived func(id events.TaskID, done bool)
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
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// Notify hears of what people should know at once, when it is durable: tasks that are blocked or have
	// failed (S0-186), approvals that were opened, reminded of or escalated. It must not block.
	Notify func(Notice)
	// Committed hears of every commit that the log has acknowledged: its position, and the calls that it ends. It is
	// called with the lock held and must not block. Nil costs nothing.
	Committed func(seq uint64, ended []stats.Call)
	// Overrun is for how long after its time limit the call of a lost worker may still run: what ending it takes, and what
	// the clocks of machines differ by. Default 10 s.
	Overrun time.Duration
	// Gone names workers that have ended for certain: their calls are given up at the start. Default: none.
	Gone []string
	// Describe adds to the answer of Status.
	Describe func(*api.StatusReply)
}

func (c Config) withDefaults() (Config, error) {
	if c.Log == nil || c.Blobs == nil || c.Checkpoints == nil || c.Catalogue == nil {
		return c, fault.New(fault.Internal, "the orchestrator needs a log, blobs, checkpoints and a catalogue")
	}
	if c.Lease < 0 || (c.Lease > 0 && c.Lease < 100*time.Millisecond) {
		return c, fault.New(fault.ValidationError, "must be at least 100ms, not %s", c.Lease).WithField("lease")
	}
	setDefault(&c.Lease, 15*time.Second)
	setDefault(&c.Overrun, 10*time.Second)
	setDefault(&c.MaxDeliveries, 10)
	setDefault(&c.MaxSpawned, 16)
	setDefault(&c.MaxOpen, 250_000)
	setDefault(&c.MaxOpenEach, 150_000)
	setDefault(&c.MaxOpenSteps, 500_000)
	setDefault(&c.MaxOpenStepsEach, 300_000)
	setDefault(&c.MaxWaiting, 12_000)
	setDefault(&c.KeepOpen, 8_192)
	setDefault(&c.KeepListed, 50_000)
	setDefault(&c.ArchiveAfter, time.Hour)
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
	c.setHooks()
	return c, nil
}

func (c *Config) setHooks() {
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
	if c.Over == nil {
		c.Over = func(events.TaskID) {}
	}
	if c.Archived == nil {
		c.Archived = func(events.TaskID, bool) {}
	}
	if c.HandOn == nil {
		c.HandOn = func(decide.HandOn) error { return nil }
	}
	if c.ShareOf == nil {
		c.ShareOf = func(string) string { return "" }
	}
	if c.Limited == nil {
		c.Limited = func(tools.Rate) bool { return false }
	}
	if c.Notify == nil {
		c.Notify = func(Notice) {}
	}
	if c.Describe == nil {
		c.Describe = func(*api.StatusReply) {}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Orchestrator is the owner of all tasks of a log. It implements API for clients and work.Owner for
// workers. All methods are safe for concurrent use; they answer UNAVAILABLE until Run has read the
// log and after it has ended.
type Orchestrator struct {
	cfg     Config
	started time.Time
	ready   chan struct{}
	stopped chan struct{}
	// log is cfg.Log, wrapped so that it knows what was followed up.
	log *trackedLog

	rules decide.Rules

	// mu guards everything below. It is not held during I/O, but for the scan of heads at the start: appends
	// and reads wait in outbox until it is released (see unlock).
	mu     sync.Mutex
	outbox []func()
	// began is when the newest decision has begun.
	began    time.Time
	deferred []func()
	send     chan struct{}
	tasks    map[events.TaskID]*entry
	listed   listing
	programs programs
	// languages are shared by the plans that are compiled.
	languages plan.Languages
	values    valueCache
	// dispatcher hands the ready calls to workers.
	dispatcher *dispatch.Dispatcher
	keys       map[string]*semaphore
	waits      map[events.TaskID]map[events.TaskID]bool // dependency → tasks that wait for it
	// named counts, by dependency, the tasks that are being written and will wait for it.
	named map[events.TaskID]int
	// delegated holds the open delegated tasks, by the task that they are for, with the step of it.
	delegated map[events.TaskID]map[events.TaskID]string
	// unread holds the tasks that could not be read from the log.
	unread map[events.TaskID]unreadTask
	// asleep holds the open tasks that were not read since the start, because nobody needed more than this of them.
	asleep map[events.TaskID]*sleeper
	// loads bounds the histories that are read at the same time.
	loads  chan struct{}
	timers timers
	quota  quota
	holds  []api.Hold
	// configured is the hold of the configuration, which ends with the process; the zero Hold for none.
	configured api.Hold
	last       latest
	// loss is the first history that could not be read whole; nothing is appended after it.
	loss *fault.Error
	// spawnJob starts a goroutine that Run waits for; nil when Run is not, or no longer, to be waited for.
	spawnJob func(job func(ctx context.Context))
	// jobs counts those that have not ended; sending is set while deferred I/O is done.
	jobs    int
	sending bool

	// holding serialises changes of holds and of the run of the archive.
	holding sync.Mutex
	// archiving is the newest run that was asked for, nil when there was none; archiveNow wakes who does it.
	archiving  *archiveRun
	archiveNow chan struct{}
}

// New returns an orchestrator that does nothing until Run.
func New(cfg Config) (*Orchestrator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	log := &trackedLog{Log: cfg.Log, inFlight: map[uint64]uint64{}}
	cfg.Log = log
	o := &Orchestrator{
		cfg: cfg, started: cfg.Clock(), log: log, rules: cfg.rules(),
		ready: make(chan struct{}), stopped: make(chan struct{}),
		tasks: map[events.TaskID]*entry{}, keys: map[string]*semaphore{},
		waits:     map[events.TaskID]map[events.TaskID]bool{},
		delegated: map[events.TaskID]map[events.TaskID]string{},
		named:     map[events.TaskID]int{},
		unread:    map[events.TaskID]unreadTask{},
		asleep:    map[events.TaskID]*sleeper{},
		loads:     make(chan struct{}, maxLoads),

		archiveNow: make(chan struct{}, 1),
		programs:   newPrograms(),
		send:       make(chan struct{}, 1),
		timers:     newTimers(),
		quota:      quota{each: map[string]int{}, stepsEach: map[string]int{}},
	}
	o.dispatcher = dispatch.New(dispatch.Config{
		Owner: dispatchOwner{o}, Now: o.now, Silence: maxPoll + 2*cfg.Lease, Batch: uint64(max(o.started.UnixNano(), 1)),
	})
	o.listed.keep, o.listed.keepWhole = cfg.KeepListed, cfg.KeepOpen
	if cfg.Paused {
		o.configured = api.Hold{Kind: holdNode, Reason: "started paused", By: decide.ActorNode, At: cfg.Clock()}
		o.holds = []api.Hold{o.configured}
	}
	return o, nil
}

// rules are those of the configuration by which tasks are decided about.
func (c Config) rules() decide.Rules {
	return decide.Rules{
		Catalogue: c.Catalogue, Entropy: c.Entropy, Random: c.Random, MaxDeliveries: c.MaxDeliveries, MaxSpawned: c.MaxSpawned,
		Overrun: c.Overrun, Gone: c.Gone, FourEyes: c.FourEyes, Workspace: c.Workspace, Root: c.Root, Redact: c.Redact,
		FindSecret: c.FindSecret, HandOn: c.HandOn, Counted: c.Committed != nil,
	}
}

// Run reads the log, then serves until ctx ends. It returns when everything it started has ended.
func (o *Orchestrator) Run(ctx context.Context) error {
	defer close(o.stopped)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	o.employ(func(job func(context.Context)) { group.Go(func() { job(ctx) }) })
	defer func() {
		cancel()
		o.employ(nil)
		group.Wait()
	}()
	group.Go(func() { o.sendDeferred(ctx) })
	if err := o.restore(ctx); err != nil {
		return err
	}
	o.beginGrace()
	close(o.ready)
	group.Go(func() { o.timers.run(ctx, o) })
	group.Go(func() { o.sweep(ctx) })
	group.Go(func() { o.archiveLoop(ctx) })
	group.Go(func() { o.removeLoop(ctx) })
	group.Go(func() { o.indexLoop(ctx) })
	<-ctx.Done()
	return nil
}

func (o *Orchestrator) employ(spawn func(job func(context.Context))) {
	o.lock()
	defer o.unlock()
	o.spawnJob = spawn
}

// background runs a job that Run waits for, with a context that ends with that of Run; when Run has
// ended it calls refused instead, with the lock held.
func (o *Orchestrator) background(job func(ctx context.Context), refused func()) {
	o.lock()
	defer o.unlock()
	if o.spawnJob == nil {
		refused()
		return
	}
	o.spawnJob(o.counted(job))
}

func stopping() error {
	return fault.New(fault.Unavailable, "the node is stopping").WithHint("try again on a running node")
}

// Ready is closed when the log has been read and tasks are accepted.
func (o *Orchestrator) Ready() <-chan struct{} { return o.ready }

// serving returns UNAVAILABLE while the orchestrator cannot take commands.
func (o *Orchestrator) serving() error {
	select {
	case <-o.stopped:
		return stopping()
	default:
	}
	select {
	case <-o.ready:
		return nil
	default:
		return fault.New(fault.Unavailable, "the node is still reading its log").WithHint("try again in a moment")
	}
}

func (o *Orchestrator) lock() { o.mu.Lock() }

// unlock releases the lock and then does the I/O that decisions have left in the outbox.
func (o *Orchestrator) unlock() {
	out := o.outbox
	o.outbox = nil
	o.mu.Unlock()
	for _, send := range out {
		send()
	}
}

// unlockAnswer releases the lock in an answer of the log, which must not block: another goroutine
// does the I/O.
func (o *Orchestrator) unlockAnswer() {
	idle := len(o.outbox) == 0
	o.deferred = append(o.deferred, o.outbox...)
	o.outbox = nil
	o.mu.Unlock()
	if idle {
		return
	}
	select {
	case o.send <- struct{}{}:
	default:
	}
}

// sendDeferred does the I/O that answers of the log have led to.
func (o *Orchestrator) sendDeferred(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.send:
		}
		o.lock()
		out := o.deferred
		o.deferred, o.sending = nil, true
		o.unlock()
		for _, send := range out {
			send()
		}
		o.lock()
		o.sending = false
		o.unlock()
	}
}

func (o *Orchestrator) now() time.Time { return events.Time(o.cfg.Clock()) }
