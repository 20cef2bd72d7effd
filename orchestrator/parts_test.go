package orchestrator_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// inParts makes a for_each of more than n items one of several parts.
func inParts(n int) option {
	return func(c *orchestrator.Config) { c.Limits.PartItems = n }
}

// partsOf returns the tasks of the parts of a for_each, in the order of their items.
func (n *node) partsOf(id events.TaskID, each string) (parts []events.TaskID) {
	n.t.Helper()
	for _, s := range n.get(id).Steps {
		if strings.HasPrefix(s.Key, each+"[") && s.Child != "" {
			parts = append(parts, s.Child)
		}
	}
	return parts
}

// A for_each in parts has the result that it has in one task.
func TestPartsHaveTheResultOfTheWhole(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]string{
		"items": "steps: [{id: each, for_each: '1..25', do: [{id: a, tool: READ, with: {n: '${{ item * 10 + index }}'}}]}]\n",
		"several steps": "steps: [{id: each, for_each: '1..25', max_parallel: 3, do: [" +
			"{id: a, tool: READ, with: {n: '${{ item }}'}}, {id: b, if: 'item % 2 == 0', tool: WRITE, with: {n: '${{ steps.a.output.n + 1 }}'}}, {id: c, set: {x: '${{ steps.b.state }}'}}]}]\n",
		"what is around": "inputs: {properties: {k: {type: integer, default: 7}}}\nsteps:\n  - {id: first, tool: READ, with: {n: 5}}\n  - {id: bad, tool: READ, with: {text: fail}, on_error: continue}\n" +
			"  - {id: off, if: 'false', tool: READ}\n  - id: each\n    for_each: 'map(1..12, {{id: #}})'\n    as: it\n    do:\n" +
			"      - {id: a, set: {n: '${{ it.id + steps.first.output.n + inputs.k }}', bad: '${{ steps.bad.state }} ${{ steps.bad.error.code }} ${{ steps.bad.attempts }}', off: '${{ steps.off.state }}', name: '${{ task.name }}'}}\n",
		"a case and a condition": "steps:\n  - {id: first, set: {x: 1}}\n  - {id: on, set: {x: true}}\n  - id: each\n    if: steps.on.output.x\n    needs: on\n    for_each: '1..11'\n    do: [{id: a, tool: READ, with: {n: '${{ item }}'}}]\n" +
			"  - id: sw\n    switch: 'steps.first.output.x == 1'\n    cases:\n      \"true\": [{id: more, for_each: '1..12', do: [{id: a, set: {n: '${{ item }}'}}]}]\n      \"false\": []\n",
		"failures":          "steps: [{id: each, for_each: '1..25', on_item_error: continue, do: [{id: a, tool: READ, with: {text: '${{ item % 4 == 0 ? \"fail\" : \"ok\" }}', n: '${{ item }}'}}]}]\n",
		"always":            "steps: [{id: first, set: {x: 1}}]\nalways: [{id: each, for_each: '1..25', do: [{id: a, tool: READ, with: {n: '${{ item }}'}}]}]\n",
		"matrix":            "steps: [{id: each, matrix: {a: '${{ 1..5 }}', b: [x, y, z]}, do: [{id: a, set: {v: '${{ matrix.b }}${{ matrix.a }}'}}]}]\n",
		"children":          "steps: [{id: each, for_each: '1..7', do: [{id: a, with: {n: '${{ item }}'}, run: {orch: v1, inputs: {properties: {n: {type: integer}}}, steps: [{id: w, tool: READ, with: {n: '${{ inputs.n }}'}}], outputs: {n: '${{ steps.w.output.n }}'}}}]}]\n",
		"failed only":       "steps: [{id: each, for_each: '1..25', collect: failed, on_item_error: continue, do: [{id: a, tool: READ, with: {text: '${{ item % 4 == 0 ? \"fail\" : \"ok\" }}', n: '${{ item }}'}}]}]\n",
		"nothing collected": "steps: [{id: each, for_each: '1..25', collect: none, do: [{id: a, tool: READ}]}]\n",
		"nothing":           "steps: [{id: each, for_each: '[]', do: [{id: a, tool: READ}]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each := "each"
			if name == "a case and a condition" {
				plan += "  - {id: both, set: {x: '${{ steps.more.output }}'}}\n"
			}
			text := "orch: v1\nname: " + strings.ReplaceAll(name, " ", "-") + "\n" + plan
			if name != "always" {
				text += "outputs: {all: '${{ steps." + each + ".output }}'}\n"
			}
			var outputs []string
			for _, size := range []int{1000, 5, 4, 1} {
				n := start(t, memlog.New(memlog.Config{}), inParts(size))
				n.serve(failOnWord)
				id := n.submit(text)
				r := n.result(id)
				require.Equal(t, statemachine.Done, r.State, "%s", r.Reason)
				outputs = append(outputs, fmt.Sprintf("%s %s", n.step(id, "each").Output, r.Output))
				for _, part := range n.partsOf(id, "each") {
					n.checkReplay(part)
				}
				n.checkIdle()
			}
			for _, output := range outputs[1:] {
				assert.Equal(t, outputs[0], output)
			}
		})
	}
}

