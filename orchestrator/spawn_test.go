package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

const (
	spawnPlan = "orch: v1\nsteps:\n  - {id: s, tool: SPAWN}\n"
	// agentPlan has one call. Its text is the prompt.
	agentPlan = "orch: v1\nname: helper\ninputs: {type: object, required: [prompt], properties: {prompt: {type: string}}}\n" +
		"steps:\n  - {id: say, tool: READ, with: {text: \"${{ inputs.prompt }}\"}}\n"
)

// spawn reports that a call continues as a child.
func (n *node) spawn(worker string, c work.Call, yaml, prompt string) error {
	n.t.Helper()
	return n.Report(context.Background(), n.spawning(worker, c, yaml, prompt))
}

func (n *node) spawning(worker string, c work.Call, yaml, prompt string) work.Outcome {
	n.t.Helper()
	text, err := json.Marshal(yaml)
	require.NoError(n.t, err)
	inputs, err := json.Marshal(map[string]string{"prompt": prompt})
	require.NoError(n.t, err)
	return work.Outcome{
		Ref: c.Ref, Worker: worker, StartedAt: time.Now(), Duration: time.Millisecond,
		Spawn: &work.Spawn{Agent: "helper", File: ".orch/agents/helper.yaml", Plan: text, Inputs: inputs},
	}
}

// submitted returns the first event of a task from the log.
func (n *node) submitted(id events.TaskID) *events.Submitted {
	n.t.Helper()
	for stored, err := range n.log.Read(context.Background(), id, 1) {
		require.NoError(n.t, err)
		c, err := events.Decode(stored.Data)
		require.NoError(n.t, err)
		sub, ok := c.Events[0].Data.(*events.Submitted)
		require.True(n.t, ok)
		return sub
	}
	n.t.Fatalf("there is no task %s", id)
	return nil
}

func (n *node) outputOf(r api.ResultReply, id events.TaskID, key string) string {
	n.t.Helper()
	require.Equal(n.t, statemachine.Done, r.State, "%v", r.Error)
	return string(n.step(id, key).Output)
}

// S0-180: the call ends with its child, no worker has it meanwhile, and both say so in the log.
func TestSpawnEndsWithItsChild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(spawnPlan)
		c := n.take("w")
		require.NoError(t, n.spawn("w", c, agentPlan, "hello"))
		s := n.step(id, "s")
		assert.Equal(t, statemachine.StepRunning, s.State)
		status, err := n.Status(context.Background(), api.StatusRequest{})
		require.NoError(t, err)
		assert.Zero(t, status.Running, "no worker has the call")
		cause := n.cause(id)
		assert.Equal(t, "child", cause.Kind)
		assert.Contains(t, cause.Sentence, string(s.Child))

		said := n.take("w")
		assert.Equal(t, s.Child, said.Task)
		require.NoError(t, n.report("w", said, `{"text":"hello","n":0}`))
		<-time.After(time.Minute) // far beyond every lease
		r := n.result(id)
		assert.JSONEq(t, fmt.Sprintf(`{"task_id":%q,"status":"DONE","report":{"text":"hello","n":0}}`, s.Child), n.outputOf(r, id, "s"))
		child := n.submitted(s.Child)
		above := child.Parent
		assert.False(t, above.Since.IsZero())
		assert.Equal(t, &events.Parent{Task: id, Step: "s", Depth: 1, Agent: "helper", Requester: "user:test", Since: above.Since}, above)
		assert.Equal(t, "helper", child.Name)
		n.result(s.Child)
		page, err := n.List(context.Background(), api.ListRequest{Parent: id})
		require.NoError(t, err)
		require.Len(t, page.Tasks, 1)
		assert.Equal(t, s.Child, page.Tasks[0].ID)
		n.checkIdle()
	})
}

