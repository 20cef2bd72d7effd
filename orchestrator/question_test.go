package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
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
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

const (
	oneWrite = `{orch: v1, steps: [{id: a, tool: WRITE, with: {text: hi}}]}`
	nameForm = `{"message":"Who?","requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}`
	ada      = `{"action":"accept","content":{"name":"Ada"}}`
)

func elicit(key string) work.Question {
	return work.Question{Key: key, Kind: events.Elicitation, Params: json.RawMessage(nameForm)}
}

// inquire returns a call with questions.
func (n *node) inquire(worker string, c work.Call, asked ...work.Question) error {
	return n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: worker, Questions: asked, StartedAt: time.Now()})
}

// begun takes a call and announces its start.
func (n *node) begun(worker string) work.Call {
	n.t.Helper()
	c := n.take(worker)
	require.NoError(n.t, n.Start(n.ctx(), startedBy(worker, c)))
	return c
}

// open returns the one open question.
func (n *node) open() api.QuestionView {
	n.t.Helper()
	r, err := n.Questions(n.ctx(), api.QuestionsRequest{})
	require.NoError(n.t, err)
	require.Len(n.t, r.Questions, 1)
	return r.Questions[0]
}

func (n *node) answer(id, response string) (api.TaskView, error) {
	return n.Answer(n.ctx(), api.AnswerRequest{Question: id, Response: json.RawMessage(response), Actor: "user:ada"})
}

// S2-052, M-1: a call with a question holds no worker, blocks its task for input, and continues with the answer.
func TestAnsweredCallGoesOn(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	c := n.begun("w")
	require.NoError(t, n.inquire("w", c, elicit("who")))
	require.NoError(t, n.inquire("w", c, elicit("who")), "a repeated report")

	v := n.view(id)
	assert.Equal(t, statemachine.Blocked, v.State)
	assert.Equal(t, "input", v.Block)
	assert.Equal(t, "input_required", statemachine.ViewOf(v.State, v.Block).MCP)
	require.Len(t, v.Questions, 1)
	q := n.open()
	assert.Equal(t, v.Questions[0], q)
	assert.Equal(t, "WRITE", q.Tool)
	assert.JSONEq(t, nameForm, string(q.Params))
	assert.Contains(t, v.Steps[0].Reason, "it waits for an answer to "+q.ID)
	assert.Equal(t, api.Cause{
		Kind: "question", Step: "a", Next: "orch questions " + q.ID, Sentence: "Step a (WRITE)" + strings.TrimPrefix(v.Reason, "it") + ".",
	}, n.cause(id))
	n.none("w")

	v, err := n.answer(q.ID, ada)
	require.NoError(t, err)
	assert.Equal(t, statemachine.InProgress, v.State)
	assert.Empty(t, v.Questions)
	c = n.begun("w2")
	assert.Equal(t, 2, c.Attempt)
	assert.JSONEq(t, ada, string(c.Answers["who"]))
	require.NoError(t, n.report("w2", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()

	_, err = n.answer(q.ID, ada)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	all, err := n.Questions(n.ctx(), api.QuestionsRequest{ID: q.ID})
	require.NoError(t, err)
	assert.Equal(t, "user:ada", all.Questions[0].AnsweredBy)
	assert.Equal(t, "accept", all.Questions[0].Action)
}

// The call waits for all answers of a round, and every later round has those of the earlier ones.
func TestRounds(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("a"), work.Question{Key: "b", Kind: events.Sampling, Params: json.RawMessage(`{"messages":[{}],"maxTokens":9}`)}, work.Question{Key: "c", Kind: events.Roots}))
	answers := map[string]string{
		"a": ada, "b": `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, "c": `{"roots":[{"uri":"file:///a"}]}`,
	}
	for _, q := range n.view(id).Questions {
		n.none("w")
		_, err := n.answer(q.ID, answers[q.Key])
		require.NoError(t, err)
	}
	c := n.begun("w")
	assert.Len(t, c.Answers, 3)
	require.NoError(t, n.inquire("w", c, elicit("d")))
	_, err := n.Answer(n.ctx(), api.AnswerRequest{ID: id, Question: n.open().ID, Declined: true, Actor: "user:ada"})
	require.NoError(t, err)
	c = n.begun("w")
	assert.JSONEq(t, `{"action":"decline"}`, string(c.Answers["d"]))
	assert.JSONEq(t, answers["b"], string(c.Answers["b"]))
	require.NoError(t, n.inquire("w", c, elicit("a")), "a key is used once")
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	failed := n.step(id, "a").Error
	assert.Equal(t, fault.ValidationError, failed.Code)
	assert.Contains(t, failed.Message, `"a"`)
}

func TestTooManyRounds(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	for i := range 11 {
		require.NoError(t, n.inquire("w", n.begun("w"), elicit(fmt.Sprint("k", i))))
		if i < 10 {
			_, err := n.answer(n.open().ID, ada)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Contains(t, n.step(id, "a").Error.Message, "10 times")
}

// Exactly one of many concurrent answers wins.
func TestTwoAnswers(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	q := n.open()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = n.answer(q.ID, ada) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	}
	assert.Equal(t, 1, won)
}

// If nobody answers, the step fails with TIMEOUT, also if the node was down at that time.
func TestUnansweredQuestion(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Config{})
				n := start(t, log)
				id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 3}, on_error: continue}, {id: b, needs: [a], tool: IP_ONLY}]}`)
				require.NoError(t, n.inquire("w", n.begun("w"), elicit("who"), elicit("what")))
				q := n.view(id).Questions[0]
				<-time.After(59 * time.Minute)
				assert.Equal(t, statemachine.Blocked, n.view(id).State)
				_, err := n.answer(n.view(id).Questions[1].ID, ada)
				require.NoError(t, err)
				if restart {
					n.stop()
				}
				<-time.After(2 * time.Minute)
				if restart {
					n = start(t, log)
				}
				synctest.Wait()
				_, err = n.answer(q.ID, ada)
				assert.Equal(t, fault.Conflict, fault.CodeOf(err))
				failed := n.step(id, "a")
				assert.Equal(t, fault.Timeout, failed.Error.Code)
				assert.Contains(t, failed.Error.Message, q.ID)
				assert.Contains(t, failed.Error.Message, "nobody answered")
				c := n.take("w")
				assert.Equal(t, "IN_PROGRESS", c.State, "the gate of the next step lets it through")
				require.NoError(t, n.report("w", c, `{}`))
				assert.Equal(t, statemachine.Done, n.result(id).State)
				n.checkIdle()
			})
		})
	}
}

