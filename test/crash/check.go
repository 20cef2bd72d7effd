package crash

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
)

// The tools of the test. They differ in how often their effects may happen.
const (
	// ToolRead and ToolIdem may run any number of times, ToolIdem always with the same idempotency key.
	ToolRead = "CRASH_READ"
	ToolIdem = "CRASH_IDEM"
	// ToolWrite runs at most once.
	ToolWrite = "CRASH_WRITE"
	// ToolChild is idempotent and works in a child process.
	ToolChild = "CRASH_CHILD"
	// ToolVerified is a write by a child process, which happens at the end of the process. ToolLook is its verify tool.
	ToolVerified = "CRASH_VERIFIED"
	ToolLook     = "LEDGER_LOOK"
	// ToolSlow is idempotent and takes about as long as a lease.
	ToolSlow = "CRASH_SLOW"
	// ToolAgentIdem and ToolAgentWrite are calls that agents execute: an idempotent call and a write.
	ToolAgentIdem  = "CRASH_AGENT_IDEM"
	ToolAgentWrite = "CRASH_AGENT_WRITE"
	// ToolLarge has an output that is so large that it is stored outside of the log. The output of ToolTell contains a
	// secret. Both only read.
	ToolLarge = "CRASH_LARGE"
	ToolTell  = "CRASH_TELL"
)

// checker is the state of one check.
type checker struct {
	log      Log
	evidence Evidence
	report   Report
	rounds   map[events.TaskID]int
	acked    map[events.TaskID]bool
	cancels  map[events.TaskID]bool
	effects  map[events.TaskID][]Effect
	watches  map[events.TaskID][]Watch
	says     map[events.TaskID][]Say
	// requests are those of models, by answer.
	requests map[string][]ModelRequest
	// movements are the changes of what requests to models cost, and costs their sums.
	movements []movement
	costs     costSums
	// known contains every task that was found so far. queue contains the tasks with a history that was not read yet.
	known map[events.TaskID]bool
	queue []events.TaskID
	// positions maps each position in the log to the task of its commit.
	positions map[uint64]events.TaskID
	marked    bool // the commit of evidence.Mark was found
	// firings maps the names of schedules to the times of their tasks.
	firings map[string]map[time.Time]events.TaskID
	// endings maps the ends of tasks to when their tasks were submitted.
	endings map[string]time.Time
	// deliveries maps the ids of deliveries to hooks to their tasks.
	deliveries map[string]events.TaskID
	// keys maps idempotency keys to tasks in the log.
	keys map[string]events.TaskID
}

// Check compares the evidence with the log. Violations are in the report; the error is non-nil only if the log cannot
// be read.
func Check(ctx context.Context, log Log, e Evidence) (Report, error) {
	c := &checker{
		log: log, evidence: e,
		report: Report{Ended: map[string]int{}, Begins: map[string]int{}, Resolved: map[string]int{}, Checkpoints: map[events.TaskID][]string{}},
		rounds: map[events.TaskID]int{}, acked: map[events.TaskID]bool{}, cancels: map[events.TaskID]bool{},
		effects: map[events.TaskID][]Effect{}, watches: map[events.TaskID][]Watch{},
		says: map[events.TaskID][]Say{}, requests: map[string][]ModelRequest{}, costs: costSums{},
		known: map[events.TaskID]bool{}, positions: map[uint64]events.TaskID{}, keys: map[string]events.TaskID{}, firings: map[string]map[time.Time]events.TaskID{}, endings: map[string]time.Time{}, deliveries: map[string]events.TaskID{},
	}
	c.index()
	if err := c.scan(ctx); err != nil {
		return c.report, err
	}
	for len(c.queue) > 0 {
		task := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.task(ctx, task); err != nil {
			return c.report, err
		}
	}
	c.checkPositions()
	c.checkStrangers()
	c.checkKeys()
	c.checkFirings()
	c.checkDeliveries()
	c.checkHooks()
	c.checkBudgets()
	c.checkCosts()
	if m := e.Mark; m != nil && !c.marked {
		c.violate("I11", m.Task, "the high-water mark names position %d, where the log has another commit or none", m.Seq)
	}
	return c.report, nil
}

// violate adds a violation to the report.
func (c *checker) violate(invariant string, task events.TaskID, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{
		Invariant: invariant, Task: task, Round: c.rounds[task], What: fmt.Sprintf(format, args...),
	})
}

// index groups the evidence by task.
func (c *checker) index() {
	for _, a := range c.evidence.Acks {
		c.acked[a.Task] = true
		c.rounds[a.Task] = a.Round
		c.add(a.Task)
	}
	for _, task := range c.evidence.Archived {
		c.add(task)
	}
	for _, task := range c.evidence.Cancels {
		c.cancels[task] = true
	}
	for _, e := range c.evidence.Effects {
		c.effects[e.Task] = append(c.effects[e.Task], e)
	}
	for _, w := range c.evidence.Watches {
		c.watches[w.Task] = append(c.watches[w.Task], w)
	}
	for _, s := range c.evidence.Says {
		c.says[s.Task] = append(c.says[s.Task], s)
	}
	for _, r := range c.evidence.Requests {
		c.requests[r.Answer] = append(c.requests[r.Answer], r)
	}
}

func (c *checker) add(task events.TaskID) {
	if !c.known[task] {
		c.known[task] = true
		c.queue = append(c.queue, task)
	}
}

