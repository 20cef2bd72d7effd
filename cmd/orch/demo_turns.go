package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// demoTurn is an event about a turn of the agent, or about a request to its model.
type demoTurn struct {
	Kind string `json:"kind"`
	Data struct {
		// Step is the agent, or the step of a request, such as agent.t1.m.
		Step  string `json:"step"`
		Turn  int    `json:"turn"`
		Usage struct {
			Input  int `json:"input"`
			Output int `json:"output"`
		} `json:"usage"`
	} `json:"data"`
}

func (t demoTurn) isTurn() bool {
	return strings.HasPrefix(t.Kind, "turn.") || t.Kind == "step.called" && strings.HasSuffix(t.Data.Step, ".m")
}

// turns returns the events about turns in the history of the task.
func (s *demoStory) turns(ctx context.Context) ([]demoTurn, error) {
	out, err := s.output(ctx, "orch", "history", s.id, "-o", "jsonl")
	if err != nil {
		return nil, err
	}
	return parseTurns(out)
}

// parseTurns returns the events about turns in the JSON lines of a history.
func parseTurns(lines string) ([]demoTurn, error) {
	var turns []demoTurn
	for line := range strings.Lines(lines) {
		var commit struct {
			Events []json.RawMessage `json:"events"`
		}
		if err := json.Unmarshal([]byte(line), &commit); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the history cannot be read")
		}
		for _, event := range commit.Events {
			var t demoTurn
			if json.Unmarshal(event, &t) == nil && t.isTurn() { // the data of other events have other forms
				turns = append(turns, t)
			}
		}
	}
	return turns, nil
}

// answersOf returns the answers among the events about turns.
func answersOf(turns []demoTurn) []demoTurn {
	var answers []demoTurn
	for _, t := range turns {
		if t.Kind == "turn.answered" {
			answers = append(answers, t)
		}
	}
	return answers
}

// requestsOf returns how often the model was asked in a turn.
func requestsOf(turns []demoTurn, turn int) int {
	n, step := 0, fmt.Sprintf("agent.t%d.m", turn)
	for _, t := range turns {
		if t.Kind == "step.called" && t.Data.Step == step {
			n++
		}
	}
	return n
}

// hasLost reports whether an answer was lost.
func hasLost(turns []demoTurn) bool {
	return slices.ContainsFunc(turns, func(t demoTurn) bool { return t.Kind == "turn.lost" })
}

// checkRecorded returns an error unless the answers before a crash are those of a history after it, and none was asked for twice.
func checkRecorded(before, after []demoTurn) error {
	answers := answersOf(after)
	if len(before) > len(answers) || !slices.Equal(before, answers[:len(before)]) {
		return fault.New(fault.Internal, "the answers before the crash were %v, and are %v", before, answers)
	}
	for _, t := range before {
		if n := requestsOf(after, t.Data.Turn); n != 1 {
			return fault.New(fault.Internal, "turn %d was asked for %d times", t.Data.Turn, n)
		}
	}
	return nil
}

// isTurn reports whether a line of a history is about a turn.
func isTurn(line string) bool { return strings.Contains(line, "  turn.") }

// isStep reports whether a line of a task is about the task as a whole or a step.
func isStep(line string) bool {
	return strings.HasPrefix(line, "  ") && !strings.Contains(line, ": ") || strings.Contains(line, "  TASK_")
}

// stateIs returns a condition: the task is in a state. A task that is over in another state is an error.
func (s *demoStory) stateIs(ctx context.Context, want statemachine.State) func() (bool, error) {
	return func() (bool, error) {
		out, err := s.output(ctx, "orch", "get", s.id, "-o", "json")
		if err != nil {
			return false, err
		}
		var t struct {
			State statemachine.State `json:"state"`
		}
		if err := json.Unmarshal([]byte(out), &t); err != nil {
			return false, fault.Wrap(fault.Internal, err, "the task cannot be read")
		}
		if t.State != want && t.State.Terminal() {
			return false, fault.New(fault.Internal, "the task is %s, not %s", t.State, want)
		}
		return t.State == want, nil
	}
}
