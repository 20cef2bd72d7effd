package costs_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

func day(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text+" 12:00")
	if err != nil {
		panic(err)
	}
	return at
}

// paid returns a cost of an answer.
func paid(on, model, who string, nano, tokens int64) costs.Cost {
	return costs.Cost{
		Sum: costs.Sum{Turns: 1, NanoUSD: nano, Usage: events.Usage{Input: tokens}}, At: day(on), Models: []string{model}, Agent: "plan/step",
		Task: "TASK_1", Origin: costs.Origin{Identity: who, Labels: map[string]string{"team": who[len("user:"):]}},
	}
}

func keys(rows []costs.Row) (all []string) {
	for _, row := range rows {
		all = append(all, fmt.Sprintf("%s %d", row.Key, row.NanoUSD))
	}
	return all
}

func TestRows(t *testing.T) {
	t.Parallel()
	var b costs.Book
	b.Add(paid("2026-11-26", "a/x", "user:ada", 3, 1))
	b.Add(paid("2026-11-27", "a/x", "user:bob", 5, 1))
	b.Add(paid("2026-11-27", "b/y", "user:ada", 4, 1))
	lost := paid("2026-11-28", "a/x", "user:ada", 0, 0)
	lost.Models, lost.Sum = []string{"a/x", "b/y"}, costs.Sum{Lost: 1, LostNanoUSD: 100}
	b.Add(lost)
	for by, want := range map[string][]string{
		"": {"2026-11-26 3", "2026-11-27 9", "2026-11-28 0"}, costs.ByModel: {"a/x or b/y 0", "a/x 8", "b/y 4"}, costs.ByAgent: {"plan/step 12"},
		costs.ByIdentity: {"user:ada 7", "user:bob 5"}, costs.ByTask: {"TASK_1 12"}, "label:team": {"ada 7", "bob 5"}, "label:none": {" 12"},
	} {
		assert.Equal(t, want, keys(b.Rows(costs.Query{By: by})), by)
	}
	assert.Equal(t, []string{"2026-11-27 9"}, keys(b.Rows(costs.Query{Since: day("2026-11-27"), Until: day("2026-11-27")})))
	assert.Equal(t, []string{"user:bob 5"}, keys(b.Rows(costs.Query{By: costs.ByIdentity, Identity: "user:bob"})))
}

// However much is added, a book stays small, nothing is lost, and what is old is itemized less.
func TestBookIsBounded(t *testing.T) {
	t.Parallel()
	var b costs.Book
	budget := costs.Budget{NanoUSD: 1, Per: costs.PerMonth, By: costs.ByIdentity}
	b.Watch([]costs.Budget{budget}, day("2026-11-01"))
	const tasks = 30_000
	for i := range tasks {
		c := paid(fmt.Sprintf("2026-11-%02d", 1+i/1500), "a/x", fmt.Sprintf("user:%d", i%100), 1, 1)
		c.Task, c.Labels = events.TaskID(fmt.Sprintf("TASK_%06d", i)), map[string]string{"run": strconv.Itoa(i)}
		b.Add(c)
	}
	for _, by := range []string{costs.ByDay, costs.ByModel, costs.ByTask, costs.ByIdentity, "label:run"} {
		rows := b.Rows(costs.Query{By: by})
		assert.Less(t, len(rows), 10_000)
		sum := costs.Sum{}
		for _, row := range rows {
			sum.Add(row.Sum)
		}
		assert.EqualValues(t, tasks, sum.NanoUSD, by)
		assert.Equal(t, by != costs.ByDay && by != costs.ByModel, rows[len(rows)-1].Older, by)
	}
	newest := b.Rows(costs.Query{By: costs.ByTask, Since: day("2026-11-20")})
	assert.True(t, slices.ContainsFunc(newest, func(r costs.Row) bool { return r.Key == "TASK_029999" }), "the newest tasks are itemized")
	assert.Equal(t, events.Spent{NanoUSD: tasks / 100, Tokens: tasks / 100}, b.Spent(budget, "user:7", day("2026-11-30")), "accounts do not depend on cells")
	text, err := json.Marshal(b.Snapshot())
	require.NoError(t, err)
	assert.Less(t, len(text), 2<<20)
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	budgets := []costs.Budget{{NanoUSD: 10, Per: costs.PerDay, Model: "a/*"}, {Tokens: 5, Per: costs.PerMonth, By: costs.ByIdentity}}
	var b costs.Book
	b.Watch(budgets, day("2026-11-27"))
	b.Add(paid("2026-11-27", "a/x", "user:ada", 3, 2))
	text, err := json.Marshal(b.Snapshot())
	require.NoError(t, err)
	var s costs.Snapshot
	require.NoError(t, json.Unmarshal(text, &s))
	again := s.Book()
	assert.Equal(t, b, again)
	again.Watch(budgets, day("2026-11-27"))
	assert.Equal(t, events.Spent{NanoUSD: 3, Tokens: 2}, again.Spent(budgets[0], "", day("2026-11-27")), "nothing is counted twice")
	empty := (*costs.Snapshot)(nil).Book()
	assert.Empty(t, empty.Rows(costs.Query{}))
}