// scan reads the live log and checks that positions grow (I4). It adds all tasks to the queue, including those without
// an acknowledgement.
func (c *checker) scan(ctx context.Context) error {
	last := uint64(0)
	for s, err := range c.log.Scan(ctx, 1) {
		if err != nil {
			return err
		}
		commit, err := events.Decode(s.Data)
		if err != nil {
			c.violate("I11", "", "position %d: %v", s.Seq, err)
			continue
		}
		if s.Seq <= last {
			c.violate("I4", commit.Task, "position %d follows %d", s.Seq, last)
		}
		last = s.Seq
		c.add(commit.Task)
	}
	return nil
}

// task reads one history and checks it against the evidence about the task.
func (c *checker) task(ctx context.Context, task events.TaskID) error {
	var stored []events.Stored
	for s, err := range c.log.Read(ctx, task, 1) {
		if err != nil {
			return err
		}
		stored = append(stored, s)
	}
	c.report.Tasks++
	c.report.Commits += len(stored)
	if len(stored) == 0 {
		c.violate("I1", task, "the task was acknowledged and is not in the log")
		return nil
	}
	commits := c.chain(task, stored)
	h := newHistory(c, task)
	for _, commit := range commits {
		h.commit(commit)
	}
	h.finish()
	for _, w := range c.watches[task] {
		c.watch(w, stored)
	}
	return nil
}

// placed is a commit with its position in the log.
type placed struct {
	*events.Commit

	seq uint64
}

// chain decodes the commits of a task and checks the links between them (I4, I11).
func (c *checker) chain(task events.TaskID, stored []events.Stored) []placed {
	var commits []placed
	rev, seq, hash := uint64(0), uint64(0), ""
	for _, s := range stored {
		c.checkSecrets(task, s)
		commit, err := events.Decode(s.Data)
		if err != nil {
			c.violate("I11", task, "position %d: %v", s.Seq, err)
			continue
		}
		if commit.Task != task {
			c.violate("I4", task, "its history holds a commit of %s", commit.Task)
		}
		if commit.Rev != rev+1 {
			c.violate("I4", task, "revision %d follows %d", commit.Rev, rev)
		}
		if s.Seq <= seq {
			c.violate("I4", task, "position %d follows %d", s.Seq, seq)
		}
		if commit.Prev != hash {
			c.violate("I11", task, "the hash chain breaks at revision %d", commit.Rev)
		}
		rev, seq, hash = commit.Rev, s.Seq, events.Hash(s.Data)
		c.recordPosition(task, s.Seq, hash)
		commits = append(commits, placed{commit, s.Seq})
	}
	return commits
}

// recordPosition records the position of a commit and checks that no other commit has it (I4).
func (c *checker) recordPosition(task events.TaskID, seq uint64, hash string) {
	if other, taken := c.positions[seq]; taken {
		c.violate("I4", task, "position %d is used by %s as well", seq, other)
	}
	c.positions[seq] = task
	if m := c.evidence.Mark; m != nil && m.Seq == seq && m.Hash == hash {
		c.marked = true
	}
}

// checkSecrets searches a stored commit for secrets (I13).
func (c *checker) checkSecrets(task events.TaskID, s events.Stored) {
	for _, secret := range c.evidence.Secrets {
		if bytes.Contains(s.Data, []byte(secret)) {
			c.violate("I13", task, "the commit at position %d holds a secret", s.Seq)
		}
	}
}

// checkPositions checks that every position belongs to a history (I4).
func (c *checker) checkPositions() {
	last := uint64(0)
	for seq := range c.positions {
		last = max(last, seq)
	}
	for seq := uint64(1); seq <= last; seq++ {
		if _, ok := c.positions[seq]; !ok {
			c.violate("I4", "", "position %d holds no commit of any task", seq)
		}
	}
}

// checkStrangers checks that all effects belong to tasks in the log (I6).
func (c *checker) checkStrangers() {
	for task := range c.effects {
		if !c.known[task] {
			c.violate("I6", task, "the ledger has an effect of a task that is not in the log")
		}
	}
}

// checkKeys checks that each idempotency key of a submission created only one task.
func (c *checker) checkKeys() {
	tasks := map[string]events.TaskID{}
	for _, a := range c.evidence.Acks {
		if first, known := tasks[a.Key]; a.Key != "" && known && first != a.Task {
			c.violate("I1", a.Task, "the idempotency key %q had made %s before", a.Key, first)
		}
		tasks[a.Key] = a.Task
	}
}

// watch checks that a watcher saw every commit exactly once and in order (I8).
func (c *checker) watch(w Watch, stored []events.Stored) {
	for i, s := range w.Seen {
		if i >= len(stored) || s.Rev != uint64(i+1) || s.Seq != stored[i].Seq || s.Hash != events.Hash(stored[i].Data) {
			c.violate("I8", w.Task, "as number %d the watcher saw revision %d at position %d", i+1, s.Rev, s.Seq)
			return
		}
	}
	if w.Ended && len(w.Seen) < len(stored) && !onlyRefusals(stored[len(w.Seen):]) {
		c.violate("I8", w.Task, "the watcher saw %d of %d commits", len(w.Seen), len(stored))
	}
}

// onlyRefusals reports whether commits contain only refused results. These may follow the end of a task.
func onlyRefusals(stored []events.Stored) bool {
	for _, s := range stored {
		commit, err := events.Decode(s.Data)
		if err != nil {
			return false
		}
		for _, e := range commit.Events {
			if e.Kind != events.ResultRefused {
				return false
			}
		}
	}
	return true
}
