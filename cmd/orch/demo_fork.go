package main

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// fork lets the agent go on at turn 2 once more, and compares both tasks.
func (s *demoStory) fork(ctx context.Context) error {
	s.chapter(ctx, "5. What if it had gone on in another way at turn 2?")
	if len(s.task.answers) < 2 {
		s.explain(ctx, "It had no turn 2.")
		return nil
	}
	s.explain(ctx, "A fork takes over the turns before. It does not put back files; git does.")
	if err := s.show(ctx, "git", "-C", "project", "reset", "-q", "--hard", "start"); err != nil {
		return err
	}
	args := []string{"fork", s.task.id, "--at", demoAgent + ".t2", "--repeat", "all", "--detach"}
	if !s.model.real {
		args = append(args, "--set", "model="+demoSecond)
	}
	other, err := s.startFork(ctx, args)
	if err != nil {
		return err
	}
	if err := s.followFork(ctx, other); err != nil {
		return err
	}
	parts := demoLines{pattern: "^  (inputs[.]model|agent[.]output([.](text|turns|tokens))?)$|differences;", after: 2}
	if err := s.showLines(ctx, parts, "orch", "diff", s.task.id, other.id); err != nil {
		return err
	}
	s.explain(ctx, "Turn 1 is in both, and was paid for once. orch diff shows all that differs.")
	if other.ended != events.TaskFinished && !s.model.real {
		return fault.New(fault.ToolFailed, "the fork did not end its work").WithHint("%s", s.advice())
	}
	return nil
}

// startFork starts a fork.
func (s *demoStory) startFork(ctx context.Context, args []string) (*demoTask, error) {
	s.prompt(commandLine("orch", args))
	out, err := s.output(ctx, "orch", args...)
	if err != nil {
		return nil, err
	}
	t := newDemoTask(strings.TrimSpace(out))
	s.say("%s", t.id)
	return t, nil
}

// followFork waits for the end of a fork. It rejects what needs a person: the fork is there to be compared.
func (s *demoStory) followFork(ctx context.Context, t *demoTask) error {
	for t.ended == "" {
		if err := s.follow(ctx, t, func() (bool, error) { return t.pending != nil, nil }); err != nil {
			return err
		}
		if t.pending == nil {
			continue
		}
		if err := s.show(ctx, "orch", "reject", t.pending.ID, "--reason", "this run is only compared"); err != nil {
			return err
		}
		t.pending = nil
	}
	return nil
}
