package crash_test

import (
	"context"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/crash"
)

const (
	planted = events.TaskID("TASK_01JD0000000000000000000001")
	other   = events.TaskID("TASK_01JD0000000000000000000002")
	hand    = "host-77-ABCDEFGH"
	handPID = 77
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fakeLog contains histories, valid or not.
type fakeLog map[events.TaskID][]events.Stored

func (l fakeLog) Read(_ context.Context, task events.TaskID, _ uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		for _, s := range l[task] {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (l fakeLog) Scan(context.Context, uint64) iter.Seq2[events.Stored, error] {
	all := slices.Concat(slices.Collect(maps.Values(l))...)
	slices.SortStableFunc(all, func(a, b events.Stored) int { return int(a.Seq) - int(b.Seq) })
	return func(yield func(events.Stored, error) bool) {
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// story is a history in the making: one event a commit, a second apart.
type story struct {
	t       *testing.T
	commits []*events.Commit
	at      time.Time
}

func (s *story) add(actor string, kind events.Kind, data events.Payload) {
	s.at = s.at.Add(time.Second)
	s.commits = append(s.commits, &events.Commit{
		Task: planted, Rev: uint64(len(s.commits) + 1), At: s.at, Actor: actor, Events: []events.Event{{Kind: kind, Data: data}},
	})
}

// stored encodes the commits and links them.
func (s *story) stored() []events.Stored {
	s.t.Helper()
	var list []events.Stored
	prev := ""
	for i, c := range s.commits {
		if c.Prev == "" {
			c.Prev = prev
		}
		data, err := events.Encode(c)
		require.NoError(s.t, err)
		list = append(list, events.Stored{Seq: uint64(i + 1), Data: data})
		prev = events.Hash(data)
	}
	return list
}

// The indexes of the commits of goodStory.
const (
	atSubmit = iota
	atReady
	atStart
	atCall
	atSuccess
	atFinish
)

// goodStory is a task with one successful write.
func goodStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, at: start}
	s.add("user:a", events.TaskSubmitted, &events.Submitted{Name: "x", Priority: "normal"})
	s.add("node", events.StepReady, &events.Ready{Step: "a", Attempt: 1, Tool: crash.ToolWrite, Effect: "write"})
	s.add("worker:"+hand, events.TaskStarted, &events.Moved{})
	s.add("worker:"+hand, events.StepCalled, &events.Called{Step: "a", Attempt: 1, Worker: hand})
	s.add("worker:"+hand, events.StepSucceeded, &events.Succeeded{Step: "a", Attempt: 1})
	s.add("node", events.TaskFinished, &events.Moved{})
	return s
}

// doubtfulStory is a task with a write that was in doubt and was resolved.
func doubtfulStory(t *testing.T, as string) *story {
	t.Helper()
	s := goodStory(t)
	s.commits = s.commits[:atSuccess]
	s.at = start.Add(4 * time.Second)
	s.add("node", events.StepInDoubt, &events.InDoubt{Step: "a", Attempt: 1, Reason: "lost"})
	s.add("node", events.TaskBlocked, &events.Moved{Block: "input", Reason: "in doubt"})
	s.add("user:a", events.TaskUnblocked, &events.Moved{})
	s.add("user:a", events.StepResolved, &events.Resolved{Step: "a", As: as, By: "user:a"})
	if as == "retry" {
		s.add("node", events.StepReady, &events.Ready{Step: "a", Attempt: 2, Tool: crash.ToolWrite, Effect: "write"})
		s.add("worker:"+hand, events.StepCalled, &events.Called{Step: "a", Attempt: 2, Worker: hand})
		s.add("worker:"+hand, events.StepSucceeded, &events.Succeeded{Step: "a", Attempt: 2})
	}
	s.add("node", events.TaskFinished, &events.Moved{})
	return s
}

func effectOf(phase string, attempt int, after time.Duration) crash.Effect {
	return crash.Effect{
		Phase: phase, At: start.Add(after), Tool: crash.ToolWrite, Task: planted, Step: "a", Attempt: attempt,
		Key: string(planted) + "/a", PID: handPID,
	}
}

// scene is all that a check gets.
type scene struct {
	story    *story
	log      fakeLog
	evidence crash.Evidence
}

func newScene(t *testing.T, s *story) *scene {
	t.Helper()
	c := &scene{story: s, log: fakeLog{planted: s.stored()}}
	c.evidence = crash.Evidence{
		Acks:    []crash.Ack{{Task: planted, Key: "k", Round: 3}},
		Effects: []crash.Effect{effectOf(crash.Begin, 1, 4500*time.Millisecond), effectOf(crash.End, 1, 4600*time.Millisecond)},
	}
	w := crash.Watch{Task: planted, Ended: true}
	for i, stored := range c.log[planted] {
		w.Seen = append(w.Seen, crash.Sighting{Seq: stored.Seq, Rev: uint64(i + 1), Hash: events.Hash(stored.Data)})
	}
	last := w.Seen[len(w.Seen)-1]
	c.evidence.Watches = []crash.Watch{w}
	c.evidence.Mark = &crash.Mark{Seq: last.Seq, Task: planted, Hash: last.Hash}
	return c
}

func (c *scene) check(t *testing.T) crash.Report {
	t.Helper()
	report, err := crash.Check(t.Context(), c.log, c.evidence)
	require.NoError(t, err)
	return report
}

func TestCheckAcceptsWhatIsRight(t *testing.T) {
	t.Parallel()
	lost := map[int]string{handPID: "kill"}
	succeeded := newScene(t, doubtfulStory(t, "succeeded"))
	succeeded.evidence.Lost = lost
	retried := newScene(t, doubtfulStory(t, "retry"))
	retried.evidence.Lost = lost
	retried.evidence.Effects = []crash.Effect{
		effectOf(crash.Begin, 1, 4500*time.Millisecond), effectOf(crash.Begin, 2, 10500*time.Millisecond), effectOf(crash.End, 2, 11*time.Second),
	}
	refused := goodStory(t)
	refused.add("worker:"+hand, events.ResultRefused, &events.Refused{Step: "a", Attempt: 1, Worker: hand})
	late := newScene(t, refused)
	late.evidence.Watches[0].Seen = late.evidence.Watches[0].Seen[:len(refused.commits)-1]

	for name, c := range map[string]*scene{
		"a good task":           newScene(t, goodStory(t)),
		"resolved as succeeded": succeeded,
		"resolved as retry":     retried,
		"a late result":         late,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := c.check(t)
			assert.Empty(t, report.Violations)
			assert.Equal(t, 1, report.Ended["DONE"])
		})
	}
}

// violation is something planted that a check must find.
type violation struct {
	invariant string
	// tell changes the story before it is written, plant changes the evidence or the log afterwards.
	tell  func(*story)
	plant func(*scene)
}

// TestCheckBites plants one violation at a time.
func TestCheckBites(t *testing.T) {
	t.Parallel()
	for _, table := range []map[string]violation{tasksGoneWrong(), logsGoneWrong(), callsGoneWrong(), clientsGoneWrong()} {
		for name, v := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := goodStory(t)
				if v.tell != nil {
					v.tell(s)
				}
				c := newScene(t, s)
				if v.plant != nil {
					v.plant(c)
				}
				report := c.check(t)
				assert.True(t, report.Has(v.invariant), "%s is not among %v", v.invariant, report.Violations)
			})
		}
	}
}