// The outputs of a plan are its report; a single `report` among them is the report itself.
func TestSpawnReports(t *testing.T) {
	t.Parallel()
	for outputs, want := range map[string]string{
		"outputs: {report: \"${{ steps.say.output.text }}\"}":       `"hi"`,
		"outputs: {report: \"${{ steps.say.output.text }}\", n: 1}": `{"report":"hi","n":1}`,
		"outputs: {n: 1}": `{"n":1}`,
		"":                `{"text":"hi"}`,
	} {
		t.Run(outputs, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}))
			id := n.submit(spawnPlan)
			require.NoError(t, n.spawn("w", n.take("w"), agentPlan+outputs+"\n", "hi"))
			child := n.step(id, "s").Child
			require.NoError(t, n.report("w", n.take("w"), `{"text":"hi"}`))
			assert.JSONEq(t, fmt.Sprintf(`{"task_id":%q,"status":"DONE","report":%s}`, child, want), n.outputOf(n.result(id), id, "s"))
		})
	}
}

// A report that is too large for an event is complete nevertheless.
func TestSpawnBringsLargeReports(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	large := strings.Repeat("x", 200<<10)
	id := n.submit(spawnPlan + "outputs: {n: '${{ len(steps.s.output[\"re\" + \"port\"].text) }}'}\n")
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, large))
	said := n.take("w")
	require.NoError(t, n.report("w", said, string(said.Args)))
	r := n.result(id)
	assert.JSONEq(t, fmt.Sprintf(`{"n":%d}`, len(large)), string(r.Output))
}

// What looks like an expression in a prompt is only text (S0-180).
func TestPromptIsData(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	const prompt = "${{ task.root }} and ${{ fail('no') }} and ${{ broken"
	id := n.submit(spawnPlan)
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, prompt))
	said := n.take("w")
	var in echoIn
	require.NoError(t, json.Unmarshal(said.Args, &in))
	assert.Equal(t, prompt, in.Text)
	require.NoError(t, n.report("w", said, string(said.Args)))
	n.result(id)
}

// A failing child is the error of the call, and a retry starts another child.
func TestSpawnFailsWithItsChild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit("orch: v1\nsteps:\n  - {id: s, tool: SPAWN, retry: {max_attempts: 2, initial: 10ms}}\n")
		var children []events.TaskID
		for range 2 {
			require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
			children = append(children, n.step(id, "s").Child)
			require.NoError(t, n.fail("w", n.take("w"), "denied"))
		}
		r := n.result(id)
		assert.Equal(t, statemachine.Failed, r.State)
		assert.Equal(t, fault.ExecFailed, r.Error.Code)
		assert.Contains(t, r.Error.Message, string(children[1]))
		assert.NotEqual(t, children[0], children[1])
		assert.Equal(t, 2, n.step(id, "s").Attempt)
		n.checkIdle()
	})
}

// Without a retry rule a failing child is not repeated, although the call itself may be.
func TestSpawnIsNotRepeatedByItself(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(spawnPlan)
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	require.NoError(t, n.fail("w", n.take("w"), "tool_error"))
	assert.Equal(t, statemachine.Failed, n.result(id).State)
}

// S0-181: cancel reaches the child, and its running call.
func TestCancelReachesSpawnedChild(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(spawnPlan)
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	said := n.take("w")
	require.NoError(t, n.cancel(id))
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	assert.Equal(t, statemachine.Cancelled, n.result(said.Task).State)
	b := n.poll("w", 0)
	require.Len(t, b.Cancel, 1)
	assert.Equal(t, said.Ref, b.Cancel[0])
	n.checkIdle()
}

// A child that was cancelled is not repeated.
func TestCancelledChildEndsTheCall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: s, tool: SPAWN, retry: {max_attempts: 5}}\n")
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	require.NoError(t, n.cancel(n.take("w").Task))
	r := n.result(id)
	assert.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.Cancelled, r.Error.Code)
	n.checkIdle()
}