// What is listed is the task, and its parts on request.
func TestPartsInLists(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	n.serve(echoArgs)
	id := n.submit("orch: v1\nname: many\nlabels: {k: v}\nsteps: [{id: each, for_each: '1..25', do: [{id: a, tool: READ}]}]\n")
	n.result(id)
	all, err := n.List(n.ctx(), api.ListRequest{})
	require.NoError(t, err)
	require.Len(t, all.Tasks, 1)
	below, err := n.List(n.ctx(), api.ListRequest{Parent: id})
	require.NoError(t, err)
	require.Len(t, below.Tasks, 3)
	assert.Equal(t, "orch/part/many", below.Tasks[0].Name)
	var keys []string
	for _, s := range n.get(id).Steps {
		keys = append(keys, s.Key+" "+s.Kind)
	}
	assert.Equal(t, []string{"each for_each", "each[0..9] part", "each[10..19] part", "each[20..24] part"}, keys)
	part := n.get(n.partsOf(id, "each")[1])
	assert.Equal(t, id, part.Parent)
	assert.Equal(t, "each[10..19]", part.ParentStep)
	assert.Equal(t, "each[10].a", part.Steps[1].Key)
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal(part.Steps[0].Output, &list))
	assert.Len(t, list, 10)
}

// held takes calls until none is left, and returns them by step.
func (n *node) held(worker string) map[string]work.Call {
	n.t.Helper()
	calls := map[string]work.Call{}
	for idle := 0; idle < 3; {
		b, err := n.Poll(n.ctx(), work.Poll{Worker: worker, Free: 64, Wait: 100 * time.Millisecond})
		require.NoError(n.t, err)
		for _, c := range b.Calls {
			calls[c.Step] = *c
		}
		if idle++; len(b.Calls) > 0 {
			idle = 0
		}
	}
	return calls
}

// max_parallel holds for all open parts together. Parts run side by side only if a failed item does not end the for_each.
func TestPartsShareMaxParallel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parallel, parts int
		continues       bool
		want            []string
	}{
		{parallel: 1, continues: true, want: []string{"each[0].a"}},
		{parallel: 2, continues: true, want: []string{"each[0].a", "each[10].a"}},
		{parallel: 5, continues: true, want: []string{"each[0].a", "each[10].a", "each[11].a", "each[1].a", "each[20].a"}},
		{parallel: 8, continues: true, want: []string{"each[0].a", "each[10].a", "each[11].a", "each[1].a", "each[20].a", "each[21].a", "each[30].a", "each[31].a"}},
		{parallel: 3, want: []string{"each[0].a", "each[1].a", "each[2].a"}},
	} {
		t.Run(fmt.Sprint(c.parallel, c.continues), func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}), inParts(10))
			onError := "fail"
			if c.continues {
				onError = "continue"
			}
			id := n.submit(fmt.Sprintf("orch: v1\nsteps: [{id: each, for_each: '1..55', max_parallel: %d, on_item_error: %s, do: [{id: a, tool: READ}]}]\n", c.parallel, onError))
			calls := n.held("w")
			assert.Equal(t, c.want, slices.Sorted(maps.Keys(calls)))
			most := 0
			for done := 0; done < 55; {
				most = max(most, len(calls))
				for step, call := range calls { // one ends, and its successor begins
					require.NoError(t, n.report("w", call, `{"n":1}`))
					delete(calls, step)
					done++
					break
				}
				maps.Copy(calls, n.polled("w"))
			}
			assert.Equal(t, c.parallel, most)
			require.Equal(t, statemachine.Done, n.result(id).State)
		})
	}
}

