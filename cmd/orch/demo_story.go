package main

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// demoStory is a run of the demonstration.
type demoStory struct {
	*demoWorld

	yes bool
	// id is the task, approval the request that its push made.
	id       string
	approval string
	// answered are the turns that were answered before the node was killed.
	answered []demoTurn
}

// tell runs all parts of the demonstration.
func (s *demoStory) tell(ctx context.Context) error {
	for _, part := range []func(context.Context) error{s.setUp, s.ask, s.crash, s.recover, s.approve, s.fork} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the project and shows that its test fails.
func (s *demoStory) setUp(ctx context.Context) error {
	s.chapter("1. A project with a failing test")
	if err := s.fill(ctx); err != nil {
		return err
	}
	s.say("folder: %s, in which all commands run, with settings and data of their own", s.work)
	if err := s.show(ctx, nil, "cat", "project/add.sh"); err != nil {
		return err
	}
	return s.show(ctx, nil, "sh", "-c", "cd project && sh test.sh || true")
}

// ask starts a node and submits the task.
func (s *demoStory) ask(ctx context.Context) error {
	s.chapter("2. An agent mends it, as a durable task")
	if err := s.startNode(ctx); err != nil {
		return err
	}
	args := []string{"agent", "ask", "repair", "Mend the failing test", "--detach", "-o", "name"}
	s.say("$ %s", commandLine("orch", args))
	out, err := s.output(ctx, "orch", args...)
	if err != nil {
		return err
	}
	s.id = strings.TrimSpace(out)
	s.say("%s", s.id)
	return nil
}

// crash kills the node while the model thinks about its third turn.
func (s *demoStory) crash(ctx context.Context) error {
	s.chapter("3. The node crashes while the model thinks about turn 3")
	err := s.until(ctx, "turn 3 is asked for", func() (bool, error) {
		turns, err := s.turns(ctx)
		s.answered = answersOf(turns)
		return requestsOf(turns, 3) > 0, err
	})
	if err != nil {
		return err
	}
	if err := s.killNode(); err != nil { // at once: the model answers soon
		return err
	}
	for _, t := range s.answered {
		s.say("-> Turn %d had been answered, with %d + %d tokens.", t.Data.Turn, t.Data.Usage.Input, t.Data.Usage.Output)
	}
	return nil
}

// recover starts the node again and waits until the push needs a person.
func (s *demoStory) recover(ctx context.Context) error {
	if err := s.startNode(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the push waits for an approval", s.stateIs(ctx, statemachine.AwaitingApproval)); err != nil {
		return err
	}
	if err := s.show(ctx, isTurn, "orch", "history", s.id); err != nil {
		return err
	}
	turns, err := s.turns(ctx)
	if err != nil {
		return err
	}
	if err := checkRecorded(s.answered, turns); err != nil {
		return err
	}
	s.say("-> The %d answers from before the crash are still there, with the same tokens. Each was asked for once.", len(s.answered))
	if hasLost(turns) {
		s.say("-> The answer that the node was waiting for is lost. It was asked for again, and a budget would count both.")
	}
	return s.show(ctx, isStep, "orch", "get", s.id)
}

// approve shows what the push would publish, and lets a person decide.
func (s *demoStory) approve(ctx context.Context) error {
	s.chapter("4. The push waits for you")
	if err := s.findApproval(ctx); err != nil {
		return err
	}
	if err := s.show(ctx, nil, "orch", "approvals"); err != nil {
		return err
	}
	s.say("-> A push to a protected branch needs a person. This is what it would publish:")
	if err := s.show(ctx, nil, "git", "-C", "project", "show", "--format=%h %s"); err != nil {
		return err
	}
	if err := s.decide(ctx); err != nil {
		return err
	}
	if err := s.until(ctx, "the task is done", s.stateIs(ctx, statemachine.Done)); err != nil {
		return err
	}
	if err := s.show(ctx, nil, "orch", "result", s.id); err != nil {
		return err
	}
	return s.show(ctx, nil, "git", "-C", "origin.git", "log", "--oneline")
}

// findApproval reads the id of the approval that the task waits for.
func (s *demoStory) findApproval(ctx context.Context) error {
	out, err := s.output(ctx, "orch", "approvals", "-o", "name")
	if err != nil {
		return err
	}
	s.approval, _, _ = strings.Cut(strings.TrimSpace(out), "\n")
	if s.approval == "" {
		return fault.New(fault.Internal, "the push does not wait for an approval")
	}
	return nil
}

// decide grants the approval, or rejects it if the person says no.
func (s *demoStory) decide(ctx context.Context) error {
	if !s.yes {
		err := s.confirm(ctx, "", "Push this commit to origin?", "read the commit")
		switch {
		case err == nil:
		case ctx.Err() == nil && fault.Has(err, fault.Cancelled):
			return s.show(ctx, nil, "orch", "reject", s.approval, "--reason", "not today")
		default:
			return err
		}
	}
	return s.show(ctx, nil, "orch", "approve", s.approval)
}

// fork shows what a fork of the task would take over.
func (s *demoStory) fork(ctx context.Context) error {
	s.chapter("5. What another run from turn 3 would take over")
	if err := s.show(ctx, nil, "orch", "fork", s.id, "--at", "agent.t3", "--dry-run"); err != nil {
		return err
	}
	s.say("-> It would keep the turns before turn 3 and ask the model from there. What had effects is not repeated without your word.")
	return nil
}

// next says how to go on.
func (s *demoStory) next(keep bool) error {
	s.say("")
	if keep {
		s.say("kept: cd %s; ORCH_DATA_DIR=%s orch agent show %s", s.work, filepath.Join(s.dir, "data"), s.id)
	}
	return writeLines(s.out, []string{
		"next: orch submit examples/repo-report.yaml -i repo=.   a plan without a model",
		"next: orch models test MODEL                            ask your own model",
		"next: docs/how-to/run-a-model.md                        an agent of your own",
	})
}

// until waits until done returns true, at most a minute.
func (s *demoStory) until(ctx context.Context, what string, done func() (bool, error)) error {
	const between, patience = 100 * time.Millisecond, time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fault.New(fault.Timeout, "%s: not within %s", what, patience))
	defer cancel()
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
