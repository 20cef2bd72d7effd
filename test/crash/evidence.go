package crash

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
)

// Log is the raw log, read without any decision logic of orch.
type Log interface {
	// Read yields the commits of a task in order, live or archived.
	Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error]
	// Scan yields the live commits in the order of positions.
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

// Evidence is what is known independently of orch.
type Evidence struct {
	// Acks is the journal of the submitters. Cancels are the acknowledged cancellations.
	Acks    []Ack
	Cancels []events.TaskID
	Effects []Effect
	Watches []Watch
	// Lost says, by process id, what was done to workers that were killed or stopped for longer than a lease. Only
	// calls of these workers may be in doubt.
	Lost map[int]string
	// Archived are the tasks that were moved to the archive, including those without acknowledgement.
	Archived []events.TaskID
	// Agents maps process ids to agents as in the log: "agent:ada".
	Agents map[int]string
	// Absences are the times in which agents or the node were down or suspended. A call of an agent may be in doubt
	// during an absence of its agent; or of the node, if the agent never started it.
	Absences []Absence
	// Secrets were passed to tools and must not appear anywhere.
	Secrets []string
	// Mark is nil if the mark must not be checked.
	Mark *Mark
}

// Absence is a time in which a participant was killed, stopped or suspended: an agent as in the log, TheNode,
// TheBroker, or the Process of a worker on an overloaded machine.
type Absence struct {
	Who      string
	From, To time.Time
}

// The absent participants other than agents: a node, or a server of its cluster, of which the others elect a new leader
// meanwhile.
const (
	TheNode   = "node"
	TheBroker = "broker"
	// TheMachine was overloaded: a process was suspended although nobody had stopped it.
	TheMachine = "machine"
)

// Violation is a violated invariant.
type Violation struct {
	// Invariant is I1 to I17.
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
	// Tasks and Commits count what was read. Children counts the tasks that other tasks submitted.
	Tasks, Children, Commits int
	// Ended counts the tasks by state.
	Ended map[string]int
	// Begins counts the started effects by tool.
	Begins map[string]int
	// InDoubt counts the calls in doubt, Resolved the decisions about them by outcome, Refused the results that came
	// too late, Lost the attempts that lost their worker.
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

// Invariants returns the checked invariants in the order of their numbers, each with its name and its text. I12, that
// no grant is spent twice, comes with approvals.
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
	}
}

// Process returns the name of a process in Absence.
func Process(pid int) string { return "process " + strconv.Itoa(pid) }

// WorkerPID returns the process id in the name of a worker, which is host-pid-random, or 0.
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
