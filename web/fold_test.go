package web_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// The histories that test/fold.test.ts folds as well: random walks through the tables of the program.
const (
	histories  = 40
	mostEvents = 60
	// foldedEvery is at which revisions the file contains the folded task: a multiple of it.
	foldedEvery = 6
)

// history is one history with what the program's fold says, by revision.
type history struct {
	Commits []api.CommitView  `json:"commits"`
	Folded  map[uint64]folded `json:"folded"`
}

// folded is the part of a task that the page folds.
type folded struct {
	State      statemachine.State    `json:"state"`
	Reason     string                `json:"reason"`
	Block      string                `json:"block"`
	Paused     bool                  `json:"paused"`
	Cancelling bool                  `json:"cancelling"`
	Ending     bool                  `json:"ending"`
	Approvals  map[string]string     `json:"approvals"`
	Questions  map[string]string     `json:"questions"`
	Steps      map[string]foldedStep `json:"steps"`
}

type foldedStep struct {
	State    statemachine.StepState `json:"state"`
	Attempt  int                    `json:"attempt"`
	Failures int                    `json:"failures"`
	Repeats  int                    `json:"repeats"`
	Lost     int                    `json:"lost"`
	Tool     string                 `json:"tool"`
	Worker   string                 `json:"worker"`
	Reason   string                 `json:"reason"`
	Approval string                 `json:"approval"`
	Signal   string                 `json:"signal"`
	Child    events.TaskID          `json:"child"`
}

func fold(t *statemachine.Task) folded {
	f := folded{
		State: t.State, Reason: t.Reason, Block: t.Block, Paused: t.Paused, Cancelling: t.Cancelling, Ending: t.Ending,
		Approvals: map[string]string{}, Questions: map[string]string{}, Steps: map[string]foldedStep{},
	}
	for _, a := range t.Approvals {
		f.Approvals[a.ID] = string(a.Status)
	}
	for _, q := range t.Questions {
		f.Questions[q.ID] = string(q.Status)
	}
	for key, s := range t.Steps {
		f.Steps[key] = foldedStep{s.State, s.Attempt, s.Failures, s.Repeats, s.Lost, s.Tool, s.Worker, s.Reason, s.Approval, s.Signal, s.Child}
	}
	return f
}

// The page folds these histories to the same tasks: npm test reads the file.
func TestTheHistoriesForThePageAreCurrent(t *testing.T) {
	t.Parallel()
	all := make([]history, histories)
	for i := range all {
		all[i] = walk(t, rand.New(rand.NewPCG(uint64(i), 18)))
	}
	data, err := json.Marshal(all)
	require.NoError(t, err)
	golden(t, "test/histories.json", append(data, '\n'))
}

// walk makes a history of random events. Events that the tables refuse are not part of it.
func walk(t *testing.T, r *rand.Rand) history {
	t.Helper()
	h := history{Folded: map[uint64]folded{}}
	task := &statemachine.Task{}
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for n := 0; n < mostEvents*4 && len(h.Commits) < mostEvents; n++ {
		at = at.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
		e := draw(r, at, n)
		if ends(e.Kind) && len(h.Commits) < mostEvents/2 || task.Apply(at, e) != nil {
			continue
		}
		rev := uint64(len(h.Commits) + 1)
		h.Commits = append(h.Commits, api.CommitView{Seq: rev, Rev: rev, At: at, Actor: "node", Events: []events.Event{e}})
		if rev%foldedEvery == 0 {
			h.Folded[rev] = fold(task)
		}
	}
	return h
}

func ends(kind events.Kind) bool {
	to, ok := statemachine.Next(statemachine.InProgress, kind)
	return ok && to.Terminal() || kind == events.TaskRejected
}

// draw returns a random event; the first is the submission.
func draw(r *rand.Rand, at time.Time, n int) events.Event {
	if n == 0 {
		return events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "walk"}}
	}
	kinds := events.Kinds()
	for {
		kind := kinds[r.IntN(len(kinds))]
		for _, p := range payloads(r, at) {
			if e := (events.Event{Kind: kind, Data: p}); e.Valid() {
				return e
			}
		}
	}
}

// payloads returns one payload of every type.
func payloads(r *rand.Rand, at time.Time) []events.Payload {
	step := fmt.Sprintf("s%d", r.IntN(3))
	id := fmt.Sprintf("id%d", r.IntN(4))
	attempt := 1 + r.IntN(4)
	some := r.IntN(2) == 0
	class := []string{"", fault.ClassWorkerLost, fault.ClassShutdown}[r.IntN(3)]
	failure := fault.New(fault.Timeout, "it took too long")
	return append(parked(r, step, id),
		&events.Moved{Reason: id, Block: step}, &events.Paused{Reason: id}, &events.CancelRequested{}, &events.Ending{Error: failure},
		&events.Ready{Step: step, Attempt: attempt, Tool: "T" + step, Approval: id}, &events.Called{Step: step, Attempt: attempt, Worker: "w" + id, At: at},
		&events.Succeeded{Step: step, Attempt: attempt}, &events.StepError{Step: step, Error: failure, Class: class},
		&events.Retrying{Step: step, Attempt: attempt, Counts: some, Class: class, Round: r.IntN(2) * attempt, At: at},
		&events.Skipped{Step: step, Reason: id}, &events.InDoubt{Step: step, Attempt: attempt, Reason: id},
		&events.Resolved{Step: step, As: []string{"succeeded", "failed", "retry"}[r.IntN(3)], By: "user:ada"},
		&events.Waiting{Step: step, Signal: id}, &events.Spawned{Step: step, Child: events.KeyedTaskID("", id)},
		&events.Reused{Step: step, From: events.KeyedTaskID("", id)}, &events.Noted{Step: step, Attempt: attempt}, &events.Signal{Name: id},
		&events.Expanded{Step: step}, &events.Divided{Step: step},
	)
}

// parked returns the payloads about approvals and questions.
func parked(r *rand.Rand, step, id string) []events.Payload {
	wait := &events.Parked{Step: step, Approval: id}
	if r.IntN(2) == 0 {
		wait = &events.Parked{Step: step, Questions: []string{id}}
	}
	return []events.Payload{
		wait, &events.Approval{ID: id, Step: step, Scopes: []string{"s"}}, &events.Decision{ID: id, Approver: "user:ada"}, &events.Elapsed{ID: id},
		&events.Question{ID: id, Step: step}, &events.Answer{ID: id, By: "user:ada"}, &events.Unanswered{ID: id, Reason: step},
	}
}
