package crash

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
)

// Log reads the raw log, without any decision logic of orch.
type Log interface {
	// Read yields the commits of a task in order, live or archived.
	Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error]
	// Scan yields the commits in the live log, by position.
	Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error]
}

// Ack is an acknowledged submission.
type Ack struct {
	Task events.TaskID
	// Key is the idempotency key of the request; "" if the client chose the id.
	Key   string
	Round int
	At    time.Time
}

// Sighting is a commit that a watcher received.
type Sighting struct {
	Seq, Rev uint64
	Hash     string
}

// Watch is everything that one watcher received about a task, across all its connections.
type Watch struct {
	Task events.TaskID
	Seen []Sighting
	// Ended is true when the watcher was notified that no further commit follows.
	Ended bool
}

// Mark is the high-water mark that the node stores outside its store.
type Mark struct {
	Seq  uint64        `json:"seq"`
	Task events.TaskID `json:"task"`
	Hash string        `json:"hash"`
}

// Evidence contains the observations that do not depend on orch.
type Evidence struct {
	// Acks are the acknowledged submissions. Cancels are the tasks with an acknowledged cancellation.
	Acks    []Ack
	Cancels []events.TaskID
	Effects []Effect
	Watches []Watch
	// Lost contains the workers that were killed, or stopped for longer than a lease. It maps their process ids to a
	// description. Only calls of these workers may be in doubt.
	Lost map[int]string
	// Archived are the tasks that were moved to the archive, including those without acknowledgement.
	Archived []events.TaskID
	// Agents maps process ids to the names of agents in the log, such as "agent:ada".
	Agents map[int]string
	// Absences are the times in which a participant was down or suspended. A call of an agent may be in doubt if the
	// agent was absent. It may also be in doubt if the node was absent and the agent never started the call.
	Absences []Absence
	// Secrets were passed to tools. They must not appear in the log.
	Secrets []string
	// Requests are the requests that a provider of models has seen, in their order.
	Requests []ModelRequest
	// Says are the messages to agents. Those to one agent follow each other.
	Says []Say
	// Budgets are the budgets of the node.
	Budgets []Budget
	// Costs are the costs that the node has answered after the last commit, by what their rows are about, such as costs.ByModel.
	Costs map[string][]costs.Row
	// Schedules are schedules that have started tasks.
	Schedules []Schedule
	// Destination is what was told about tasks; nil if nobody was to be told.
	Destination *Destination
	// HookDeliveries are the ids of the deliveries that a hook has acknowledged.
	HookDeliveries []string
	// Mark is the mark to check; nil for none.
	Mark *Mark
}

// Absence is a time in which a participant was killed, stopped or suspended. Who is the name of an agent in the log,
// TheNode, TheBroker, TheMachine, or for a worker the result of Process.
type Absence struct {
	Who      string
	From, To time.Time
}

// Participants in Absence that are not agents or workers. TheBroker is a server of the NATS cluster; while it is
// absent, the other servers elect a new leader.
const (
	TheNode   = "node"
	TheBroker = "broker"
	// TheMachine is absent while it is overloaded: processes are suspended although the test did not stop them.
	TheMachine = "machine"
)

// Violation is a violation of an invariant.
type Violation struct {
	// Invariant is I1 to I23.
	Invariant string
	Task      events.TaskID
	// Round is the round in which the task was submitted; 0 if unknown.
	Round int
	What  string
}

// String formats the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s round %d %s: %s", v.Invariant, v.Round, v.Task, v.What)
}

// Report is the result of a check.
type Report struct {
	// Tasks and Commits are the numbers of tasks and commits that were read. Children is the number of tasks that other
	// tasks submitted.
	Tasks, Children, Commits int
	// Ended counts the tasks by state.
	Ended map[string]int
	// Begins counts the started effects by tool.
	Begins map[string]int
	// InDoubt counts the calls in doubt, Refused the results that came too late, Lost the attempts that lost their
	// worker. Resolved counts the decisions about calls in doubt, by outcome.
	InDoubt, Refused, Lost int
	Resolved               map[string]int
	// Checkpoints are the checkpoints in the log, by task.
	Checkpoints map[events.TaskID][]string
	Violations  []Violation
}

// Has reports whether an invariant is violated.
func (r *Report) Has(invariant string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == invariant })
}

// Invariants returns the checked invariants, each with its name and its text, in the order of their numbers. I12, that
// no grant is spent twice, is not checked here.
func Invariants() [][2]string {
	return [][2]string{
		{"I1", "acknowledged tasks are in the log and end, or are blocked for a reason; one key makes one task"},
		{"I2", "a task ends once"},
		{"I3", "every history is a path of the transition tables"},
		{"I4", "revisions and positions have no gap and are used once"},
		{"I5", "replay, live state and checkpoint plus the rest are equal"},
		{"I6", "a write has at most one effect, after its start was durable, and one attempt at work at a time; an idempotent call has one key"},
		{"I7", "no result of an older attempt or another worker is accepted"},
		{"I8", "a watcher sees every commit once and in order, across all connections"},
		{"I9", "no reader sees a task leave its end"},
		{"I10", "what was cancelled stays cancelled"},
		{"I11", "the hash chain and the high-water mark hold"},
		{"I13", "no secret is in a commit, a file of the store or a log"},
		{"I14", "processes, goroutines, descriptors, memory and files go back to what they were"},
		{"I15", "an acknowledged message comes to its recipients, in order, until they acknowledge it; a letter is one message"},
		{"I16", "an acknowledged write of a database is there once, any other at most once, and what was seen never goes back"},
		{"I17", "a subscription hears of everything in order until its session is told of its end"},
		{"I18", "no model is asked again for an answer in the history, and each other request that may be billed is in the history, the same as before"},
		{"I19", "what was said to an agent is heard once, in order; a chat ends after its end was acknowledged"},
		{"I20", "no budget of models is exceeded, by bills, answers, lost answers and turns in flight; costs are the sums of the histories"},
		{"I21", "a schedule starts one task for each of its instants"},
		{"I22", "a destination hears of every end of a task, with one id for each, and of nothing else"},
		{"I23", "an acknowledged delivery to a hook starts one task, however often it comes"},
	}
}

// Process returns the name of a process for Absence.Who.
func Process(pid int) string { return "process " + strconv.Itoa(pid) }

// WorkerPID returns the process id in the name of a worker, which has the form host-pid-random. It returns 0 for any
// other name.
func WorkerPID(name string) int {
	parts := strings.Split(name, "-")
	if len(parts) < 3 {
		return 0
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return 0
	}
	return pid
}
