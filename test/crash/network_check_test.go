package crash_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/crash"
)

// goodMail is a post in which ada has written two letters, and bob has read both by a cursor and acknowledged one.
func goodMail() []crash.MessageEvent {
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	letter := func(what, who string, n, second int) crash.MessageEvent {
		name := []string{"", "one", "two"}[n]
		return crash.MessageEvent{
			What: what, Who: who, Letter: name, ID: "MSG_" + name, Sender: "user:ada", For: []string{"user:bob"}, No: n,
			Position: uint64(n), Follows: true, Expires: at(120), Asked: at(second), At: at(second + 1),
		}
	}
	return []crash.MessageEvent{
		letter(crash.Tried, "user:ada", 1, 0), letter(crash.Sent, "user:ada", 1, 0),
		letter(crash.Tried, "user:ada", 2, 2), letter(crash.Sent, "user:ada", 2, 2),
		letter(crash.Seen, "user:bob", 1, 4), letter(crash.Acked, "user:bob", 1, 5), letter(crash.Seen, "user:bob", 2, 7),
	}
}

// The places of the events of goodMail.
const (
	oneTried = iota
	oneSent
	twoTried
	twoSent
	oneSeen
	oneAcked
	twoSeen
)

func TestMailBites(t *testing.T) {
	t.Parallel()
	assert.Empty(t, crash.CheckMessages(goodMail()))
	for name, plant := range map[string]func([]crash.MessageEvent) []crash.MessageEvent{
		"a letter that was lost": func(l []crash.MessageEvent) []crash.MessageEvent { return l[:twoSeen] },
		"a letter that became two": func(l []crash.MessageEvent) []crash.MessageEvent {
			again := l[oneSent]
			again.ID = "MSG_other"
			return append(l, again)
		},
		"a letter that came as two": func(l []crash.MessageEvent) []crash.MessageEvent {
			again := l[twoSeen]
			again.ID, again.Position = "MSG_other", 3
			return append(l, again)
		},
		"a letter that nobody wrote": func(l []crash.MessageEvent) []crash.MessageEvent { l[twoSeen].Letter = "three"; return l },
		"a letter of another sender": func(l []crash.MessageEvent) []crash.MessageEvent { l[twoSeen].Sender = "user:eve"; return l },
		"a letter for somebody else": func(l []crash.MessageEvent) []crash.MessageEvent {
			l[twoTried].For, l[twoSent].For = []string{"user:eve"}, nil
			return l
		},
		"again after it was acknowledged": func(l []crash.MessageEvent) []crash.MessageEvent {
			again := l[oneSeen]
			again.Asked, again.Follows = l[oneAcked].At.Add(time.Second), false
			return append(l, again)
		},
		"twice behind a cursor": func(l []crash.MessageEvent) []crash.MessageEvent { return append(l, l[twoSeen]) },
		"behind the cursor":     func(l []crash.MessageEvent) []crash.MessageEvent { l[twoSeen].Position = 1; return l },
		"after it had expired":  func(l []crash.MessageEvent) []crash.MessageEvent { l[twoSeen].Expires = start; return l },
		"out of order":          func(l []crash.MessageEvent) []crash.MessageEvent { l[oneTried].No, l[twoTried].No = 2, 1; return l },
		"an end that came too soon": func(l []crash.MessageEvent) []crash.MessageEvent {
			l[twoSent].Expires = start.Add(time.Hour)
			return l[:twoSeen]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := crash.CheckMessages(plant(goodMail()))
			require.NotEmpty(t, found)
			assert.Equal(t, "I15", found[0].Invariant)
		})
	}
	brief := goodMail()[:twoSeen]
	brief[twoSent].Expires = brief[twoSent].At.Add(time.Second)
	assert.Empty(t, crash.CheckMessages(brief), "a message that has expired need not come")
}

func TestPostKeepsEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "post")
	post, err := crash.OpenMessageLog(path)
	require.NoError(t, err)
	require.NoError(t, post.Append(goodMail()...))
	require.NoError(t, post.Close())
	list, err := crash.ReadMessageLog(path)
	require.NoError(t, err)
	assert.Equal(t, goodMail(), list)
	_, err = crash.ReadMessageLog(path + ".none")
	assert.True(t, fault.Has(err, fault.NotFound))
}

