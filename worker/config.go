package worker

import (
	"crypto/rand"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/uptime"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
)

// Policy is what the chain asks about a call before anything happens, and what takes secrets out of
// everything that comes back; *policy.Policy is one.
type Policy interface {
	// Admit returns why the call must not run, as far as that needs no intent.
	Admit(c policy.Call) error
	// TakesAlong returns why the call must not take along a path below the directory of a field.
	TakesAlong(c policy.Call, field, path string) error
	// Decide returns why the call must not run, or what somebody has to allow first.
	Decide(c policy.Call) (*policy.Ask, error)
	// Opens reports whether a target is open to the task of a call.
	Opens(c policy.Call, t tools.Target) bool
	// Veil returns what the call must not reach beside what it names.
	Veil(c policy.Call) policy.Veil
	// Effect returns what the call would do.
	Effect(c policy.Call) tools.Effect
	// Redact returns data without secrets, still valid JSON if it was, and whether there were any.
	Redact(data []byte) ([]byte, bool)
}

// Config configures a Worker. The zero value of every field but Root works.
type Config struct {
	// Name is unique among all workers; default host-pid-random.
	Name string
	// Queues the worker serves; empty means the queue "default".
	Queues []string
	// Tools the worker offers; empty means that the owner may send any call.
	Tools []string
	// Concurrency is the number of calls that run at the same time; default 2 per CPU.
	Concurrency int
	// Root confines the paths of all tools. Required.
	Root *pathguard.Root
	// Working is the folder for workspaces, inside Root; default "Working".
	Working string
	// Operator is the identity that sees the workspaces of all others, such as user:ada; empty for none.
	Operator string
	// Secrets are the patterns of sources from which calls may have secrets; none allows none.
	Secrets []string
	// Exec starts the child processes of tools.
	Exec *proc.Runner
	// Heartbeat is the time between two heartbeats; default a third of the shortest lease.
	Heartbeat time.Duration
	// PollWait is how long the owner may hold a poll open; default 20 s.
	PollWait time.Duration
	// DrainTimeout is how long running calls may go on after a stop; default 10 s.
	DrainTimeout time.Duration
	// Grace is how long a tool whose call was ended may take to return before the worker goes on
	// without it; default 5 s.
	Grace time.Duration
	// MaxOutput is the size in bytes of the largest output, and of all facts of a call, which are also
	// bounded by work.MaxFacts; default 4 MiB. A larger one is VALIDATION_ERROR with reason SIZE_LIMIT_EXCEEDED.
	MaxOutput int
	// MaxUnreported bounds the outcomes that wait for the owner; no new work is taken while there are
	// more. Default 4096.
	MaxUnreported int
	// Logger gets what only an operator should see; default: nothing is logged.
	Logger *slog.Logger
	// Clock gives the time for records; default time.Now.
	Clock func() time.Time
	// Uptime gives the time since the machine was started, in which the worker sees how long it stood still; default that of
	// the system.
	Uptime func() time.Duration
	// WithOwner says that the owner stands still whenever the worker does, and that nobody takes its place: no lease runs out
	// meanwhile.
	WithOwner bool
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = UniqueName()
	}
	if c.Working == "" {
		c.Working = "Working"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Uptime == nil {
		c.Uptime = uptime.Now
	}
	if c.WithOwner {
		c.Uptime = func() time.Duration { return 0 }
	}
	setDefault(&c.Concurrency, 2*runtime.GOMAXPROCS(0))
	setDefault(&c.PollWait, 20*time.Second)
	setDefault(&c.DrainTimeout, 10*time.Second)
	setDefault(&c.Grace, 5*time.Second)
	setDefault(&c.MaxOutput, 4<<20)
	setDefault(&c.MaxUnreported, 4096)
	return c
}

func setDefault[N int | time.Duration](field *N, value N) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) validate() error {
	if c.Root == nil {
		return fault.New(fault.ValidationError, "a worker needs a root").WithField("root")
	}
	for field, value := range map[string]int64{
		"concurrency": int64(c.Concurrency), "heartbeat": int64(c.Heartbeat), "poll_wait": int64(c.PollWait),
		"drain_timeout": int64(c.DrainTimeout), "grace": int64(c.Grace), "max_output": int64(c.MaxOutput),
		"max_unreported": int64(c.MaxUnreported),
	} {
		if value < 0 {
			return fault.New(fault.ValidationError, "must not be negative").WithField(field)
		}
	}
	return nil
}

// UniqueName returns a name for a worker of this process: host-pid-random.
func UniqueName() string {
	const random = 8
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return host + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:random]
}