func tasksGoneWrong() map[string]violation {
	return map[string]violation{
		"missing task": {"I1", nil, func(c *scene) { delete(c.log, planted) }},
		"no end": {"I1", func(s *story) {
			s.commits = s.commits[:atFinish]
		}, nil},
		"blocked without a reason": {"I1", func(s *story) {
			s.commits[atFinish].Events[0] = events.Event{Kind: events.TaskBlocked, Data: &events.Moved{}}
		}, nil},
		"child that is missing": {"I1", func(s *story) {
			s.commits[atReady].Events = append(s.commits[atReady].Events, events.Event{Kind: events.StepSpawned, Data: &events.Spawned{Step: "b", Child: other}})
		}, nil},
		"one key, two tasks in the log": {"I1", func(s *story) {
			s.commits[atSubmit].Events[0].Data = &events.Submitted{Name: "x", Priority: "normal", IdempotencyKey: "k"}
		}, func(c *scene) {
			for _, commit := range c.story.commits {
				commit.Task, commit.Prev = other, ""
			}
			c.log[other] = c.story.stored()
		}},
		"one key, two tasks": {"I1", nil, func(c *scene) {
			c.evidence.Acks = append(c.evidence.Acks, crash.Ack{Task: other, Key: "k"})
		}},
		"two ends": {"I2", func(s *story) { s.add("node", events.TaskFinished, &events.Moved{}) }, nil},
		"a step after the end": {"I2", func(s *story) {
			s.add("node", events.StepReady, &events.Ready{Step: "z", Attempt: 1, Tool: crash.ToolRead})
		}, nil},
		"a move that the table does not have": {"I3", func(s *story) {
			s.commits[atStart].Events[0].Kind = events.TaskFinalized
		}, nil},
		"a step that the table does not have": {"I3", func(s *story) {
			s.commits[atReady].Events = append(s.commits[atReady].Events, events.Event{Kind: events.StepSkipped, Data: &events.Skipped{Step: "a"}})
		}, nil},
		"submitted twice": {"I3", func(s *story) {
			s.commits[atReady].Events = append(s.commits[atReady].Events, s.commits[atSubmit].Events[0])
		}, nil},
	}
}

