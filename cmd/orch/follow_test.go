package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

type watchAnswer = func(context.Context, api.WatchRequest) (api.WatchReply, error)

// answers returns replies in order. Later calls block until the watcher ends.
func answers(all ...watchAnswer) watchAnswer {
	next := 0
	return func(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
		if next == len(all) {
			<-ctx.Done()
			return api.WatchReply{}, ctx.Err()
		}
		next++
		return all[next-1](ctx, r)
	}
}

func reply(r api.WatchReply) watchAnswer {
	return func(context.Context, api.WatchRequest) (api.WatchReply, error) { return r, nil }
}

func commit(rev uint64, kind events.Kind, data events.Payload) api.CommitView {
	return api.CommitView{Rev: rev, At: at(int(rev)), Events: []events.Event{{Kind: kind, Data: data}}}
}

func TestWatchWritesOneLineAnEvent(t *testing.T) {
	t.Parallel()
	s := &fakeSession{
		result: api.ResultReply{ID: taskID, State: statemachine.Done, Ended: true, Output: []byte(`{"n":1}`)},
		watch: answers(
			reply(api.WatchReply{Commits: []api.CommitView{commit(1, events.TaskSubmitted, &events.Submitted{Name: "n"})}}),
			reply(api.WatchReply{Progress: map[string]work.Progress{"a": {Done: 1, Total: 4}}}),
			reply(api.WatchReply{Progress: map[string]work.Progress{"a": {Done: 1, Total: 4}}}),
			reply(api.WatchReply{Commits: []api.CommitView{commit(2, events.TaskFinished, &events.Moved{})}, State: statemachine.Done, Ended: true}),
		),
	}
	p := newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"watch", "@last"}))
	golden(t, "watch.txt", p.out.String())
	assert.True(t, s.closed)
}

// A watcher that loses its node reconnects, and continues after what it has seen.
func TestWatchResumesAfterALostConnection(t *testing.T) {
	t.Parallel()
	lost := func(context.Context, api.WatchRequest) (api.WatchReply, error) {
		return api.WatchReply{}, fault.New(fault.Unavailable, "gone")
	}
	first := &fakeSession{watch: answers(
		reply(api.WatchReply{Version: 9, Commits: []api.CommitView{commit(4, events.TaskStarted, &events.Moved{})}}), lost,
	)}
	var resumed api.WatchRequest
	second := &fakeSession{
		result: api.ResultReply{ID: taskID, State: statemachine.Done, Ended: true},
		watch: func(_ context.Context, r api.WatchRequest) (api.WatchReply, error) {
			resumed = r
			return api.WatchReply{State: statemachine.Done, Ended: true}, nil
		},
	}
	p := newProbe(t, first, second)
	require.Zero(t, p.run(t.Context(), []string{"watch", "@last", "-o", "jsonl"}))
	assert.Equal(t, uint64(4), resumed.After)
	assert.Zero(t, resumed.SeenVersion)
	assert.Equal(t, 1, strings.Count(p.out.String(), "\n"))
	assert.True(t, first.closed)
	assert.True(t, second.closed)
}

func TestAnInterruptDetaches(t *testing.T) {
	t.Parallel()
	for _, embedded := range []bool{false, true} {
		ctx, interrupt := context.WithCancel(t.Context())
		s := &fakeSession{embedded: embedded, watch: func(ctx context.Context, _ api.WatchRequest) (api.WatchReply, error) {
			interrupt()
			<-ctx.Done()
			return api.WatchReply{}, ctx.Err()
		}}
		p := newProbe(t, s)
		assert.Equal(t, exitDetached, p.run(ctx, []string{"watch", "@last"}))
		assert.Contains(t, p.err.String(), "orch watch "+string(taskID))
		assert.Equal(t, embedded, strings.Contains(p.err.String(), "stopping"))
		assert.True(t, s.closed)
	}
}

func TestTheTimeoutOfAWait(t *testing.T) {
	t.Parallel()
	for state, exit := range map[statemachine.State]int{statemachine.InProgress: exitRunning, statemachine.AwaitingApproval: exitApproval} {
		s := &fakeSession{watch: answers(), result: api.ResultReply{ID: taskID, State: state}}
		p := newProbe(t, s)
		assert.Equal(t, exit, p.run(t.Context(), []string{"watch", "@last", "--timeout", "1ms"}))
		assert.Contains(t, p.err.String(), string(taskID)+" is "+string(state)+" after 1ms")
		assert.Equal(t, state == statemachine.AwaitingApproval, strings.Contains(p.err.String(), "orch explain "+string(taskID)))
	}
}

// On a terminal the tree is redrawn in place, and the last frame stays.
func TestWatchDrawsATree(t *testing.T) {
	t.Parallel()
	running := api.TaskView{
		ID: taskID, Name: "n", State: statemachine.InProgress, CreatedAt: at(-3),
		Steps: []api.StepView{{Key: "a", Kind: "wait", State: statemachine.StepRunning, Signal: "go"}},
	}
	s := &fakeSession{
		task: running, explain: api.ExplainReply{Causes: []api.Cause{{Sentence: "step a waits for signal go", Next: "orch signal X go"}}},
		result: api.ResultReply{ID: taskID, State: statemachine.Cancelled, Ended: true, Reason: "enough"},
	}
	s.watch = answers(reply(api.WatchReply{Version: 1, Progress: map[string]work.Progress{"a": {Done: 2}}}),
		func(context.Context, api.WatchRequest) (api.WatchReply, error) {
			s.task.State, s.task.EndedAt = statemachine.Cancelled, new(at(0))
			s.task.Steps = []api.StepView{{Key: "a", Kind: "wait", State: statemachine.StepCancelled}}
			return api.WatchReply{State: statemachine.Cancelled, Ended: true}, nil
		})
	p := newProbe(t, s)
	p.outTTY = true
	assert.Equal(t, exitCancelled, p.run(t.Context(), []string{"watch", "@last"}))
	golden(t, "watch_tty.txt", strings.ReplaceAll(p.out.String(), "\x1b", "<ESC>"))
	assert.Equal(t, string(taskID)+" is CANCELLED enough\n", p.err.String())
}

// pages is an API with a history of so many commits. It records the limits of the pages that were requested.
type pages struct {
	api.API

	commits uint64
	limits  []int
}

// History implements api.API.
func (p *pages) History(_ context.Context, r api.HistoryRequest) (reply api.HistoryReply, err error) {
	p.limits = append(p.limits, r.Limit)
	for rev := r.From; rev <= p.commits; rev++ {
		if len(reply.Commits) == r.Limit {
			reply.Next = rev
			break
		}
		reply.Commits = append(reply.Commits, api.CommitView{Rev: rev})
	}
	return reply, nil
}

// A reader of some commits requests no more than those.
func TestPagesOfRecordedCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from        uint64
		limit, want int
		limits      []int
	}{
		"all":               {1, 0, 1200, []int{500, 500, 500}},
		"a few":             {700, 10, 10, []int{10}},
		"several pages":     {101, 600, 600, []int{500, 100}},
		"more than are":     {1101, 600, 100, []int{500}},
		"a whole page":      {1, 500, 500, []int{500}},
		"beginning at none": {1201, 5, 0, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, next := &pages{commits: 1200}, c.from
			for commit, err := range recordedPage(t.Context(), p, "", c.from, c.limit) {
				require.NoError(t, err)
				assert.Equal(t, next, commit.Rev)
				next++
			}
			assert.EqualValues(t, c.want, next-c.from)
			assert.Equal(t, c.limits, p.limits)
		})
	}
}
