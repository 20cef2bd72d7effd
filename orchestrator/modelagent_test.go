package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// readLog counts the histories that are read.
type readLog struct {
	*memlog.Log

	reads atomic.Int64
}

func (l *readLog) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	l.reads.Add(1)
	return l.Log.Read(ctx, id, from)
}

// startModels starts an orchestrator with agents that can call READ.
func startModels(t *testing.T, log *readLog) *node {
	t.Helper()
	return start(t, log.Log, func(c *orchestrator.Config) {
		cat, err := tools.New(internal(echo(models.CallTool, tools.Idempotent, tools.InProgress)), echo("READ", tools.Read, tools.AnyState))
		require.NoError(t, err)
		c.Log, c.Catalogue, c.Models = log, cat, freeModels{}
	})
}

// answerModels is a worker that asks models: in each of some turns they request calls of READ, whose results read returns. Then they do not
// answer.
func (n *node) answerModels(turns, calls int, read func(turn int) string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b, err := n.Poll(ctx, work.Poll{Worker: "auto", Free: 64, Wait: time.Second, Queues: []string{work.DefaultQueue, work.ModelsQueue}})
			if err != nil {
				return
			}
			for _, c := range b.Calls {
				if o := n.modelOutcome(ctx, *c, turns, calls, read); o != nil {
					_ = n.Report(ctx, *o)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// modelOutcome makes a call of answerModels; nil if it does not end.
func (n *node) modelOutcome(ctx context.Context, c work.Call, turns, calls int, read func(turn int) string) *work.Outcome {
	o := &work.Outcome{Ref: c.Ref, Worker: "auto", StartedAt: time.Now()}
	_, turn := statemachine.SplitTurn(c.Step[:strings.LastIndexByte(c.Step, '.')])
	if c.Tool != models.CallTool {
		o.Output = json.RawMessage(read(turn))
		return o
	}
	if turn > turns {
		return nil
	}
	var args models.CallArgs
	_ = json.Unmarshal(c.Args, &args)
	if _, _, _, err := n.ModelRequest(ctx, c.Task, args); err != nil {
		o.Error, o.Class = fault.From(err), fault.ClassInvalidArgs
		return o
	}
	answer := models.Answer{Stop: models.StopCalls, Message: models.Message{Role: models.Model}, Usage: models.Usage{Input: 10, Output: 1}}
	for i := range calls {
		answer.Message.Parts = append(answer.Message.Parts, models.Part{Call: &models.Call{ID: fmt.Sprintf("c%d_%d", turn, i), Name: "READ", Args: "{}"}})
	}
	o.Output, _ = json.Marshal(models.Called{Answer: answer})
	return o
}

const readsMuch = "orch: v1\nsteps: [{id: a, agent: {model: m/x, prompt: Go, tools: [READ], max_turns: 1000}}]\n"

// wholeTalk reads a conversation page by page, as commands do.
func (n *node) wholeTalk(id events.TaskID, limit int) (turns []api.TurnView) {
	n.t.Helper()
	r := api.ConversationRequest{ID: id, Limit: limit}
	for {
		page, err := n.Conversation(n.ctx(), r)
		require.NoError(n.t, err)
		turns = append(turns, page.Turns...)
		if r.Rev, r.From = page.Rev, page.Next; page.Next == 0 {
			return turns
		}
	}
}

// The pages of a conversation do not read the history of a task that is in memory, and those of a revision in the past read it once.
func TestPagesOfAConversationReadNoHistory(t *testing.T) {
	t.Parallel()
	log := &readLog{Log: memlog.New(memlog.Config{})}
	n := startModels(t, log)
	stop := n.answerModels(30, 1, func(int) string { return `{"text":"x"}` })
	defer stop()
	id := n.submit(readsMuch)
	n.asks(id, statemachine.ModelKey("a", 31))
	before := log.reads.Load()
	assert.Len(t, n.wholeTalk(id, 1), 31)
	assert.Equal(t, before, log.reads.Load())

	rev := n.get(id).Rev - 1
	for from := 1; from <= 5; from++ {
		page, err := n.Conversation(n.ctx(), api.ConversationRequest{ID: id, Rev: rev, From: from, Limit: 1})
		require.NoError(t, err)
		assert.Equal(t, rev, page.Rev)
	}
	assert.Less(t, log.reads.Load()-before, int64(5), "a task in the past may be forgotten, but not each time")
	_, err := n.Conversation(n.ctx(), api.ConversationRequest{ID: id, Rev: rev + 2})
	hasCode(t, err, fault.NotFound)
}

// The parts of a large value read the history once.
func TestPartsOfAValueReadTheHistoryOnce(t *testing.T) {
	t.Parallel()
	log := &readLog{Log: memlog.New(memlog.Config{})}
	n := start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
	whole := `{"text":"` + strings.Repeat("x", events.MaxInline) + `"}`
	n.serve(func(work.Call) (string, *fault.Error) { return whole, nil })
	id := n.submit(large)
	n.result(id)
	before := log.reads.Load()
	r := api.ValueRequest{ID: id, Ref: events.Offloaded([]byte(whole)).Ref(), Limit: 1000}
	for parts := 0; ; parts++ {
		part, err := n.Value(n.ctx(), r)
		require.NoError(t, err)
		if r.Offset = part.Next; r.Offset == 0 {
			assert.Equal(t, len(whole)/1000, parts)
			break
		}
	}
	assert.Equal(t, before+1, log.reads.Load())
}

// A node that starts again reads a conversation whose values are too large to be read at once bit by bit, and asks the same as before.
func TestLongConversationAfterARestart(t *testing.T) {
	t.Parallel()
	const turns = 24
	log := &readLog{Log: memlog.New(memlog.Config{})}
	n := startModels(t, log)
	stop := n.answerModels(turns, 1, func(turn int) string { return fmt.Sprintf(`{"text":"%d %s"}`, turn, strings.Repeat("x", 3<<20)) })
	id := n.submit(readsMuch)
	key := statemachine.ModelKey("a", turns+1)
	args := n.asks(id, key)
	stop()
	warm, names, _, err := n.ModelRequest(n.ctx(), id, args)
	require.NoError(t, err)
	n.stop()

	again := startModels(t, log)
	cold, same, _, err := again.ModelRequest(again.ctx(), id, args)
	require.NoError(t, err)
	assert.Len(t, cold.Messages, 2*turns+1)
	assert.Equal(t, names, same)
	assert.True(t, reflect.DeepEqual(warm, cold), "the requests differ")
}

// asks waits until a step asks its model, and returns the arguments of the call.
func (n *node) asks(id events.TaskID, step string) (args models.CallArgs) {
	n.t.Helper()
	for rev := uint64(0); ; {
		w, err := n.Watch(n.ctx(), api.WatchRequest{ID: id, After: rev, Wait: time.Minute})
		require.NoError(n.t, err)
		for _, c := range w.Commits {
			rev = c.Rev
			for _, e := range c.Events {
				if d, ok := e.Data.(*events.Ready); ok && d.Step == step {
					require.NoError(n.t, json.Unmarshal(d.Args.Raw, &args))
					return args
				}
			}
		}
	}
}

// Results of one turn that are too large to be read at once fail the step before its model is asked about them.
func TestTurnWithTooLargeResults(t *testing.T) {
	t.Parallel()
	log := &readLog{Log: memlog.New(memlog.Config{})}
	n := startModels(t, log)
	much, results := strings.Repeat("x", 4<<20), 0
	defer n.answerModels(1, 17, func(int) string { results++; return fmt.Sprintf(`{"text":"%d %s"}`, results, much) })()
	id := n.submit(readsMuch)
	r := n.result(id)
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.ValidationError, r.Error.Code)
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", r.Error.Reason)
	said, err := n.Conversation(n.ctx(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, said.Total)
	assert.Zero(t, said.Lost)
}