// polled returns the calls that there are within a short time.
func (n *node) polled(worker string) map[string]work.Call {
	n.t.Helper()
	calls := map[string]work.Call{}
	b, err := n.Poll(n.ctx(), work.Poll{Worker: worker, Free: 64, Wait: 20 * time.Millisecond})
	require.NoError(n.t, err)
	for _, c := range b.Calls {
		calls[c.Step] = *c
	}
	return calls
}

// An item that fails ends the for_each as in one task: running items end, and no other begins.
func TestPartThatFails(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{"", ", on_error: continue"} {
		var reasons []string
		for _, size := range []int{1000, 10} {
			n := start(t, memlog.New(memlog.Config{}), inParts(size))
			n.serve(failOnWord)
			id := n.submit("orch: v1\nsteps:\n  - {id: each" + rest + ", for_each: '1..35', max_parallel: 1, do: [{id: a, tool: READ, with: {text: '${{ item == 13 ? \"fail\" : \"ok\" }}'}}]}\n" +
				"  - {id: after, if: 'steps.each.state == \"failed\"', set: {code: '${{ steps.each.error.code }} ${{ steps.each.error.message }}'}}\n")
			r := n.result(id)
			each := n.step(id, "each")
			assert.Equal(t, statemachine.StepFailed, each.State)
			reasons = append(reasons, fmt.Sprint(r.State, r.Error, each.Error, string(n.step(id, "after").Output)))
			if size == 10 {
				parts := n.partsOf(id, "each")
				require.Len(t, parts, 2, "no part begins after the failure")
				assert.Equal(t, statemachine.Failed, n.get(parts[1]).State)
				n.checkReplay(parts[1])
			}
			n.checkIdle()
		}
		assert.Equal(t, reasons[0], reasons[1])
		assert.Contains(t, reasons[0], "each[12].a")
	}
}

// limits.max_steps counts the calls of all parts.
func TestPartsCountCalls(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	n.serve(echoArgs)
	plan := "orch: v1\nlimits: {max_steps: %d}\nsteps: [{id: first, tool: READ}, {id: each, needs: first, for_each: '1..25', do: [{id: a, tool: READ}]}]\n"
	assert.Equal(t, statemachine.Done, n.result(n.submit(fmt.Sprintf(plan, 26))).State)
	for _, most := range []int{25, 16, 11} {
		r := n.result(n.submit(fmt.Sprintf(plan, most)))
		assert.Equal(t, statemachine.Failed, r.State)
		assert.Equal(t, fault.QuotaExceeded, r.Error.Code)
		assert.Equal(t, fmt.Sprintf("the task made %d calls, its limit", most), r.Error.Message)
	}
}