// A budget has an account for each identity and period, which outlives its limits, and begins with what was spent before.
func TestBudgets(t *testing.T) {
	t.Parallel()
	var b costs.Book
	b.Add(paid("2026-10-01", "a/x", "user:ada", 100, 1))
	b.Add(paid("2026-11-26", "a/x", "user:ada", 1, 1))
	b.Add(paid("2026-11-27", "a/x", "user:ada", 3, 1))
	all := costs.Budget{NanoUSD: 10, Per: costs.PerDay}
	each := costs.Budget{NanoUSD: 10, Per: costs.PerMonth, By: costs.ByIdentity}
	team := costs.Budget{NanoUSD: 10, Per: costs.PerMonth, Labels: map[string]string{"team": "bob"}}
	model := costs.Budget{NanoUSD: 10, Per: costs.PerMonth, Model: "b/*"}
	now := day("2026-11-27")
	b.Watch([]costs.Budget{all, each, team, model}, now)
	nano := func(budget costs.Budget, who, on string) int64 { return b.Spent(budget, who, day(on)).NanoUSD }
	assert.EqualValues(t, 3, nano(all, "", "2026-11-27"), "what was spent before the budget was set")
	assert.EqualValues(t, 4, nano(each, "user:ada", "2026-11-27"))
	b.Add(paid("2026-11-27", "b/y", "user:bob", 5, 1))
	assert.EqualValues(t, 8, nano(all, "user:bob", "2026-11-27"))
	assert.EqualValues(t, 5, nano(each, "user:bob", "2026-11-30"))
	assert.EqualValues(t, 5, nano(team, "", "2026-11-27"))
	assert.EqualValues(t, 5, nano(model, "", "2026-11-27"))
	assert.Equal(t, []string{"user:ada", "user:bob"}, b.Spenders(each, now))
	assert.Zero(t, nano(all, "", "2026-11-28"), "the next day")
	assert.Zero(t, nano(each, "user:bob", "2026-12-01"), "the next month")

	all.NanoUSD = 20
	b.Watch([]costs.Budget{all}, now)
	assert.EqualValues(t, 8, nano(all, "", "2026-11-27"), "another limit")
	assert.Zero(t, nano(each, "user:bob", "2026-11-27"), "the budget is gone")
	assert.Equal(t, day("2026-11-28").Truncate(24*time.Hour), all.Until(now))
	assert.Equal(t, day("2026-12-01").Truncate(24*time.Hour), each.Until(now))
	assert.Equal(t, "$0.00000001 a month of user:ada", each.Name("user:ada"))
	assert.Equal(t, "$0.00000001 a month with label team=bob", team.Name(""))
	b.Watch([]costs.Budget{all, each}, now)
	assert.EqualValues(t, 5, nano(each, "user:bob", "2026-11-27"), "it is set again")
}

