package crash_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/test/crash"
)

// The indexes of the commits of chatStory.
const (
	atFirstTurn = iota + 2
	atFirstCall
	atLostTurn
	_
	_
	_
	atFirstAnswer
	atSecondTurn
)

// highest is the highest cost of each turn of chatStory.
const highest = 500

// chatStory is a task with an agent that chats: its first request is lost and repeated, and its second turn hears a message.
func chatStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, at: start}
	ask := func(step string, attempt int) {
		s.add("node", events.StepReady, &events.Ready{Step: step, Attempt: attempt, Tool: "MODEL_CALL", Effect: "idempotent"})
	}
	call := func(step string, attempt int) {
		s.add("worker:"+hand, events.StepCalled, &events.Called{Step: step, Attempt: attempt, Worker: hand})
	}
	turn := func(n int) {
		s.add("node", events.TurnRequested, &events.Turn{Step: "a", Turn: n, Reserved: events.Spent{Tokens: highest}})
		s.commits[len(s.commits)-1].Events = append(s.commits[len(s.commits)-1].Events,
			events.Event{Kind: events.StepReady, Data: &events.Ready{Step: modelStep(n), Attempt: 1, Tool: "MODEL_CALL", Effect: "idempotent"}})
	}
	s.add("user:a", events.TaskSubmitted, &events.Submitted{Name: "x", Priority: "normal", Labels: map[string]string{"team": "crash"}})
	s.add("node", events.AgentStarted, &events.Agent{Step: "a", Models: []events.Model{{Name: "bill/x"}}, MaxTurns: 9, MaxTokens: 100})
	turn(1)
	call(modelStep(1), 1)
	s.add("node", events.TurnLost, &events.LostTurn{Step: "a", Turn: 1, Attempt: 1, Cost: events.Spent{Tokens: highest}})
	s.add("node", events.StepRetrying, &events.Retrying{Step: modelStep(1), Attempt: 1, Class: "transport"})
	ask(modelStep(1), 2)
	call(modelStep(1), 2)
	answer := func(n, attempt int) {
		s.add("worker:"+hand, events.StepSucceeded, &events.Succeeded{Step: modelStep(n), Attempt: attempt})
		s.commits[len(s.commits)-1].Events = append(s.commits[len(s.commits)-1].Events,
			events.Event{Kind: events.TurnAnswered, Data: &events.Answered{Step: "a", Turn: n, Stop: "end", Usage: events.Usage{Input: 70, CacheRead: 30, Output: 12}}})
	}
	answer(1, 2)
	turn(2)
	call(modelStep(2), 1)
	answer(2, 1)
	s.add("node", events.TaskStarted, &events.Moved{})
	s.add("node", events.StepSucceeded, &events.Succeeded{Step: "a"})
	s.add("node", events.TaskFinished, &events.Moved{})
	return s
}

func modelStep(turn int) string { return "a.t" + string(rune('0'+turn)) + ".m" }

// chatScene is chatStory with the evidence of its provider, of the person who talks to the agent, and of the node.
func chatScene(t *testing.T, s *story) *scene {
	t.Helper()
	c := newScene(t, s)
	c.evidence.Effects = nil
	bill := events.Spent{Tokens: 112}
	request := func(turn int, digest string, heard ...string) crash.ModelRequest {
		return crash.ModelRequest{Answer: string(planted) + "/" + modelStep(turn), Digest: digest, Heard: heard, Billed: bill}
	}
	c.evidence.Requests = []crash.ModelRequest{request(1, "d1"), request(1, "d1"), request(2, "d2", "said:1", "said:3")}
	c.evidence.Says = []crash.Say{
		{Task: planted, Text: "said:1", Acked: true},
		{Task: planted, Text: "said:2"},
		{Task: planted, Text: "said:3", Acked: true},
		{Task: planted, End: true, Acked: true},
	}
	c.evidence.Budgets = []crash.Budget{{Model: "bill/x", Key: "team", Value: "crash", Limits: []crash.Limit{
		{Spent: events.Spent{Tokens: 2 * highest}}, {From: start.Add(9500 * time.Millisecond), Spent: events.Spent{Tokens: 2*highest + 112}},
	}}}
	sum := costs.Sum{Turns: 2, Usage: events.Usage{Input: 140, CacheRead: 60, Output: 24}, Lost: 1, LostTokens: highest}
	c.evidence.Costs = map[string][]costs.Row{
		costs.ByModel: {{Key: "bill/x", Sum: sum}}, costs.ByTask: {{Key: string(planted), Sum: sum}}, crash.LabelOfCosts: {{Key: "crash", Sum: sum}},
		costs.ByIdentity: {{Key: "user:a", Sum: sum}}, costs.ByDay: {{Key: "2026-11-01", Sum: sum}},
	}
	return c
}