// The parts pause and go on with their task; a part that is paused by itself goes on with it as well.
func TestPartsPauseWithTheirTask(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..35', max_parallel: 4, on_item_error: continue, do: [{id: a, tool: READ}]}]\n")
	calls := n.held("w")
	require.Len(t, calls, 4)
	own := calls["each[0].a"].Task
	n.pause(api.PauseRequest{ID: own, Reason: "mine"})
	n.pause(api.PauseRequest{ID: id})
	for _, c := range calls {
		require.NoError(t, n.report("w", c, `{"n":1}`))
	}
	n.none("w")
	for _, part := range n.partsOf(id, "each") {
		assert.True(t, n.get(part).Paused)
	}
	n.stop()
	n = start(t, n.log, inParts(10))
	n.none("w")
	n.resume(api.PauseRequest{ID: id})
	calls = n.held("w")
	assert.Len(t, calls, 4, "with the part that was paused by itself")
	for _, c := range calls {
		require.NoError(t, n.report("w", c, `{"n":1}`))
	}
	n.serve(echoArgs)
	require.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// A part whose task is paused before the part exists is paused as well, and one that is resumed while the node is down resumes.
func TestPartsFollowAfterRestart(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..35', do: [{id: a, tool: READ}]}]\n")
	n.pause(api.PauseRequest{ID: id})
	for range 5 {
		n.stop()
		n = start(t, n.log, inParts(10))
	}
	n.none("w")
	n.resume(api.PauseRequest{ID: id})
	n.serve(echoArgs)
	require.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// The cancellation of a task cancels its parts.
func TestPartsAreCancelled(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..35', max_parallel: 8, on_item_error: continue, do: [{id: a, tool: READ}]}]\nalways: [{id: z, tool: WRITE}]\n")
	calls := n.held("w")
	require.Len(t, calls, 8)
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id, Reason: "enough"})
	require.NoError(t, err)
	n.serve(echoArgs)
	require.Equal(t, statemachine.Cancelled, n.result(id).State)
	for _, part := range n.partsOf(id, "each") {
		require.Equal(t, statemachine.Cancelled, n.result(part).State)
	}
	require.Eventually(t, func() bool {
		s, err := n.Status(n.ctx(), api.StatusRequest{})
		return err == nil && s.Open == 0 && s.Running == 0
	}, time.Minute, time.Millisecond)
}

// When another step ends the task, the running calls of the parts end, and nothing else begins.
func TestPartsEndWithTheirTask(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		n := start(t, memlog.New(memlog.Config{}), inParts(10))
		id := n.submit("orch: v1\nsteps: [{id: bad, tool: WRITE}, {id: each, for_each: '1..35', max_parallel: 2, on_item_error: continue, do: [{id: a, tool: IDEM}]}]\nalways: [{id: z, tool: WRITE2}]\n")
		calls := n.held("w")
		require.Len(t, calls, 3)
		for _, c := range calls {
			require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
		}
		require.NoError(t, n.fail("w", calls["bad"], fault.ClassToolError))
		if restart {
			n.stop()
			n = start(t, n.log, inParts(10))
		}
		n.none("v")
		delete(calls, "bad")
		for _, c := range calls {
			require.NoError(t, n.report("w", c, `{"n":1}`))
		}
		z := n.take("w")
		assert.Equal(t, "z", z.Step)
		require.NoError(t, n.Start(n.ctx(), startedBy("w", z)))
		require.NoError(t, n.report("w", z, `{"n":1}`))
		r := n.result(id)
		assert.Equal(t, statemachine.Failed, r.State)
		assert.Contains(t, r.Reason, "step bad")
		for _, part := range n.partsOf(id, "each") {
			require.Equal(t, statemachine.Failed, n.result(part).State)
			assert.Len(t, n.get(part).Steps, 2, "one item has begun")
		}
		n.checkIdle()
	}
}

// A restart at any moment of a for_each in parts loses nothing and repeats nothing.
func TestPartsAfterRestarts(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(5))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..43', max_parallel: 4, on_item_error: continue, do: [{id: a, tool: IDEM, with: {n: '${{ item }}'}}]}]\noutputs: {sum: '${{ sum(map(steps.each.output, .a.n)) }}'}\n")
	made := map[string]int{}
	for round := 0; !n.get(id).State.Terminal(); round++ {
		for step, c := range n.polled("w") {
			made[step]++
			require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: "w", Output: c.Args, StartedAt: time.Now()}))
		}
		if round%3 == 0 {
			n.stop()
			n = start(t, n.log, inParts(5))
		}
		require.Less(t, round, 1000)
	}
	assert.JSONEq(t, `{"sum":946}`, string(n.result(id).Output))
	assert.Len(t, made, 43)
	for _, part := range n.partsOf(id, "each") {
		n.checkReplay(part)
	}
	n.checkIdle()
}