// A restart between question and answer, and between answer and call, changes nothing.
func TestQuestionsOutliveTheNode(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	before := n.open()
	n.stop()
	n = start(t, log)
	assert.Equal(t, before, n.open())
	_, err := n.answer(before.ID, ada)
	require.NoError(t, err)
	n.stop()
	n = start(t, log)
	c := n.begun("w2")
	assert.JSONEq(t, ada, string(c.Answers["who"]))
	require.NoError(t, n.report("w2", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Zero(t, n.step(id, "a").Lost)
}

// Questions use up no retry, and a retry keeps the answers. The loss of a worker with an announced write leaves the write in
// doubt as usual, but not a call that has only asked.
func TestAskingIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 2, initial: 1ms}}]}`)
		require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
		<-time.After(10 * time.Second) // many leases
		synctest.Wait()
		assert.Equal(t, statemachine.StepParked, n.step(id, "a").State)
		_, err := n.answer(n.open().ID, ada)
		require.NoError(t, err)
		require.NoError(t, n.fail("w", n.begun("w"), "tool_error"))
		c := n.begun("w")
		assert.JSONEq(t, ada, string(c.Answers["who"]))
		<-time.After(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
	})
}

// The end of a task closes its questions, and the `always` steps run.
func TestCancelClosesQuestions(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}], always: [{id: z, tool: IP_ONLY}]}`)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	q := n.open()
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id})
	require.NoError(t, err)
	_, err = n.answer(q.ID, ada)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	assert.Empty(t, n.view(id).Questions)
	c := n.take("w")
	assert.Equal(t, "IN_PROGRESS", c.State)
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	n.checkIdle()
}

// Steps beside the one with a question continue. The task is blocked only when nothing else can move.
func TestOthersGoOn(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: IP_ONLY}, {id: c, needs: [b], tool: IP_ONLY}]}`)
	calls := map[string]work.Call{}
	for range 2 {
		c := n.take("w")
		calls[c.Step] = c
	}
	require.NoError(t, n.inquire("w", calls["a"], elicit("who")))
	assert.Equal(t, statemachine.InProgress, n.view(id).State)
	require.NoError(t, n.report("w", calls["b"], `{}`))
	c := n.take("w")
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Blocked, n.view(id).State)
	_, err := n.answer(n.open().ID, ada)
	require.NoError(t, err)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A grant that the first round has used is valid for the next rounds of the same call, however long the answer takes, and for
// nothing else (S0-053).
func TestGrantLastsOverQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 3, initial: 1ms}}]}`)
		n.park("w", n.take("w"), ask())
		p := n.pending()
		_, err := n.decide(p.ID, "granted", "user:ada")
		require.NoError(t, err)
		<-time.After(50 * time.Minute)
		require.NoError(t, n.inquire("w", n.begun("w"), elicit("one")))
		<-time.After(50 * time.Minute)
		n.stop()
		n = start(t, log)
		_, err = n.answer(n.open().ID, ada)
		require.NoError(t, err)
		c := n.begun("w")
		require.NotNil(t, c.Grant)
		assert.Equal(t, p.ID, c.Grant.ID)
		require.NoError(t, n.inquire("w", c, elicit("two")))
		_, err = n.answer(n.open().ID, ada)
		require.NoError(t, err)
		c = n.begun("w")
		require.NotNil(t, c.Grant)
		require.NoError(t, n.fail("w", c, "tool_error"))
		c = n.begun("w")
		require.NotNil(t, c.Grant, "it is tried again")
		assert.Equal(t, p.ID, c.Grant.ID)
	})
}

