package orchestrator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/holds"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/retention"
)

// parentPlan starts a child that ends at once.
const parentPlan = "orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: a, set: {n: 1}}]\n"

// A held task stays with its family, until the hold has ended.
func TestHeldTasksStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, registry := memlog.New(memlog.Config{}), holds.New(nil)
		held := func(c *orchestrator.Config) { c.Holds = registry }
		n := start(t, log, keeping(10*day, 10*day), held)
		parent := n.submit(parentPlan)
		alone := n.submit(setPlan)
		<-time.After(2 * time.Hour)
		var child events.TaskID
		for _, line := range n.list(api.ListRequest{Parent: parent}) {
			child = line.ID
		}
		require.NotEmpty(t, child)
		reply, err := n.PlaceHold(n.ctx(), api.HoldRequest{IDs: []events.TaskID{child}, Reason: "case 4711", Actor: "user:ada"})
		require.NoError(t, err)
		assert.Equal(t, parent, reply.Holds[0].Family)
		for _, id := range []events.TaskID{parent, child} {
			view, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			require.NoError(t, err)
			assert.Equal(t, reply.Holds, view.Holds)
		}
		<-time.After(12 * day)
		_, err = n.Get(n.ctx(), api.GetRequest{ID: alone})
		hasCode(t, err, fault.Gone)
		_, err = n.PlaceHold(n.ctx(), api.HoldRequest{IDs: []events.TaskID{alone}, Reason: "too late"})
		hasCode(t, err, fault.Gone)
		n.stop()
		n = start(t, log, keeping(10*day, 10*day), held)
		<-time.After(3 * day)
		for _, id := range []events.TaskID{parent, child} {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			require.NoError(t, err)
		}
		report, err := n.Retention(n.ctx(), api.RetentionRequest{})
		require.NoError(t, err)
		assert.Equal(t, 1, report.Held)
		assert.Equal(t, 1, report.WithFamily)
		_, err = n.ReleaseHold(n.ctx(), api.ReleaseHoldRequest{IDs: []events.TaskID{parent}})
		hasCode(t, err, fault.NotFound)
		_, err = n.ReleaseHold(n.ctx(), api.ReleaseHoldRequest{IDs: []events.TaskID{child}, Reason: "another"})
		hasCode(t, err, fault.NotFound)
		_, err = n.ReleaseHold(n.ctx(), api.ReleaseHoldRequest{IDs: []events.TaskID{child}, Reason: "case 4711"})
		require.NoError(t, err)
		<-time.After(2 * day)
		for _, id := range []events.TaskID{parent, child} {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			hasCode(t, err, fault.Gone)
		}
	})
}

func TestBadHoldsAreNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(setPlan)
		long := string(make([]byte, api.MaxHoldText+1))
		for name, c := range map[string]struct {
			r     api.HoldRequest
			code  fault.Code
			field string
		}{
			"no task":     {api.HoldRequest{Reason: "x"}, fault.RequiredField, "ids"},
			"no id":       {api.HoldRequest{IDs: []events.TaskID{"x"}, Reason: "x"}, fault.InvalidFormat, "ids"},
			"no reason":   {api.HoldRequest{IDs: []events.TaskID{id}, Reason: " "}, fault.RequiredField, "reason"},
			"long reason": {api.HoldRequest{IDs: []events.TaskID{id}, Reason: long}, fault.ValidationError, "reason"},
			"too many":    {api.HoldRequest{IDs: make([]events.TaskID, api.MaxHeld+1), Reason: "x"}, fault.ValidationError, "ids"},
			"one unknown": {api.HoldRequest{IDs: []events.TaskID{id, "TASK_01JE0000000000000000000000"}, Reason: "x"}, fault.NotFound, "id"},
		} {
			_, err := n.PlaceHold(n.ctx(), c.r)
			require.Error(t, err, name)
			assert.Equal(t, c.code, fault.CodeOf(err), name)
			assert.Equal(t, c.field, fault.From(err).Field, name)
		}
		reply, err := n.Holds(n.ctx(), api.HoldsRequest{})
		require.NoError(t, err)
		assert.Empty(t, reply.Holds, "all tasks of a request are held, or none")
	})
}