// S0-181: a child ends no later than its parent, and than the call may take.
func TestSpawnedChildHasNoMoreTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan, child string
		want        time.Duration
	}{
		"of the parent": {"orch: v1\nlimits: {deadline: 20s}\nsteps: [{id: s, tool: SPAWN}]\n", "limits: {deadline: 1h}\n", 20 * time.Second},
		"of the call":   {"orch: v1\nlimits: {deadline: 20s}\nsteps: [{id: s, tool: SPAWN, timeout: 5s}]\n", "", 5 * time.Second},
		"its own":       {"orch: v1\nlimits: {deadline: 20s}\nsteps: [{id: s, tool: SPAWN}]\n", "limits: {deadline: 2s}\n", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, memlog.New(memlog.Config{}))
				began := time.Now()
				id := n.submit(c.plan)
				require.NoError(t, n.spawn("w", n.take("w"), agentPlan+c.child, "p"))
				child := n.step(id, "s").Child
				n.take("w")
				r := n.result(id)
				assert.Equal(t, statemachine.Failed, r.State)
				assert.Equal(t, fault.Timeout, r.Error.Code)
				assert.WithinDuration(t, began.Add(c.want), time.Now(), time.Second)
				assert.WithinDuration(t, began.Add(c.want), *n.submitted(child).Deadline, time.Second)
				assert.True(t, n.result(child).State.Terminal())
			})
		})
	}
}

// S0-181, A-48: the fourth level is refused.
func TestDepthOfSpawnedChildren(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	const self = "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps: [{id: s, tool: SPAWN}]\n"
	id := n.submit(self)
	for range 4 {
		asked := n.take("w")
		require.NoError(t, n.spawn("w", asked, self, "again"))
		require.NoError(t, n.spawn("w", asked, self, "again"), "the same report again")
	}
	r := n.result(id)
	assert.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.QuotaExceeded, r.Error.Code)
	assert.Contains(t, r.Error.Message, "at most 3 deep")
	n.checkIdle()
}

