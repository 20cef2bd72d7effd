package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// demoAgent is the agent step of the demonstration.
const demoAgent = "agent"

// demoTask is what the demonstration knows of a task, from its history.
type demoTask struct {
	id  string
	rev uint64
	// answers are the answers of the model, asked counts its requests by turn.
	answers []events.Answered
	asked   map[int]int
	// taken are the turns that are taken over from another task.
	taken map[int]bool
	// lostAt is the revision at which an answer was lost; 0 if none was.
	lostAt uint64
	// pending is the approval that the task waits for, or nil.
	pending *events.Approval
	// doubt is the step whose call has an unknown outcome; empty if there is none.
	doubt string
	// ended is how the task ended; empty while it runs.
	ended events.Kind
}

// newDemoTask returns a task of which nothing is known.
func newDemoTask(id string) *demoTask {
	return &demoTask{id: id, asked: map[int]int{}, taken: map[int]bool{}}
}

// apply adds a commit, and returns lines that tell of it.
func (t *demoTask) apply(c api.CommitView) []string {
	t.rev = c.Rev
	var lines []string
	for _, e := range c.Events {
		if line := t.event(e); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// event adds an event, and returns a line that tells of it, or "".
func (t *demoTask) event(e events.Event) string {
	switch d := e.Data.(type) {
	case *events.Called:
		if turn := turnAsked(d.Step); turn > 0 {
			t.asked[turn]++
		}
	case *events.Reused:
		t.taken[turnAsked(d.Step)] = true
	case *events.Answered:
		t.answers = append(t.answers, *d)
		if t.taken[d.Turn] {
			return fmt.Sprintf("turn %d  taken over", d.Turn)
		}
		return fmt.Sprintf("turn %d  %s + %s tokens", d.Turn, screen.Number(int(d.Usage.Request())), screen.Number(int(d.Usage.Output)))
	case *events.Ready:
		if agent, call := statemachine.SplitCall(d.Step); agent == demoAgent && call != "" && turnAsked(d.Step) == 0 && d.Approval == "" {
			return "        " + d.Tool + " " + screen.Line(string(d.Args.Raw))
		}
	case *events.LostTurn:
		t.lostAt = t.rev
		return fmt.Sprintf("turn %d  the answer is lost, and asked for again", d.Turn)
	case *events.Approval:
		t.pending = d
	case *events.InDoubt:
		t.doubt = d.Step
	default:
		if e.Kind == events.TaskFinished || e.Kind == events.TaskFailed || e.Kind == events.TaskCancelled {
			t.ended = e.Kind
		}
	}
	return ""
}

// turnAsked returns the turn in which the step of a call asks the model, such as 3 for agent.t3.m; 0 for another step.
func turnAsked(step string) int {
	_, call := statemachine.SplitCall(step)
	var turn int
	if _, err := fmt.Sscanf(call, "t%d.m", &turn); err != nil || !strings.HasSuffix(call, ".m") {
		return 0
	}
	return turn
}

// checkKept returns an error unless the answers before a crash are the first ones of the task, and each was asked for once.
func (t *demoTask) checkKept(before []events.Answered) error {
	if len(before) > len(t.answers) || !slices.Equal(before, t.answers[:len(before)]) {
		return fault.New(fault.Internal, "the answers before the crash were %v, and are %v", before, t.answers)
	}
	for _, d := range before {
		if n := t.asked[d.Turn]; n != 1 {
			return fault.New(fault.Internal, "turn %d was asked for %d times", d.Turn, n)
		}
	}
	return nil
}