// Rules decide by label and name, and a dry run names the rule.
func TestRulesDecideHowLongTasksStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
			c.Limits.Retention = orchestrator.Retention{Done: 100 * day, Failed: 100 * day, Rules: []retention.Rule{
				{Labels: map[string]string{"env": "prod"}, Done: new(time.Duration(0))},
				{Labels: map[string]string{"env": "test"}, Done: new(10 * day)},
			}}
		})
		label := func(value string) func(*api.SubmitRequest) {
			return func(r *api.SubmitRequest) { r.Labels = map[string]string{"env": value} }
		}
		prod, test, other := n.submit(setPlan, label("prod")), n.submit(setPlan, label("test")), n.submit(setPlan)
		<-time.After(10*day + 30*time.Second)
		report, err := n.Retention(n.ctx(), api.RetentionRequest{Tasks: 10})
		require.NoError(t, err)
		require.Len(t, report.Rules, 3)
		due := func(r api.RetentionReply) (n []int) {
			for _, rule := range r.Rules {
				n = append(n, rule.DueTasks)
			}
			return n
		}
		assert.Equal(t, []int{0, 1, 0}, due(report))
		assert.Positive(t, report.Rules[1].DueBytes)
		require.Len(t, report.Tasks, 1)
		assert.Equal(t, test, report.Tasks[0].ID)
		assert.Equal(t, 2, report.Tasks[0].Rule)
		<-time.After(2 * day)
		gone := func(id events.TaskID) bool {
			_, err := n.Get(n.ctx(), api.GetRequest{ID: id})
			return fault.Has(err, fault.Gone)
		}
		assert.Equal(t, []bool{false, true, false}, []bool{gone(prod), gone(test), gone(other)})
		<-time.After(100 * day)
		assert.Equal(t, []bool{false, true}, []bool{gone(prod), gone(other)})
	})
}

// A list of holds has pages, also while holds end.
func TestPagesOfHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		var ids []events.TaskID
		for range 5 {
			ids = append(ids, n.submit(setPlan))
		}
		_, err := n.PlaceHold(n.ctx(), api.HoldRequest{IDs: ids, Reason: "x", Actor: "user:ada"})
		require.NoError(t, err)
		first, err := n.Holds(n.ctx(), api.HoldsRequest{Limit: 2})
		require.NoError(t, err)
		require.Len(t, first.Holds, 2)
		release := func(ids ...events.TaskID) {
			_, err := n.ReleaseHold(n.ctx(), api.ReleaseHoldRequest{IDs: ids, Note: "closed", Actor: "user:bob"})
			require.NoError(t, err)
		}
		release(first.Holds[1].Task)
		rest, err := n.Holds(n.ctx(), api.HoldsRequest{Cursor: first.Next})
		require.NoError(t, err)
		assert.Len(t, rest.Holds, 3)
		assert.Empty(t, rest.Next)
		release(first.Holds[0].Task, rest.Holds[0].Task)
		var seen []events.TaskID
		for r := (api.HoldsRequest{Released: true, Limit: 1}); ; {
			page, err := n.Holds(n.ctx(), r)
			require.NoError(t, err)
			for _, h := range page.Holds {
				seen = append(seen, h.Task)
			}
			if r.Cursor = page.Next; r.Cursor == "" {
				break
			}
		}
		assert.Equal(t, []events.TaskID{rest.Holds[0].Task, first.Holds[0].Task, first.Holds[1].Task}, seen, "the newest first")
		_, err = n.Holds(n.ctx(), api.HoldsRequest{Limit: api.MaxHeld + 1})
		hasCode(t, err, fault.ValidationError)
	})
}