// S0-181: the seventeenth child of a task is refused.
func TestFanOutOfSpawnedChildren(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: e, for_each: 1..17, on_item_error: continue, max_parallel: 17, do: [{id: s, tool: SPAWN}]}\n")
	b := n.poll("w", 17)
	require.Len(t, b.Calls, 17)
	for _, c := range b.Calls {
		require.NoError(t, n.spawn("w", *c, agentPlan, "p"))
	}
	failed, children := 0, map[events.TaskID]bool{}
	for _, s := range n.get(id).Steps {
		if s.Error != nil {
			failed++
			assert.Equal(t, fault.QuotaExceeded, s.Error.Code)
			assert.Contains(t, s.Error.Message, "at most 16 child tasks")
		} else if s.Child != "" {
			children[s.Child] = true
		}
	}
	assert.Equal(t, 1, failed)
	assert.Len(t, children, 16)
	n.serve(echoArgs)
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// A node that ends between the commit that starts a child and the child's submission submits it later, once.
func TestSpawnOverRestart(t *testing.T) {
	t.Parallel()
	var parent atomic.Value
	parent.Store(events.TaskID(""))
	log := memlog.New(memlog.Config{Fail: func(r *events.Record) error {
		if id := parent.Load(); id != events.TaskID("") && r.Task != id {
			return fault.New(fault.Unavailable, "gone")
		}
		return nil
	}})
	n := start(t, log)
	id := n.submit(spawnPlan)
	parent.Store(id)
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	child := n.step(id, "s").Child
	n.none("w")
	n.stop()
	parent.Store(events.TaskID(""))

	n = start(t, log)
	assert.Equal(t, child, n.step(id, "s").Child)
	status, err := n.Status(context.Background(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Zero(t, status.Running, "no worker is waited for that had the call")
	said := n.take("w")
	assert.Equal(t, child, said.Task)
	n.stop()

	n = start(t, log) // while the child is running
	require.NoError(t, n.Report(context.Background(), work.Outcome{Ref: said.Ref, Worker: "w", Output: json.RawMessage(`{"n":1}`), StartedAt: time.Now()}))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// A parent that could not be written when its child ended is notified after the restart.
func TestSpawnHearsOfItsChildAfterARestart(t *testing.T) {
	t.Parallel()
	var refuse atomic.Value
	refuse.Store(events.TaskID(""))
	log := memlog.New(memlog.Config{Fail: func(r *events.Record) error {
		if r.Task == refuse.Load() {
			return fault.New(fault.Unavailable, "gone")
		}
		return nil
	}})
	n := start(t, log)
	id := n.submit(spawnPlan)
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	said := n.take("w")
	refuse.Store(id)
	require.NoError(t, n.report("w", said, `{"n":1}`))
	n.result(said.Task)
	n.stop()
	refuse.Store(events.TaskID(""))
	n = start(t, log)
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// If the worker that should report the child is lost, the next worker reports it, and the report of the first is refused.
func TestWorkerLostBeforeTheSpawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(spawnPlan)
		lost := n.take("lost")
		<-time.After(time.Minute)
		again := n.take("w")
		assert.Equal(t, 2, again.Attempt)
		require.NoError(t, n.spawn("w", again, agentPlan, "p"))
		hasCode(t, n.spawn("lost", lost, agentPlan, "p"), fault.Conflict)
		require.NoError(t, n.spawn("w", again, agentPlan, "p"), "the same report again")
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		require.NoError(t, n.spawn("w", again, agentPlan, "p"), "and after the end")
		page, err := n.List(context.Background(), api.ListRequest{Parent: id})
		require.NoError(t, err)
		assert.Len(t, page.Tasks, 1)
		n.checkIdle()
	})
}

// An invalid child is the error of the call. A broken template names its location.
func TestSpawnRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan, prompt string
		code         fault.Code
		says         string
	}{
		"broken":   {"orch: v1\nsteps:\n  - {id: a, tool: NONE}\n", "p", fault.InvalidPlan, ".orch/agents/helper.yaml:3:19: "},
		"no input": {"orch: v1\nsteps:\n  - {id: a, tool: READ}\n", "p", fault.ValidationError, ".orch/agents/helper.yaml: "},
		"leak":     {agentPlan + "# SECRET\n", "p", fault.SecretDetected, ".orch/agents/helper.yaml: holds what looks like a secret"},
		"secret":   {agentPlan, "SECRET", fault.SecretDetected, "looks like a secret"},
		"internal": {"orch: v1\nsteps:\n  - {id: a, tool: INTERNAL}\n", "p", fault.InvalidPlan, "there is no tool"},
		"tools":    {"orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps:\n  - {id: a, tool: WRITE}\n", "p", fault.Forbidden, "WRITE"},
		"no tools": {"orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nlimits: {tools: [WRITE]}\nsteps:\n  - {id: a, tool: WRITE}\n", "p", fault.Forbidden, "limits.tools"},
		"deeper":   {"orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps:\n  - {id: a, run: {orch: v1, steps: [{id: b, tool: WRITE}]}}\n", "p", fault.Forbidden, "WRITE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
				c.FindSecret = func(data []byte) (string, bool) { return "test", strings.Contains(string(data), "SECRET") }
			})
			id := n.submit("orch: v1\nlimits: {tools: [SPAWN, READ, READ2]}\nsteps:\n  - {id: s, tool: SPAWN}\n")
			asked := n.take("w")
			require.NoError(t, n.spawn("w", asked, c.plan, c.prompt))
			r := n.result(id)
			require.NoError(t, n.spawn("w", asked, c.plan, c.prompt), "the same report again")
			assert.Equal(t, statemachine.Failed, r.State)
			assert.Equal(t, c.code, r.Error.Code)
			assert.Contains(t, r.Error.Message, c.says)
			n.checkIdle()
		})
	}
}

// The values of `allow` that depend on the inputs are recorded once, and count as if the plan had said them literally.
func TestAllowOfInputs(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	const yaml = "orch: v1\ninputs: {type: object, properties: {dir: {type: string}}}\nallow: {paths: ['${{ inputs.dir }}/out']}\nsteps: [{id: s, tool: SPAWN}, {id: w, tool: EITHER}]\n"
	id := n.submit(yaml, func(r *api.SubmitRequest) { r.Inputs = json.RawMessage(`{"dir":"docs"}`) })
	opened := events.Allow{Paths: []string{"docs/out"}}
	assert.Equal(t, &opened, n.submitted(id).Allow)
	for _, call := range n.poll("w", 2).Calls {
		if call.Tool == "SPAWN" {
			require.NoError(t, n.spawn("w", *call, agentPlan, "p"))
			continue
		}
		assert.Equal(t, opened.Paths, call.Access.Paths)
	}
	n.take("w") // the call of the child, which is there then
	assert.Equal(t, []events.Allow{opened}, n.submitted(n.step(id, "s").Child).Within)
}