func TestCheckAcceptsAgents(t *testing.T) {
	t.Parallel()
	report := chatScene(t, chatStory(t)).check(t)
	assert.Empty(t, report.Violations)
	assert.Equal(t, 1, report.Ended["DONE"])
}

// TestCheckBitesAgents plants one violation at a time.
func TestCheckBitesAgents(t *testing.T) {
	t.Parallel()
	for _, table := range []map[string]violation{billsGoneWrong(), saysGoneWrong(), budgetsGoneWrong()} {
		for name, v := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := chatStory(t)
				if v.tell != nil {
					v.tell(s)
				}
				c := chatScene(t, s)
				if v.plant != nil {
					v.plant(c)
				}
				report := c.check(t)
				assert.True(t, report.Has(v.invariant), "%s is not among %v", v.invariant, report.Violations)
			})
		}
	}
}

func billsGoneWrong() map[string]violation {
	return map[string]violation{
		"an answer is asked for again": {"I18", nil, func(c *scene) {
			c.evidence.Requests = append(c.evidence.Requests, c.evidence.Requests[2])
		}},
		"a lost answer is in no history": {"I18", func(s *story) {
			s.commits = slices.Delete(s.commits, atLostTurn, atLostTurn+1)
			for i, c := range s.commits {
				c.Rev = uint64(i + 1)
			}
		}, nil},
		"a repeated request is another one": {"I18", nil, func(c *scene) { c.evidence.Requests[1].Digest = "other" }},
		"a bill is higher than the history": {"I20", nil, func(c *scene) { c.evidence.Requests[2].Billed.Tokens++ }},
	}
}

func saysGoneWrong() map[string]violation {
	heard := func(texts ...string) func(*scene) {
		return func(c *scene) { c.evidence.Requests[2].Heard = texts }
	}
	return map[string]violation{
		"a message is not heard":         {"I19", nil, heard("said:1")},
		"a message is heard twice":       {"I19", nil, heard("said:1", "said:3", "said:3")},
		"messages are heard in disorder": {"I19", nil, heard("said:3", "said:1")},
		"a refused message is heard":     {"I19", nil, heard("said:1", "said:3", "said:4")},
		"a message is forgotten": {"I19", nil, func(c *scene) {
			c.evidence.Requests[1].Heard = []string{"said:2"}
		}},
		"a chat does not end": {"I19", func(s *story) {
			s.commits[len(s.commits)-1].Events[0] = events.Event{Kind: events.TaskBlocked, Data: &events.Moved{Block: "input", Reason: "it waits"}}
		}, nil},
	}
}

func budgetsGoneWrong() map[string]violation {
	limit := func(from time.Duration, tokens int64) func(*scene) {
		return func(c *scene) {
			c.evidence.Budgets[0].Limits = []crash.Limit{{From: start.Add(from), Spent: events.Spent{Tokens: tokens}}}
		}
	}
	return map[string]violation{
		"turns in flight exceed a budget": {"I20", nil, limit(0, 2*highest+111)},
		"a lost answer does not count":    {"I20", nil, limit(0, 2*highest-1)},
		"a limit that comes later": {"I20", nil, func(c *scene) {
			c.evidence.Budgets[0].Limits[1].From = start.Add(time.Hour)
		}},
		"a budget in dollars": {"I20", func(s *story) {
			s.commits[atFirstAnswer].Events[1].Data.(*events.Answered).NanoUSD = 9
		}, func(c *scene) {
			c.evidence.Budgets[0].Limits = []crash.Limit{{Spent: events.Spent{NanoUSD: 8}}}
		}},
		"costs that miss a lost answer": {"I20", nil, func(c *scene) {
			c.evidence.Costs[costs.ByModel][0].Lost--
		}},
		"costs of another task": {"I20", nil, func(c *scene) {
			c.evidence.Costs[costs.ByTask][0].Key = string(other)
		}},
		"costs of nobody": {"I20", nil, func(c *scene) {
			c.evidence.Costs[costs.ByIdentity] = append(c.evidence.Costs[costs.ByIdentity], costs.Row{Key: "user:b", Sum: costs.Sum{Turns: 1}})
		}},
	}
}

// Costs of which the tasks are not kept any more are compared as a whole.
func TestCheckAcceptsOlderCosts(t *testing.T) {
	t.Parallel()
	c := chatScene(t, chatStory(t))
	c.evidence.Costs[costs.ByTask][0].Key, c.evidence.Costs[costs.ByTask][0].Older = "", true
	report := c.check(t)
	assert.Empty(t, report.Violations)
	c.evidence.Costs[costs.ByTask][0].Turns++
	report = c.check(t)
	assert.True(t, report.Has("I20"))
}