// agentTask returns a task whose agent step a has asked its models, and not heard of them.
func agentTask(t *testing.T, parent *events.Parent) *statemachine.Task {
	t.Helper()
	task := &statemachine.Task{ID: "TASK_1", Requestor: "user:ada"}
	for _, e := range []events.Event{
		{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "plan", Parent: parent, Labels: map[string]string{"team": "shop"}}},
		{Kind: events.AgentStarted, Data: &events.Agent{Step: "a", Models: []events.Model{{Name: "m/x"}, {Name: "m/y"}}}},
		{Kind: events.TurnRequested, Data: &events.Turn{Step: "a", Turn: 1, Reserved: events.Spent{NanoUSD: 50, Tokens: 40}}},
		{Kind: events.StepReady, Data: &events.Ready{Step: "a.t1.m", Attempt: 1, Tool: "MODEL_CALL", Purpose: "model"}},
	} {
		require.NoError(t, task.Apply(day("2026-11-27"), e))
	}
	return task
}

func TestOf(t *testing.T) {
	t.Parallel()
	answered := events.Event{Kind: events.TurnAnswered, Data: &events.Answered{Step: "a", Turn: 1, Model: 1, NanoUSD: 9, Usage: events.Usage{Input: 3, Output: 4}}}
	cancelled := func(step string) events.Event {
		return events.Event{Kind: events.StepCancelled, Data: &events.Skipped{Step: step}}
	}
	called := events.Event{Kind: events.StepCalled, Data: &events.Called{Step: "a.t1.m", Attempt: 1}}
	succeeded := events.Event{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a.t1.m", Attempt: 1}}
	lost := costs.Sum{Lost: 1, LostNanoUSD: 50, LostTokens: 40}
	for name, test := range map[string]struct {
		before []events.Event
		event  events.Event
		want   costs.Sum
		models []string
	}{
		"an answer":                      {nil, answered, costs.Sum{Turns: 1, NanoUSD: 9, Usage: events.Usage{Input: 3, Output: 4}}, []string{"m/y"}},
		"an answer that was lost":        {nil, events.Event{Kind: events.TurnLost, Data: &events.LostTurn{Step: "a", Turn: 1, Cost: events.Spent{NanoUSD: 50, Tokens: 40}}}, lost, []string{"m/x", "m/y"}},
		"cancelled while the model asks": {[]events.Event{called}, cancelled("a.t1.m"), lost, []string{"m/x", "m/y"}},
		"cancelled before it is asked":   {nil, cancelled("a.t1.m"), costs.Sum{}, nil},
		"an answer that is not heard":    {[]events.Event{called, succeeded}, cancelled("a"), lost, []string{"m/x", "m/y"}},
		"an agent whose call goes on":    {[]events.Event{called}, cancelled("a"), costs.Sum{}, nil},
		"an agent between its turns":     {[]events.Event{called, succeeded, answered}, cancelled("a"), costs.Sum{}, nil},
		"another step":                   {nil, cancelled("b"), costs.Sum{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := agentTask(t, nil)
			for _, e := range test.before {
				require.NoError(t, task.Apply(day("2026-11-27"), e))
			}
			c, ok := costs.Of(task, day("2026-11-27"), test.event)
			assert.Equal(t, test.want != (costs.Sum{}), ok)
			assert.Equal(t, test.want, c.Sum)
			assert.Equal(t, test.models, c.Models)
			if ok {
				assert.Equal(t, "plan/a", c.Agent)
				assert.Equal(t, costs.Origin{Identity: "user:ada", Labels: map[string]string{"team": "shop"}}, c.Origin)
			}
		})
	}
}

// A turn that is taken over was paid by the task that it is from. A child counts for the task at the top.
func TestWhoPays(t *testing.T) {
	t.Parallel()
	task := agentTask(t, &events.Parent{Task: "TASK_0", Requester: "user:bob", Labels: map[string]string{"team": "top"}})
	answered := events.Event{Kind: events.TurnAnswered, Data: &events.Answered{Step: "a", Turn: 1, NanoUSD: 9}}
	c, ok := costs.Of(task, day("2026-11-27"), answered)
	assert.True(t, ok)
	assert.Equal(t, costs.Origin{Identity: "user:bob", Labels: map[string]string{"team": "top"}}, c.Origin)
	task.Steps["a.t1.m"] = &statemachine.Step{Key: "a.t1.m", State: statemachine.StepSucceeded, Reason: "reused from TASK_9"}
	_, ok = costs.Of(task, day("2026-11-27"), answered)
	assert.False(t, ok)
}
