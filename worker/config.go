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

// Policy decides about calls before they change anything, and redacts their results. *policy.Policy implements it.
type Policy interface {
	// Admit returns why the call must not run. It checks only the rules that do not depend on the effect of the call.
	Admit(c *policy.Call) error
	// CheckDescendant returns why the call must not affect a path below the directory in a field.
	CheckDescendant(c *policy.Call, field, path string) error
	// Decide returns why the call must not run, or which approval it needs first.
	Decide(c *policy.Call) (*policy.Ask, error)
	// AllowsTarget reports whether the task of a call may access a target.
	AllowsTarget(c *policy.Call, t tools.Target) bool
	// HiddenPaths returns the paths to hide from the tool of the call and from its programs.
	HiddenPaths(c *policy.Call) policy.HiddenPaths
	// Effect returns the effect that the call would have.
	Effect(c *policy.Call) tools.Effect
	// Redact returns data without secrets, and whether there were any. Valid JSON remains valid JSON.
	Redact(data []byte) ([]byte, bool)
}

// Config configures a Worker. The zero value of every field but Root works.
type Config struct {
	// Name is unique among all workers; default host-pid-random.
	Name string
	// Queues are the queues to serve; empty means the queue "default".
	Queues []string
	// Tools are the tools to offer; empty means all.
	Tools []string
	// Concurrency is the number of calls that run at the same time; default 2 per CPU.
	Concurrency int
	// Root confines the paths of all tools. Required.
	Root *pathguard.Root
	// Local is set if the worker runs on the machine of the node. It then takes only calls of tasks with its root.
	Local bool
	// Working is the folder for workspaces, inside Root; default "Working".
	Working string
	// Operator is the identity that sees the workspaces of all identities, such as user:ada; empty for none.
	Operator string
	// Secrets are patterns of the sources from which calls may read secrets. Without patterns, calls have no secrets.
	Secrets []string
	// Exec starts the child processes of tools.
	Exec *proc.Runner
	// Heartbeat is the time between two heartbeats; default a third of the shortest lease.
	Heartbeat time.Duration
	// PollWait is how long the owner may hold a poll open; default 20 s.
	PollWait time.Duration
	// DrainTimeout is how long running calls may continue after a stop; default 10 s.
	DrainTimeout time.Duration
	// Grace is how long a tool may take to return after its call was ended. Then the worker abandons it; default 5 s.
	Grace time.Duration
	// MaxOutput limits the bytes of an output, and those of all facts of a call; default 4 MiB. work.MaxFacts limits the facts as
	// well. A call that exceeds a limit fails with VALIDATION_ERROR and reason SIZE_LIMIT_EXCEEDED.
	MaxOutput int
	// MaxUnreported limits the outcomes that wait for the owner. At the limit the worker accepts no calls. Default 4096.
	MaxUnreported int
	// Logger receives messages for the operator; default: discard.
	Logger *slog.Logger
	// Clock returns the time for records; default time.Now.
	Clock func() time.Time
	// Uptime returns the time since the machine was started. With it the worker notices that it was suspended. Default: the uptime
	// of the system.
	Uptime func() time.Duration
	// WithOwner means that the owner is suspended whenever the worker is, so that no lease expires meanwhile.
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