// A retry runs only the steps that did not succeed, with the keys that they had, however often it takes.
func TestRetryOfParts(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	var mu sync.Mutex
	made, keys, broken := map[string]int{}, map[string]string{}, map[string]bool{"each[13].b": true, "each[16].b": true}
	n.serve(func(c work.Call) (string, *fault.Error) {
		mu.Lock()
		defer mu.Unlock()
		made[c.Step]++
		if known := keys[c.Step]; known != "" {
			assert.Equal(t, known, c.Key())
		}
		keys[c.Step] = c.Key()
		if broken[c.Step] {
			delete(broken, c.Step)
			return "", fault.New(fault.ExecFailed, "no")
		}
		return string(c.Args), nil
	})
	id := n.submit("orch: v1\nsteps:\n  - {id: list, tool: READ, with: {n: 35}}\n  - id: each\n    for_each: 1..steps.list.output.n\n    max_parallel: 1\n" +
		"    do: [{id: a, tool: READ, with: {n: '${{ item }}'}}, {id: b, tool: IDEM, with: {n: '${{ steps.a.output.n * 2 }}'}}]\noutputs: {sum: '${{ sum(map(steps.each.output, .b.n)) }}'}\n")
	require.Equal(t, statemachine.Failed, n.result(id).State)
	_, err := n.Retry(n.ctx(), api.RetryRequest{ID: n.partsOf(id, "each")[1]})
	require.ErrorContains(t, err, "is a part of a for_each")
	tries := []events.TaskID{id}
	for range 2 {
		reply, err := n.Retry(n.ctx(), api.RetryRequest{ID: tries[len(tries)-1], Actor: "user:test"})
		require.NoError(t, err)
		tries = append(tries, reply.ID)
		n.result(reply.ID)
	}
	r := n.result(tries[2])
	require.Equal(t, statemachine.Done, r.State, r.Reason)
	assert.JSONEq(t, `{"sum":1260}`, string(r.Output))
	mu.Lock()
	for step, count := range made {
		want := 1
		if step == "each[13].b" || step == "each[16].b" {
			want = 2
		}
		assert.Equal(t, want, count, step)
	}
	assert.Len(t, made, 71)
	mu.Unlock()
	for _, id := range n.partsOf(tries[2], "each") {
		n.checkReplay(id)
	}
	mu.Lock()
	clear(keys)
	mu.Unlock()
	reply, err := n.Retry(n.ctx(), api.RetryRequest{ID: tries[2], From: "each", Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, n.result(reply.ID).State)
	assert.Equal(t, 2, made["each[0].a"], "from a step everything is repeated")
	n.checkIdle()
}

// A call of a part that may have had its effect is not repeated by a retry.
func TestRetryOfPartsInDoubt(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(10))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..25', do: [{id: a, tool: WRITE}]}]\n")
	for _, c := range n.held("w") {
		require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
	}
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id})
	require.NoError(t, err)
	require.Equal(t, statemachine.Cancelled, n.result(id).State)
	n.result(n.partsOf(id, "each")[0])
	_, err = n.Retry(n.ctx(), api.RetryRequest{ID: id, Actor: "user:test"})
	require.Equal(t, fault.InDoubt, fault.CodeOf(err))
	_, err = n.Retry(n.ctx(), api.RetryRequest{ID: id, From: "each", Actor: "user:test"})
	require.NoError(t, err)
}