func TestBankBites(t *testing.T) {
	t.Parallel()
	deposits := []crash.DatabaseWrite{
		{Name: "a", Kind: crash.Counter, Answered: true},
		{Name: "b", Kind: crash.Counter},
		{Name: "c", Kind: crash.List, Answered: true},
		{Name: "d", Kind: crash.Documents, Answered: true},
	}
	good := func() crash.DatabaseContent {
		return crash.DatabaseContent{Sum: 1, By: map[string]int{"a": 1}, List: map[string]string{"-k": "c"}, Documents: map[string]string{"x": "d"}}
	}
	assert.Empty(t, crash.CheckDatabase(deposits, good()))
	unanswered := good()
	unanswered.Sum, unanswered.By["b"] = 2, 1
	assert.Empty(t, crash.CheckDatabase(deposits, unanswered), "it may have happened")
	for name, plant := range map[string]func(*crash.DatabaseContent){
		"an acknowledged transaction is gone": func(b *crash.DatabaseContent) { b.Sum, b.By = 0, nil },
		"an acknowledged push is gone":        func(b *crash.DatabaseContent) { b.List = nil },
		"an acknowledged document is gone":    func(b *crash.DatabaseContent) { b.Documents = nil },
		"counted twice":                       func(b *crash.DatabaseContent) { b.Sum, b.By["a"] = 2, 2 },
		"pushed twice":                        func(b *crash.DatabaseContent) { b.List["-l"] = "c" },
		"half of a write":                     func(b *crash.DatabaseContent) { b.Sum = 2 },
		"a write of nobody":                   func(b *crash.DatabaseContent) { b.Documents["y"] = "z" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := good()
			plant(&b)
			found := crash.CheckDatabase(deposits, b)
			require.NotEmpty(t, found)
			assert.Equal(t, "I16", found[0].Invariant)
		})
	}
}

func TestHearingsBite(t *testing.T) {
	t.Parallel()
	list := map[string]string{"-a": "1", "-b": "2", "-c": "3", "-d": "4"}
	good := func() []crash.SubscriptionLog {
		return []crash.SubscriptionLog{
			{ID: "list-1", Initial: []string{"-a"}, Received: []string{"-b", "-c"}, Ended: true},
			{ID: "list-2", Initial: []string{"-c", "-a", "-b"}, Received: []string{"-d"}},
			{ID: "list-3", Ended: true},
		}
	}
	assert.Empty(t, crash.CheckSubscriptions(good(), list))
	for name, plant := range map[string]func([]crash.SubscriptionLog){
		"a gap":                       func(h []crash.SubscriptionLog) { h[0].Received = []string{"-c"} },
		"the end was not told":        func(h []crash.SubscriptionLog) { h[0].Ended = false },
		"one is missing at the end":   func(h []crash.SubscriptionLog) { h[1].Received = nil },
		"one is missing at the begin": func(h []crash.SubscriptionLog) { h[1].Initial = []string{"-a", "-c"} },
		"twice":                       func(h []crash.SubscriptionLog) { h[1].Received = []string{"-c", "-d"} },
		"out of order":                func(h []crash.SubscriptionLog) { h[0].Received = []string{"-c", "-b"} },
		"something that is not there": func(h []crash.SubscriptionLog) { h[1].Received = []string{"-d", "-e"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good()
			plant(h)
			found := crash.CheckSubscriptions(h, list)
			require.NotEmpty(t, found)
			assert.Equal(t, "I17", found[0].Invariant)
		})
	}
}

// agentStory is a task with a write of an agent that is in doubt.
func agentStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, at: start}
	s.add("user:a", events.TaskSubmitted, &events.Submitted{Name: "x", Priority: "normal"})
	s.add("node", events.StepReady, &events.Ready{Step: "a", Attempt: 1, Tool: "AGENT_TASK", Effect: "write"})
	s.add("agent:ada", events.TaskStarted, &events.Moved{})
	s.add("agent:ada", events.StepCalled, &events.Called{Step: "a", Attempt: 1, Worker: "agent:ada"})
	s.add("node", events.StepInDoubt, &events.InDoubt{Step: "a", Attempt: 1, Reason: "lost"})
	s.add("node", events.TaskBlocked, &events.Moved{Block: "input", Reason: "in doubt"})
	return s
}

// A call of an agent may be in doubt when the agent was absent, or when it never started and the node was absent.
func TestAgentsInDoubt(t *testing.T) {
	t.Parallel()
	begun := []crash.Effect{{Phase: crash.Begin, At: start.Add(4500 * time.Millisecond), Tool: crash.ToolAgentWrite, Task: planted, Step: "a", Attempt: 1, Key: string(planted) + "/a", PID: handPID}}
	away := func(who string, from, to int) []crash.Absence {
		return []crash.Absence{{Who: who, From: start.Add(time.Duration(from) * time.Second), To: start.Add(time.Duration(to) * time.Second)}}
	}
	for name, tc := range map[string]struct {
		effects  []crash.Effect
		absences []crash.Absence
		fine     bool
	}{
		"the agent was away":                     {begun, away("agent:ada", 3, 6), true},
		"the node was away before it began":      {nil, away(crash.TheNode, 3, 6), true},
		"a server of the cluster was away":       {begun, away(crash.TheBroker, 3, 6), true},
		"nobody was away":                        {begun, nil, false},
		"another agent was away":                 {begun, away("agent:bob", 3, 6), false},
		"the agent was away at another time":     {begun, away("agent:ada", 1, 3), false},
		"the node was away, but it had begun it": {begun, away(crash.TheNode, 3, 6), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScene(t, agentStory(t))
			c.evidence.Effects, c.evidence.Absences, c.evidence.Agents = tc.effects, tc.absences, map[int]string{handPID: "agent:ada"}
			c.evidence.Watches = nil
			report := c.check(t)
			assert.Equal(t, tc.fine, !report.Has("I6"), "%v", report.Violations)
		})
	}
}
