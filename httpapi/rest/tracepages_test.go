package rest

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// longTask is an API with one task, whose history has a commit for the submission and two for each of its steps.
type longTask struct {
	api.API // panics for the methods below that are missing

	steps int
	read  int // commits
}

func (l *longTask) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	return api.StatusReply{}, nil
}

func (l *longTask) History(_ context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	const page = 10
	reply := api.HistoryReply{}
	last := uint64(1 + 2*l.steps)
	for rev := r.From; rev <= last; rev++ {
		if len(reply.Commits) == page {
			reply.Next = rev
			break
		}
		reply.Commits = append(reply.Commits, api.CommitView{Rev: rev, Events: []events.Event{l.event(rev)}})
	}
	l.read += len(reply.Commits)
	return reply, nil
}

func (l *longTask) event(rev uint64) events.Event {
	if rev == 1 {
		return events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{}}
	}
	step := strconv.FormatUint(rev/2, 10)
	if rev%2 == 0 {
		return events.Event{Kind: events.StepReady, Data: &events.Ready{Step: step, Attempt: 1}}
	}
	return events.Event{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: step, Attempt: 1}}
}

// All pages of a trace together read about as much as the trace in one page. A page that was asked for before comes again.
func TestPagesOfATraceContinue(t *testing.T) {
	t.Parallel()
	const steps, commits = 300, 601
	task := &longTask{steps: steps}
	var reader traceReader
	spans, pages := 0, 0
	var some Trace
	var asked TraceRequest
	for r := (TraceRequest{ID: "TASK_1", Limit: 10}); ; pages++ {
		page, err := reader.read(task, t.Context(), r)
		require.NoError(t, err)
		spans += page.Spans
		if pages == steps/20 {
			some, asked = page, r
		}
		if page.Next == 0 {
			assert.Equal(t, 1, *page.Open, "the task")
			break
		}
		r.From = page.Next
	}
	assert.Equal(t, steps, spans)
	assert.LessOrEqual(t, task.read, commits+10*pages, "at the end of a page, the rest of a page of the history is read in vain")
	again, err := reader.read(task, t.Context(), asked)
	require.NoError(t, err)
	assert.Equal(t, some, again)

	for i := range 5 * maxEndedPages {
		_, err := reader.read(task, t.Context(), TraceRequest{ID: events.TaskID("TASK_" + strconv.Itoa(i)), Limit: 1})
		require.NoError(t, err)
	}
	assert.Len(t, reader.ended, maxEndedPages)
}