func logsGoneWrong() map[string]violation {
	return map[string]violation{
		"failed without a failure": {"I1", func(s *story) {
			s.commits[atFinish].Events[0].Kind = events.TaskFailed
		}, nil},
		"cancelled by nobody": {"I10", func(s *story) {
			s.commits[atFinish].Events[0].Kind = events.TaskCancelled
		}, nil},
		"broken chain": {"I11", func(s *story) { s.commits[atCall].Prev = "x" }, nil},
		"changed commit": {"I11", nil, func(c *scene) {
			c.log[planted][atReady].Data = append(slices.Clone(c.log[planted][atReady].Data), ' ')
		}},
		"unreadable commit":      {"I11", nil, func(c *scene) { c.log[planted][atReady].Data = []byte("{") }},
		"mark beyond the log":    {"I11", nil, func(c *scene) { c.evidence.Mark.Seq = 99 }},
		"mark of another commit": {"I11", nil, func(c *scene) { c.evidence.Mark.Hash = "x" }},
		"gap in the revisions": {"I4", nil, func(c *scene) {
			c.log[planted] = slices.Delete(c.log[planted], atStart, atCall)
		}},
		"position that nothing holds": {"I4", nil, func(c *scene) { c.log[planted][atFinish].Seq++ }},
		"position used twice":         {"I4", nil, func(c *scene) { c.log[planted][atFinish].Seq-- }},
		"position goes back":          {"I4", nil, func(c *scene) { c.log[planted][atFinish].Seq = 1 }},
		"commit of another task":      {"I4", func(s *story) { s.commits[atStart].Task = other }, nil},
	}
}