// secrets enter neither the question nor the answer.
func TestSecretsInQuestions(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Redact = policy.Redact })
	id := n.submit(oneWrite)
	q := elicit("who")
	q.Params = json.RawMessage(strings.ReplaceAll(nameForm, "Who?", "Is it "+secret+"?"))
	require.NoError(t, n.inquire("w", n.begun("w"), q))
	_, err := n.answer(n.open().ID, strings.ReplaceAll(ada, "Ada", secret))
	require.NoError(t, err)
	c := n.begun("w")
	assert.NotContains(t, string(c.Answers["who"]), secret)
	require.NoError(t, n.report("w", c, `{}`))
	n.result(id)
	for stored, err := range n.log.Read(n.ctx(), id, 1) {
		require.NoError(t, err)
		assert.NotContains(t, string(stored.Data), secret)
	}
}

// Large answers are stored in the blob store.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	large := strings.ReplaceAll(ada, "Ada", strings.Repeat("x", 200<<10))
	_, err := n.answer(n.open().ID, large)
	require.NoError(t, err)
	c := n.take("w")
	assert.JSONEq(t, large, string(c.Answers["who"]))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A single call asks its caller; it never moves the state of its task.
func TestSingleCallAsks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: w, wait: {signal: go}}]}`)
	reply := make(chan api.CallReply, 1)
	go func() {
		r, err := n.Call(n.ctx(), api.CallRequest{ID: id, Tool: "WRITE2", Wait: time.Minute})
		assert.NoError(t, err)
		reply <- r
	}()
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	r := <-reply
	assert.Equal(t, statemachine.StepParked, r.State)
	require.Len(t, r.Questions, 1)
	assert.Equal(t, statemachine.InProgress, n.view(id).State)
	_, err := n.Signal(n.ctx(), api.SignalRequest{ID: id, Name: "go"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, n.result(id).State)
	_, err = n.answer(r.Questions[0].ID, ada)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	assert.Equal(t, fault.Timeout, n.step(id, r.Step).Error.Code)
	n.checkIdle()
}

// A call that runs only while its task awaits an approval can ask like any other, and continues with its grant.
func TestCallThatAsksWhileAwaiting(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		cat, err := tools.New(echo("DELETE", tools.Destructive, tools.AwaitingApproval))
		require.NoError(t, err)
		c.Catalogue = cat
	})
	id := n.submit(`{orch: v1, steps: [{id: a, tool: DELETE}]}`)
	n.park("w", n.take("w"), ask())
	_, err := n.decide(n.pending().ID, "granted", "user:ada")
	require.NoError(t, err)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	v := n.view(id)
	assert.Equal(t, statemachine.Blocked, v.State)
	assert.Equal(t, "input", v.Block)
	_, err = n.answer(n.open().ID, ada)
	require.NoError(t, err)
	c := n.begun("w")
	assert.Equal(t, "AWAITING_APPROVAL", c.State)
	require.NotNil(t, c.Grant)
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// An approval that expires beside an open question can be requested again.
func TestApprovalBesideAQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: READ}]}`)
		for range 2 {
			if c := n.take("w"); c.Step == "a" {
				n.park("w", c, ask())
			} else {
				require.NoError(t, n.inquire("w", c, elicit("who")))
			}
		}
		assert.Equal(t, statemachine.AwaitingApproval, n.view(id).State)
		<-time.After(31 * time.Minute)
		synctest.Wait()
		_, err := n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:ada"})
		require.NoError(t, err)
		n.park("w", n.take("w"), ask())
		_, err = n.decide(n.pending().ID, "granted", "user:ada")
		require.NoError(t, err)
		require.NoError(t, n.report("w", n.begun("w"), `{}`))
		assert.Equal(t, statemachine.Blocked, n.view(id).State)
		_, err = n.answer(n.open().ID, ada)
		require.NoError(t, err)
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

// A call that continues with its answers is the same call. It counts once against the limit of the plan.
func TestAskingIsNoStep(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, limits: {max_steps: 2}, steps: [{id: a, tool: WRITE}, {id: b, needs: [a], tool: READ}]}`)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	_, err := n.answer(n.open().ID, ada)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, n.report("w", n.take("w"), `{}`))
	}
	assert.Equal(t, statemachine.Done, n.result(id).State)
}
