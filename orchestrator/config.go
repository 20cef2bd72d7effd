package orchestrator

import (
	"context"
	crand "crypto/rand"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/holds"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/retention"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// RegisteredAgent is a registered agent and its current state.
type RegisteredAgent struct {
	work.Agent

	// Online is false if the agent has not contacted the node lately. LastSeen is when it last did; zero if not since the node
	// started.
	Online   bool
	LastSeen time.Time
	// Calls are the calls that the agent holds, Slots is how many it can hold at the same time.
	Calls []HeldCall
	Slots int
}

// Notice informs people about an event without delay. It is sent once, when the commit is durable. A restart or a replay does
// not repeat it, so a receiver that is not connected at that moment misses it.
type Notice struct {
	Kind string
	Task events.TaskID
	Name string
	// Key identifies the notice. Different notices have different keys.
	Key string
	// Approval is set for notices about approvals.
	Approval string
	// Question is the open question of a blocked task that waits for an answer, or empty.
	Question string
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

// Models are the language models that agents can ask.
type Models interface {
	// Price returns the price of a model, and whether it is known. It returns an error if there is no such model.
	Price(model string) (price events.Price, known bool, err error)
	// Slots returns how many requests a provider gets at the same time; 0 for no limit.
	Slots(provider string) int
}

// Costs are what requests to models cost, as Hooks.Committed has said.
type Costs interface {
	// Costs returns the costs that a query selects.
	Costs(q costs.Query) []costs.Row
	// Spent returns what was spent of a budget in the period of a time, with answers that were lost.
	Spent(b costs.Budget, identity string, at time.Time) events.Spent
	// Spenders returns the identities for which something was spent of a budget in the period of a time.
	Spenders(b costs.Budget, at time.Time) []string
	// Ready returns a channel that is closed when everything that was in the log at the start is counted.
	Ready() <-chan struct{}
}

// Config configures an Orchestrator. Log, Blobs, Checkpoints, Catalogue and Lists are required.
type Config struct {
	Log         events.Log
	Blobs       events.Blobs
	Checkpoints events.Checkpoints
	Catalogue   Catalogue
	// Models are the models that agents can ask. Default: none.
	Models Models
	// Costs are what requests to models cost, and Budgets limit that. Default: none.
	Costs   Costs
	Budgets []costs.Budget
	// CallLimits bound how many calls start in a time or run at the same time. Default: none.
	CallLimits []dispatch.Limit
	// Lists answers lists once it contains all tasks, and the queue always.
	Lists Lists
	// Indexes stores the index of tasks for a restart. With nil, a restart reads the head of every task.
	Indexes events.Indexes
	// Logger receives messages for the operator of the node. Default: discard.
	Logger *slog.Logger
	// Clock returns the time of decisions. Default: time.Now.
	Clock func() time.Time
	// Random returns a number in [0,1) for the jitter of retries. Default: math/rand.
	Random func() float64
	// Entropy provides the random bits of new ids. It must not fail. Default: crypto/rand.
	Entropy io.Reader
	// Paused starts the node with all dispatch paused.
	Paused bool
	// Redact removes secrets from data before it is written. Default: it changes nothing.
	Redact func(data []byte) (clean []byte, changed bool)
	// Program returns a program of the user below a root by its absolute path, with its current content. Default: there are no
	// programs.
	Program func(root, name string) (events.Program, error)
	// Secrets are patterns of the sources from which plans may read secrets. Without patterns, plans have no secrets.
	Secrets []string
	// FindSecret reports whether data contains a secret, and the rule that found it. Default: it finds none.
	FindSecret func(data []byte) (rule string, found bool)
	// Workspace returns the absolute path of a task's workspace in a root. Root is the root of tasks that choose none. Both
	// are only text for expressions.
	Workspace func(root string, id events.TaskID) string
	Root      string
	// Local is set if clients and workers are on the machine of the node. Each task then has a root, and only workers with that
	// root execute its calls.
	Local bool
	// FourEyes forbids people to decide about approvals of their own tasks.
	FourEyes bool
	// Gone names workers that have certainly ended. At the start their calls are lost without a grace period. Default: none.
	Gone []string
	// Holds are the tasks that retention does not remove. Default: none, and new ones are kept in memory.
	Holds *holds.Registry
	// Exports are what export files need.
	Exports Exports
	// Limits bound memory and waiting times.
	Limits Limits
	// Hooks are called by the orchestrator.
	Hooks Hooks
}

// Limits bound what an orchestrator holds in memory and how long it waits. 0 means the default.
type Limits struct {
	// Lease is the time without a heartbeat of its worker after which a call is lost. Default 15 s, at least 100 ms.
	Lease time.Duration
	// Overrun is how long after its time limit a call may still run if its worker is lost. It covers the time to end the call and
	// the difference between the clocks of machines. Default 10 s.
	Overrun time.Duration
	// MaxDeliveries limits how often a call is dispatched again after the loss of its worker, regardless of the retry rule of its
	// step. Default 10.
	MaxDeliveries int
	// MaxSpawned limits the child tasks that the calls of one task start (S0-181). Default 16.
	MaxSpawned int
	// PartItems is how many items of a for_each one task runs. A for_each with more is divided into parts, each of which is a
	// child task. Default 1,000.
	PartItems int
	// MaxOpen limits the open tasks, MaxOpenEach those of one requestor. Child tasks count but are never refused.
	// Default 250,000 and 150,000.
	MaxOpen, MaxOpenEach int
	// MaxOpenSteps limits the steps of open tasks in any state, MaxOpenStepsEach those of one requestor. A task that would
	// exceed a limit is refused. Default 500,000 and 300,000.
	MaxOpenSteps, MaxOpenStepsEach int
	// MaxWaiting limits the requests that wait for a change. Default 12,000.
	MaxWaiting int
	// KeepOpen is how many finished tasks stay in memory completely, as long as they have at most KeepOpenSteps steps together.
	// KeepListed is how many stay as a summary for lists as long as Lists does not have all finished tasks. Default 4,096, 8,192 and
	// 10,000; 50,000 if Lists never has them.
	// Older tasks are read from the log on request, also after Shed.
	KeepOpen, KeepOpenSteps, KeepListed int
	// ArchiveAfter is how long after its end a task moves to the archive. Default 1 h.
	ArchiveAfter time.Duration
	// KeepUnarchived is how many finished tasks are not archived before that time; beyond it, the oldest are, five minutes after
	// their end. Default 100,000.
	KeepUnarchived int
	// Retention is how long archived tasks are retained. Default: forever.
	Retention Retention
}

// Hooks connect an orchestrator to the surrounding program. Each may be nil.
type Hooks struct {
	// Over is called after a task has ended, Archived after a task was archived. Neither may block.
	Over     func(id events.TaskID)
	Archived func(id events.TaskID, done bool)
	// Preserve archives tasks elsewhere before retention removes them. It returns why those could not be archived that it could not
	// archive, which then stay, and an error if it could archive none. Nil archives nothing.
	Preserve func(ctx context.Context, ids []events.TaskID) (left map[events.TaskID]error, err error)
	// Notify is called with notices when they are durable: tasks that are blocked or have failed (S0-186), approvals that were
	// requested, escalated, or need a reminder. It must not block.
	Notify func(Notice)
	// Committed is called for every commit that the log has acknowledged, with its position, the calls that it ends, and what
	// requests to models have cost. It may be called more than once for a commit. It is called with mu held and must not block.
	Committed func(seq uint64, ended []stats.Call, paid []costs.Cost)
	// Removing is called before expired tasks are removed, with their number. If it returns an error, none is. ended is called with the
	// number of tasks that were removed.
	Removing func(ctx context.Context, due int) (ended func(removed int, err error), err error)
	// Describe adds fields to the answer of Status.
	Describe func(*api.StatusReply)
	// Agents returns the registered agents, and a function that reports whether the agent with a name was removed. Nil means that
	// the agents are not known.
	Agents func(ctx context.Context) (all []RegisteredAgent, removed func(name string) bool)
	// HandOn returns an error if an agent must not hand its call to other agents. It is called with mu held and must not block.
	// Default: it is always allowed.
	HandOn func(decide.HandOn) error
	// ShareOf returns the identity that owns the share of the tasks of who. For an agent, it may be the identity that registered
	// the agent. "" means that who has its own share. ShareOf is called once for each task, with mu held, and must not block.
	// Default: every identity has its own share.
	ShareOf func(who string) string
	// Limited reports whether calls of a class are limited per task and minute (S0-113). Default: none is.
	Limited func(tools.Rate) bool
}

func (c Config) withDefaults() (Config, error) {
	if c.Log == nil || c.Blobs == nil || c.Checkpoints == nil || c.Catalogue == nil || c.Lists == nil {
		return c, fault.New(fault.Internal, "the orchestrator needs a log, blobs, checkpoints, a catalogue and an index of lists")
	}
	if c.Limits.Lease < 0 || (c.Limits.Lease > 0 && c.Limits.Lease < 100*time.Millisecond) {
		return c, fault.New(fault.ValidationError, "must be at least 100ms, not %s", c.Limits.Lease).WithField("lease")
	}
	keepListed := 10_000
	if c.Lists.OnlyOpen() {
		keepListed = 50_000
	}
	c.Limits.setDefaults(keepListed)
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
	if c.Holds == nil {
		c.Holds = holds.New(nil)
	}
	c.setFuncs()
	c.Exports.setDefaults()
	c.Hooks.setDefaults()
	return c, nil
}

func (c *Config) setFuncs() {
	if c.Redact == nil {
		c.Redact = func(data []byte) ([]byte, bool) { return data, false }
	}
	if c.Program == nil {
		c.Program = func(_, name string) (events.Program, error) {
			return events.Program{}, fault.New(fault.NotFound, "there is no program %s here", name)
		}
	}
	if c.FindSecret == nil {
		c.FindSecret = func([]byte) (string, bool) { return "", false }
	}
	if c.Workspace == nil {
		c.Workspace = func(string, events.TaskID) string { return "" }
	}
}

func (l *Limits) setDefaults(keepListed int) {
	setDefault(&l.Lease, 15*time.Second)
	setDefault(&l.Overrun, 10*time.Second)
	setDefault(&l.MaxDeliveries, 10)
	setDefault(&l.MaxSpawned, 16)
	setDefault(&l.MaxOpen, 250_000)
	setDefault(&l.MaxOpenEach, 150_000)
	setDefault(&l.MaxOpenSteps, 500_000)
	setDefault(&l.MaxOpenStepsEach, 300_000)
	setDefault(&l.MaxWaiting, 12_000)
	setDefault(&l.KeepOpen, 4_096)
	setDefault(&l.KeepOpenSteps, 8_192)
	setDefault(&l.KeepListed, keepListed)
	setDefault(&l.ArchiveAfter, time.Hour)
	setDefault(&l.KeepUnarchived, 100_000)
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

// slots returns how many requests a provider of models gets at the same time; 0 for no limit.
func (c Config) slots(provider string) int {
	if c.Models == nil {
		return 0
	}
	return c.Models.Slots(provider)
}

// rules returns the part of the configuration that decisions depend on.
func (c Config) rules() decide.Rules {
	return decide.Rules{
		Catalogue: c.Catalogue, Models: c.Models, Entropy: c.Entropy, Random: c.Random, MaxDeliveries: c.Limits.MaxDeliveries, MaxSpawned: c.Limits.MaxSpawned, PartItems: c.Limits.PartItems,
		Overrun: c.Limits.Overrun, Gone: c.Gone, FourEyes: c.FourEyes, Workspace: c.Workspace, Root: c.Root, Redact: c.Redact,
		FindSecret: c.FindSecret, HandOn: c.Hooks.HandOn, Counted: c.Hooks.Committed != nil || len(c.Budgets) > 0,
	}
}

// Retention is how long archived tasks are retained after their end; 0 means forever.
type Retention struct {
	// Done is for tasks in state DONE, Failed for tasks in any other state.
	Done, Failed time.Duration
	// Workspaces is for the workspaces of tasks that are DONE, FailedWorkspaces for those of others. The orchestrator only reports them.
	Workspaces, FailedWorkspaces time.Duration
	// Rules are for the tasks that they match. The first one that matches counts instead of the times above.
	Rules []retention.Rule
	// ReportOnly is set for a node that removes nothing, and only says what another one would remove.
	ReportOnly bool
}