// What an approval opens in one part is open in all, and in the task.
func TestPartsShareWhatIsOpened(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(1))
	id := n.submit("orch: v1\nsteps: [{id: each, for_each: '1..3', do: [{id: a, tool: EITHER}]}, {id: after, needs: each, tool: EITHER}]\n")
	scope := ask()
	scope.Scopes = []string{"endpoint https://h:443"}
	n.park("w", n.take("w"), scope)
	assert.Equal(t, statemachine.AwaitingApproval, n.get(n.partsOf(id, "each")[0]).State)
	assert.Contains(t, n.cause(id).Sentence, string(n.partsOf(id, "each")[0]))
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	for _, step := range []string{"each[0].a", "each[1].a", "each[2].a", "after"} {
		c := n.take("w")
		assert.Equal(t, step, c.Step)
		require.NotNil(t, c.Access, step)
		assert.Contains(t, c.Access.Scopes, "endpoint https://h:443", step)
		assert.Equal(t, "user:test", c.Requester)
		require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
		require.NoError(t, n.report("w", c, `{"n":1}`))
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// Calls of parts work where their task works: in its workspace, or in that of its session.
func TestPartsWorkWhereTheirTaskWorks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), inParts(1), func(c *orchestrator.Config) {
		c.Workspace = func(_ string, id events.TaskID) string { return "/w/" + string(id) }
	})
	const plan = "orch: v1\nname: work\nsteps: [{id: each, for_each: '1..2', do: [{id: a, tool: READ, with: {text: '${{ task.workspace }} ${{ task.id }} ${{ task.name }}'}}]}]\n"
	session := events.NewTaskID(time.Now())
	_, err := n.Submit(n.ctx(), api.SubmitRequest{Plan: api.SessionPlan(time.Hour), ID: session, Session: session, Actor: "user:test"})
	require.NoError(t, err)
	for _, within := range []events.TaskID{"", session} {
		id := n.submit(plan, func(r *api.SubmitRequest) { r.Session, r.Shares = within, within != "" })
		for i := range 2 {
			c := n.take("w")
			assert.Equal(t, fmt.Sprintf("each[%d].a", i), c.Step)
			assert.NotEqual(t, id, c.Task)
			assert.Equal(t, cmp.Or(within, id), c.Context())
			assert.Equal(t, within, c.Session)
			assert.Equal(t, "work", c.Name)
			assert.Equal(t, string(id)+"/"+c.Step, c.Key())
			assert.JSONEq(t, fmt.Sprintf(`{"text":"/w/%s %s work"}`, id, id), string(c.Args))
			require.NoError(t, n.report("w", c, `{"n":1}`))
		}
		require.Equal(t, statemachine.Done, n.result(id).State)
	}
}

// The items may come from a large result of a step.
func TestPartsOfALargeResult(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range 30_000 {
		list = append(list, fmt.Sprintf(`{"name":"row %d, \"x\" [%d]"}`, i, i%7))
	}
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(func(c work.Call) (string, *fault.Error) {
		text, err := json.Marshal("[" + strings.Join(list, ",") + "]")
		return `{"n":1,"text":` + string(text) + `}`, fault.From(err)
	})
	id := n.submit("orch: v1\nsteps:\n  - {id: list, tool: READ}\n  - id: each\n    for_each: fromJSON(steps.list.output.text)\n    max_parallel: 500\n    on_item_error: continue\n" +
		"    do: [{id: a, set: {n: '${{ len(item.name) + index }}'}}]\noutputs: {n: '${{ len(steps.each.output) }}', last: '${{ steps.each.output[29999].a.n }}'}\n")
	r := n.result(id)
	require.Equal(t, statemachine.Done, r.State, r.Reason)
	assert.JSONEq(t, `{"n":30000,"last":30017}`, string(r.Output))
	assert.Len(t, n.partsOf(id, "each"), 30)
	each := n.step(id, "each")
	assert.Equal(t, &work.Progress{Done: 30_000, Total: 30_000}, each.Progress)
	n.checkIdle()
}

// Limits that a for_each in parts has.
func TestLimitsOfParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ plan, message string }{
		"signals": {"for_each: 1..10001, do: [{id: a, wait: {signal: go}}]", "its step \"a\" waits for a signal"},
		"items":   {"for_each: 1..steps.n.output.n, do: [{id: a, set: {x: 1}}]", "for_each has 1000500 items, more than 1000000"},
		"outputs": {"for_each: 1..5000, on_item_error: continue, max_parallel: 1000, do: [{id: a, set: {x: '${{ repeat(\"0123456789\", 500) }}'}}]", "the outputs of all items have 23 MiB, the limit is 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}))
			id := n.submit("orch: v1\nsteps: [{id: n, set: {n: 1000500}}, {id: each, needs: n, " + c.plan + "}]\n")
			r := n.result(id)
			assert.Equal(t, statemachine.Failed, r.State)
			assert.Equal(t, fault.ValidationError, r.Error.Code)
			assert.Contains(t, r.Error.Message, c.message)
			n.checkIdle()
		})
	}
}
