package backtest_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/policy/backtest"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// pastLog is a log in memory, the newest task first, with pages of one entry.
type pastLog []pastTask

type pastTask struct {
	id      events.TaskID
	commits []api.CommitView
}

func (l pastLog) List(_ context.Context, r api.ListRequest) (api.ListReply, error) {
	for i, t := range l {
		if r.Cursor == "" || r.Cursor == string(t.id) {
			reply := api.ListReply{Tasks: []api.Summary{{ID: t.id}}}
			if i+1 < len(l) {
				reply.Next = string(l[i+1].id)
			}
			return reply, nil
		}
	}
	return api.ListReply{}, nil
}

func (l pastLog) History(_ context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	for _, t := range l {
		if t.id != r.ID {
			continue
		}
		reply := api.HistoryReply{Commits: t.commits[r.From-1 : r.From]}
		if int(r.From) < len(t.commits) {
			reply.Next = r.From + 1
		}
		return reply, nil
	}
	return api.HistoryReply{}, fault.New(fault.NotFound, "no task %s", r.ID)
}

// named is a tool with a name.
type named struct {
	tools.Tool

	name string
}

func (n named) Spec() tools.Spec { return tools.Spec{Name: n.name, Effect: tools.Read} }

type catalogue []string

func (c catalogue) Get(name string) (tools.Tool, bool) {
	return named{name: name}, slices.Contains(c, name)
}

func commit(at time.Time, actor string, all ...events.Payload) api.CommitView {
	c := api.CommitView{At: at, Actor: actor}
	for _, p := range all {
		c.Events = append(c.Events, events.Event{Data: p})
	}
	return c
}

func ready(step, tool string) *events.Ready {
	return &events.Ready{Step: step, Tool: tool, Args: events.Value{Raw: json.RawMessage(`{}`)}}
}

func withRules(t *testing.T, text string) *policy.Policy {
	t.Helper()
	rules, err := policy.ParseRules("p.yaml", []byte("version: 1\n"+text))
	require.NoError(t, err)
	p, err := policy.New(policy.Config{Root: t.TempDir(), Rules: rules})
	require.NoError(t, err)
	return p
}

var (
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	parent = events.KeyedTaskID("", "parent")
	child  = events.KeyedTaskID("", "child")
)

func testLog() pastLog {
	return pastLog{
		{child, []api.CommitView{
			commit(noon.Add(time.Minute), "task:x", &events.Submitted{Parent: &events.Parent{Task: parent, Step: "s"}}),
			commit(noon.Add(2*time.Minute), "", ready("a", "ONE"), ready("a", "ONE"), ready("b", "TWO")),
		}},
		{parent, []api.CommitView{
			commit(noon, "user:ada", &events.Submitted{}, ready("s", "ONE")),
			commit(noon.Add(3*time.Minute), "", ready("u", "UNKNOWN"), &events.Ready{Step: "l", Tool: "ONE", Args: events.InBlobs("sha256:1", 1)}),
		}},
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	before := withRules(t, "default: allow\nrules: [{name: r, action: allow, tools: [ONE]}]\n")
	after := withRules(t, "default: allow\nrules:\n- {name: no-one, action: deny, tools: [ONE]}\n- {name: ask-two, action: ask, tools: [TWO]}\n")
	test := backtest.Test{Source: testLog(), Catalogue: catalogue{"ONE", "TWO"}, Before: before, After: after}

	r, err := test.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{2, 5, 2, 2, 1}, []int{r.Tasks, r.Calls, r.Unjudged, r.Denied, r.Asked})
	steps := make([]string, 0, len(r.Changed))
	for _, c := range r.Changed {
		steps = append(steps, c.Step+" "+c.Agent+" "+c.After.Rule)
	}
	assert.Equal(t, []string{"a user:ada no-one", "b user:ada ask-two", "s user:ada no-one"}, steps)

	limited := test
	limited.MaxTasks, limited.MaxChanged = 1, 1
	r, err = limited.Run(t.Context())
	require.NoError(t, err)
	assert.True(t, r.Truncated)
	assert.Len(t, r.Changed, 1)
	assert.Equal(t, 1, r.Omitted)

	one := test
	one.Task, one.Since = parent, noon.Add(time.Second)
	r, err = one.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 2}, []int{r.Tasks, r.Calls, r.Unjudged}, "older calls do not count")
}

// A test can be limited to tools and to a number of calls, and selects tasks like a list.
func TestRunSelects(t *testing.T) {
	t.Parallel()
	before := withRules(t, "default: deny\nrules: [{name: one, action: allow, tools: [ONE]}]\n")
	after := withRules(t, "default: ask\nrules: [{name: r, action: allow, tools: [TWO]}]\n")
	test := backtest.Test{Source: testLog(), Catalogue: catalogue{"ONE", "TWO"}, Before: before, After: after}

	r, err := test.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{5, 0, 2, 1}, []int{r.Calls, r.Denied, r.Asked, r.Allowed})
	changes := make([]string, 0, len(r.Changed))
	for _, c := range r.Changed {
		changes = append(changes, c.Step+" "+string(c.Before.Action)+" "+string(c.After.Action))
	}
	assert.Equal(t, []string{"a allow ask", "b deny allow", "s allow ask"}, changes)

	named := test
	named.Tool = "TW*"
	r, err = named.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{2, 1, 0, 1}, []int{r.Tasks, r.Calls, r.Asked, r.Allowed})

	few := test
	few.MaxCalls = 1
	r, err = few.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{r.Tasks, r.Calls}, "the rest of the tasks is not read")
	assert.True(t, r.Truncated)

	var seen api.ListRequest
	listed := test
	listed.Source = listSpy{testLog(), &seen}
	listed.Since, listed.Until = noon, noon.Add(time.Hour)
	listed.States, listed.Labels = []statemachine.State{statemachine.Failed}, map[string]string{"team": "core"}
	_, err = listed.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, api.ListRequest{Since: noon, Until: noon.Add(time.Hour), States: listed.States, Labels: listed.Labels, Limit: 1000}, seen)
}

// listSpy records the first request of a list.
type listSpy struct {
	pastLog

	seen *api.ListRequest
}

func (s listSpy) List(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	if r.Cursor == "" {
		*s.seen = r
	}
	return s.pastLog.List(ctx, r)
}

func TestRunReportsErrorsOfTheSource(t *testing.T) {
	t.Parallel()
	p := withRules(t, "default: allow\nrules: [{name: r, action: allow, tools: [ONE]}]\n")
	test := backtest.Test{Source: pastLog{}, Catalogue: catalogue{}, Before: p, After: p, Task: parent}
	_, err := test.Run(t.Context())
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}