// S0-181: what a child may reach is written down, and grows narrower from level to level.
func TestScopeOfSpawnedChildren(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	const between = "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nallow: {endpoints: [b]}\nlimits: {tools: [READ, SPAWN]}\nsteps:\n" +
		"  - {id: s, tool: SPAWN}\n  - {id: sub, run: {orch: v1, allow: {paths: [wide]}, steps: [{id: a, tool: READ}]}}\n"
	id := n.submit("orch: v1\nallow: {paths: [out], endpoints: [a]}\nlimits: {tools: [READ, SPAWN, WRITE]}\nsteps:\n  - {id: s, tool: SPAWN}\n")
	require.NoError(t, n.spawn("w", n.take("w"), between, "p"))
	child := n.step(id, "s").Child
	above := events.Allow{Paths: []string{"out"}, Endpoints: []string{"a"}}
	next, sub := n.take("w"), n.take("w")
	if next.Tool != "SPAWN" {
		next, sub = sub, next
	}
	require.NoError(t, n.spawn("w", next, agentPlan, "p"))
	grandchild := n.step(child, "s").Child
	assert.Nil(t, n.submitted(id).Within)
	assert.Equal(t, []events.Allow{above}, n.submitted(child).Within)
	assert.Equal(t, []string{"READ", "SPAWN"}, n.submitted(child).Tools)
	assert.Equal(t, []events.Allow{above}, n.submitted(sub.Task).Within, "a sub-plan stays within what bounds its task")
	assert.Equal(t, []string{"READ", "SPAWN"}, n.submitted(sub.Task).Tools)
	said := n.take("w")
	assert.Equal(t, []events.Allow{above, {Endpoints: []string{"b"}}}, n.submitted(grandchild).Within)
	denied, err := n.Call(context.Background(), api.CallRequest{ID: grandchild, Tool: "WRITE2", Args: json.RawMessage(`{}`), Wait: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, fault.Forbidden, denied.Error.Code)
	require.NoError(t, n.report("w", sub, `{}`))
	require.NoError(t, n.fail("w", said, "denied"))
	n.result(id)
	again, err := n.Retry(context.Background(), api.RetryRequest{ID: grandchild})
	require.NoError(t, err)
	assert.Equal(t, n.submitted(grandchild).Within, n.submitted(again.ID).Within, "a retry reaches no further")
	assert.Equal(t, n.submitted(grandchild).Tools, n.submitted(again.ID).Tools)
}

// Nobody can call an internal tool by its name.
func TestInternalTools(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	_, err := n.trySubmit("orch: v1\nsteps: [{id: a, tool: INTERNAL}]\n")
	hasCode(t, err, fault.InvalidPlan)
	id := n.submit(onePlan)
	_, err = n.Call(context.Background(), api.CallRequest{ID: id, Tool: "INTERNAL", Args: json.RawMessage(`{}`)})
	hasCode(t, err, fault.NotFound)
}

// The node itself can submit a plan with an internal tool.
func TestSpawnOfTheNode(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(spawnPlan)
	o := n.spawning("w", n.take("w"), "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps: [{id: a, tool: INTERNAL}]\n", "p")
	o.Spawn.File = ""
	require.NoError(t, n.Report(context.Background(), o))
	c := n.take("w")
	assert.Equal(t, "INTERNAL", c.Tool)
	require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
	require.NoError(t, n.report("w", c, `{"n":2}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A single call can spawn a child like a step, also after the end of its task.
func TestSpawnBySingleCall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(id)
	answer := make(chan error, 1)
	go func() {
		r, err := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "SPAWN", Args: json.RawMessage(`{}`), Wait: time.Minute})
		if err == nil && !strings.Contains(string(r.Output), `"status":"DONE"`) {
			err = fmt.Errorf("output %s", r.Output)
		}
		answer <- err
	}()
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "p"))
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	require.NoError(t, <-answer)
	n.checkReplay(id)
}