func callsGoneWrong() map[string]violation {
	return map[string]violation{
		"double effect": {"I6", nil, func(c *scene) {
			c.evidence.Effects = append(c.evidence.Effects, effectOf(crash.Begin, 1, 4700*time.Millisecond))
		}},
		"effect before its start was durable":  {"I6", nil, func(c *scene) { c.evidence.Effects[0].At = start }},
		"effect of an attempt without a start": {"I6", nil, func(c *scene) { c.evidence.Effects[0].Attempt = 2 }},
		"effect of an unknown task": {"I6", nil, func(c *scene) {
			c.evidence.Effects = append(c.evidence.Effects, crash.Effect{Phase: crash.Begin, Task: other, Tool: crash.ToolRead})
		}},
		"effect of an unknown step": {"I6", nil, func(c *scene) { c.evidence.Effects[0].Step = "z" }},
		"result without an effect":  {"I6", nil, func(c *scene) { c.evidence.Effects = nil }},
		"other key": {"I6", nil, func(c *scene) {
			again := c.evidence.Effects[0]
			again.Key += "!"
			c.evidence.Effects = append(c.evidence.Effects, again)
		}},
		"stale result accepted": {"I7", func(s *story) {
			s.commits[atCall].Events = append(s.commits[atCall].Events,
				events.Event{Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Attempt: 1, Class: "worker_lost"}},
				events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 2, Tool: crash.ToolIdem}},
				events.Event{Kind: events.StepCalled, Data: &events.Called{Step: "a", Attempt: 2, Worker: hand}})
		}, nil},
		"result without an attempt": {"I7", func(s *story) {
			s.commits[atSuccess].Events[0].Data = &events.Succeeded{Step: "a"}
		}, nil},
		"result of another worker": {"I7", func(s *story) { s.commits[atSuccess].Actor = "worker:host-78-ABCDEFGH" }, nil},
		"attempt left out": {"I7", func(s *story) {
			s.commits[atReady].Events[0].Data = &events.Ready{Step: "a", Attempt: 2, Tool: crash.ToolWrite}
		}, nil},
	}
}

func clientsGoneWrong() map[string]violation {
	return map[string]violation{
		"watcher missed one": {"I8", nil, func(c *scene) {
			c.evidence.Watches[0].Seen = slices.Delete(c.evidence.Watches[0].Seen, 2, 3)
		}},
		"watcher saw one twice": {"I8", nil, func(c *scene) {
			c.evidence.Watches[0].Seen = slices.Insert(c.evidence.Watches[0].Seen, 2, c.evidence.Watches[0].Seen[2])
		}},
		"watcher was sent away early": {"I8", nil, func(c *scene) {
			c.evidence.Watches[0].Seen = c.evidence.Watches[0].Seen[:3]
		}},
		"watcher saw another commit": {"I8", nil, func(c *scene) { c.evidence.Watches[0].Seen[1].Hash = "x" }},
		"secret in a commit": {"I13", func(s *story) {
			s.commits[atSubmit].Events[0].Data = &events.Submitted{Name: "the token is hidden", Priority: "normal"}
		}, func(c *scene) { c.evidence.Secrets = []string{"is hidden"} }},
		"cancelled and done": {"I10", nil, func(c *scene) { c.evidence.Cancels = []events.TaskID{planted} }},
	}
}

func TestCheckBitesInDoubt(t *testing.T) {
	t.Parallel()
	lost := map[int]string{handPID: "kill"}
	for name, tc := range map[string]struct {
		as    string
		plant func(*scene)
	}{
		"worker was not lost":         {"succeeded", func(c *scene) { c.evidence.Lost = nil }},
		"succeeded without an effect": {"succeeded", func(c *scene) { c.evidence.Effects = nil }},
		"one effect more than decided": {"retry", func(c *scene) {
			c.evidence.Effects = []crash.Effect{
				effectOf(crash.Begin, 1, 4500*time.Millisecond), effectOf(crash.Begin, 2, 10500*time.Millisecond),
				effectOf(crash.Begin, 2, 10600*time.Millisecond), effectOf(crash.End, 2, 11*time.Second),
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, doubtfulStory(t, tc.as))
			c.evidence.Lost = lost
			tc.plant(c)
			report := c.check(t)
			assert.True(t, report.Has("I6"), "I6 is not among %v", report.Violations)
		})
	}
}

