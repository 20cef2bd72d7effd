package crash_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

// look is an answer to a client about the state of a task, with the times of the request and the answer.
type look struct {
	task            events.TaskID
	what            string
	asked, answered time.Time
}

// The answers other than the states of the table.
const (
	// submitted and cancelled acknowledge a command.
	submitted = "submitted"
	cancelled = "cancelled"
	// nowhere means that there is no such task, open any state that is not terminal.
	nowhere = "nowhere"
	open    = "open"
)

// readers is the number of concurrent readers of tasks.
const readers = 3

// lookAround makes clients read random tasks, each on its own connection, until stop is closed.
func (l *load) lookAround(ctx context.Context, stop <-chan struct{}, seed uint64, round int) {
	for i := range readers {
		rng := rand.New(rand.NewPCG(seed, uint64(round*readers+i)))
		l.watching.Go(func() {
			remote, err := l.dial()
			for ; unknown(err) && pause.For(ctx, retryEvery) == nil; remote, err = l.dial() {
			}
			if err != nil {
				l.violate("I9", "", round, "a reader cannot connect: %v", err)
				return
			}
			defer remote.Close() //nolint:errcheck // all answers are there
			for !closed(stop) && pause.For(ctx, 5*time.Millisecond) == nil {
				l.lookOnce(ctx, remote, rng, round)
			}
		})
	}
}

// lookOnce reads the state of a task with one of the requests that return it. A missing answer is ignored.
func (l *load) lookOnce(ctx context.Context, owner api.API, rng *rand.Rand, round int) {
	l.mu.Lock()
	if len(l.acks) == 0 {
		l.mu.Unlock()
		return
	}
	recent := min(len(l.acks), 1+rng.IntN(200))
	k := look{task: l.acks[len(l.acks)-1-rng.IntN(recent)].Task, asked: time.Now()}
	l.mu.Unlock()
	ctx, end := context.WithTimeout(ctx, oneAnswer)
	defer end()
	var state statemachine.State
	var err error
	if rng.IntN(2) == 0 {
		var view api.TaskView
		view, err = owner.Get(ctx, api.GetRequest{ID: k.task})
		state = view.State
	} else {
		var reply api.ResultReply
		reply, err = owner.Result(ctx, api.ResultRequest{ID: k.task})
		state = reply.State
	}
	k.answered = time.Now()
	switch {
	case fault.Has(err, fault.NotFound):
		k.what = nowhere
	case unknown(err):
		return
	case err != nil:
		l.violate("I9", k.task, round, "a reader was sent away: %v", err)
		return
	case state.Terminal():
		k.what = string(state)
	default:
		k.what = open
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, k)
}

// checkLooks returns the tasks with answers that no linearizable history explains: a task exists once it was
// acknowledged, is cancelled once that was acknowledged, and never leaves a terminal state (I9).
func checkLooks(looks []look) []crash.Violation {
	var found []crash.Violation
	for task, ops := range operations(looks) {
		if !porcupine.CheckOperations(lifeOfTask(), ops) {
			found = append(found, crash.Violation{Invariant: "I9", Task: task, What: "what clients were told about its state has no order"})
		}
	}
	return found
}

func operations(looks []look) map[events.TaskID][]porcupine.Operation {
	byTask := map[events.TaskID][]porcupine.Operation{}
	for _, k := range looks {
		byTask[k.task] = append(byTask[k.task], porcupine.Operation{
			Input: k.what, Call: k.asked.UnixNano(), Return: k.answered.UnixNano(),
		})
	}
	return byTask
}

// lifeOfTask is the model: the state is nowhere, open, or an end.
func lifeOfTask() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return nowhere },
		Step: func(state, input, _ any) (bool, any) {
			switch input {
			case submitted:
				return state == nowhere, open
			case nowhere, open:
				return state == input, input
			case cancelled:
				input = string(statemachine.Cancelled)
			}
			return state == open || state == input, input
		},
	}
}

func TestLooksHaveAnOrder(t *testing.T) {
	t.Parallel()
	at := func(what string, asked, answered int) look {
		return look{task: planted, what: what, asked: start.Add(time.Duration(asked)), answered: start.Add(time.Duration(answered))}
	}
	begun := at(submitted, 0, 10)
	for name, tc := range map[string]struct {
		looks []look
		fine  bool
	}{
		"a life":                       {[]look{begun, at(open, 11, 12), at("DONE", 13, 14), at("DONE", 15, 16)}, true},
		"an overtaken answer":          {[]look{begun, at("DONE", 13, 20), at(open, 11, 16)}, true},
		"an early look":                {[]look{at(nowhere, 1, 12), begun}, true},
		"a cancellation":               {[]look{begun, at(cancelled, 11, 12), at("CANCELLED", 13, 14)}, true},
		"lost after the answer":        {[]look{begun, at(nowhere, 11, 12)}, false},
		"an end that was left":         {[]look{begun, at("DONE", 11, 12), at(open, 13, 14)}, false},
		"another end":                  {[]look{begun, at("DONE", 11, 12), at("FAILED", 13, 14)}, false},
		"open after its cancellation":  {[]look{begun, at(cancelled, 11, 12), at(open, 13, 14)}, false},
		"done after its cancellation":  {[]look{begun, at(cancelled, 11, 12), at("DONE", 13, 14)}, false},
		"a task that nobody submitted": {[]look{begun, at("DONE", 11, 12), {task: other, what: open, asked: start, answered: start}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.fine, len(checkLooks(tc.looks)) == 0)
		})
	}
}