// verifiedStory is a task with a verified write that was in doubt, and was repeated.
func verifiedStory(t *testing.T) *story {
	t.Helper()
	s := doubtfulStory(t, "retry")
	for _, c := range s.commits {
		for _, e := range c.Events {
			if ready, ok := e.Data.(*events.Ready); ok {
				ready.Tool = crash.ToolVerified
			}
		}
	}
	return s
}

func TestCheckBitesAttempts(t *testing.T) {
	t.Parallel()
	do := func(phase string, attempt int, after time.Duration) crash.Effect {
		e := effectOf(phase, attempt, after)
		e.Tool = crash.ToolVerified
		return e
	}
	begun := []crash.Effect{do(crash.Begin, 1, 4500*time.Millisecond), do(crash.Alive, 1, 10400*time.Millisecond), do(crash.Begin, 2, 10500*time.Millisecond)}
	again := do(crash.End, 2, 11*time.Second)
	for name, tc := range map[string]struct {
		effects []crash.Effect
		what    string
	}{
		"one after the other": {[]crash.Effect{again}, ""},
		"both at work":        {[]crash.Effect{do(crash.Alive, 1, 10600*time.Millisecond), again}, "attempt 1 of step a was at work 100ms after attempt 2 had begun"},
		"happened twice":      {[]crash.Effect{do(crash.End, 1, 10450*time.Millisecond), again}, "step a happened 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, verifiedStory(t))
			c.evidence.Lost = map[int]string{handPID: "stop"}
			c.evidence.Effects = slices.Concat(begun, tc.effects)
			report := c.check(t)
			if tc.what == "" {
				assert.Empty(t, report.Violations)
				return
			}
			require.Len(t, report.Violations, 1)
			assert.Equal(t, "I6", report.Violations[0].Invariant)
			assert.Contains(t, report.Violations[0].What, tc.what)
		})
	}
}

func TestViolationNamesItsRound(t *testing.T) {
	t.Parallel()
	c := newScene(t, goodStory(t))
	delete(c.log, planted)
	report := c.check(t)
	require.NotEmpty(t, report.Violations)
	assert.Equal(t, "I1 round 3 "+string(planted)+": the task was acknowledged and is not in the log", report.Violations[0].String())
}

func TestLedgerKeepsEffects(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	ledger, err := crash.OpenLedger(path)
	require.NoError(t, err)
	e := effectOf(crash.Begin, 1, 0)
	e.Step = "each[3].w"
	require.NoError(t, ledger.Append(e))
	e.Phase = crash.End
	require.NoError(t, ledger.Append(e))
	require.NoError(t, ledger.Close())

	list, err := crash.ReadLedger(path)
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.True(t, list[1].At.Equal(e.At))
	list[1].At = e.At
	assert.Equal(t, e, list[1])

	_, err = crash.ReadLedger(path + ".none")
	assert.True(t, fault.Has(err, fault.NotFound))
}

func TestLedgerRefusesOtherLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	ledger, err := crash.OpenLedger(path)
	require.NoError(t, err)
	e := effectOf("middle", 1, 0)
	require.NoError(t, ledger.Append(e))
	require.NoError(t, ledger.Close())
	_, err = crash.ReadLedger(path)
	assert.True(t, fault.Has(err, fault.DataLoss))
}

// A worker that did not go on is as good as lost; another one's standstill is no reason.
func TestStandstillIsAReasonForDoubt(t *testing.T) {
	t.Parallel()
	for pid, fine := range map[int]bool{handPID: true, handPID + 1: false} {
		c := newScene(t, doubtfulStory(t, "succeeded"))
		c.evidence.Absences = []crash.Absence{{Who: crash.Process(pid), From: start.Add(3 * time.Second), To: start.Add(6 * time.Second)}}
		report := c.check(t)
		assert.Equal(t, fine, !report.Has("I6"), "%v", report.Violations)
	}
}
