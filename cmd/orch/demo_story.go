package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// demoStory is a run of the demonstration.
type demoStory struct {
	*demoWorld

	yes  bool
	task *demoTask
	// before are the answers before the node was killed, killedAt is the revision at that time; 0 if it was not killed.
	before   []events.Answered
	killedAt uint64
}

// tell runs all parts of the demonstration.
func (s *demoStory) tell(ctx context.Context) error {
	for _, part := range []func(context.Context) error{s.setUp, s.ask, s.crash, s.recover, s.end, s.check, s.fork} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the project and shows that its test fails.
func (s *demoStory) setUp(ctx context.Context) error {
	s.chapter(ctx, "1. A project with a failing test")
	if err := s.fill(ctx); err != nil {
		return err
	}
	s.say("All of this is real. To look around in another terminal, begin there with this command; the others then work as they are printed:")
	s.prompt(s.entry())
	if err := s.show(ctx, "cat", "project/add.sh"); err != nil {
		return err
	}
	_, err := s.try(ctx, demoLines{}, "sh", "project/test.sh")
	return err
}

// ask starts a node and submits the task.
func (s *demoStory) ask(ctx context.Context) error {
	s.chapter(ctx, "2. An agent mends it, as a durable task")
	if err := s.startNode(ctx); err != nil {
		return err
	}
	args := []string{"agent", "ask", "repair", "Mend the failing test", "--detach", "-o", "name"}
	if s.model.real {
		args = append(args, "--model", s.model.name)
		s.say("%s may use %s tokens in 10 minutes. Nobody knows what it will do.", s.model.name, screen.Number(s.model.tokens))
	}
	s.prompt(commandLine("orch", args))
	out, err := s.output(ctx, "orch", args...)
	if err != nil {
		return err
	}
	s.task = newDemoTask(strings.TrimSpace(out))
	s.say("%s", s.task.id)
	return nil
}

// crash kills the node when the model has been asked for turn 3.
func (s *demoStory) crash(ctx context.Context) error {
	const turn = 3
	s.prompt("orch watch " + s.task.id)
	err := s.work(ctx, func() (bool, error) {
		if s.task.asked[turn] == 0 || len(s.task.answers) != turn-1 {
			return false, nil
		}
		s.before, s.killedAt, s.calm = s.task.answers, s.task.rev, true
		return true, s.killNode()
	})
	if err != nil || s.killedAt > 0 {
		return err
	}
	s.chapter(ctx, "3. No crash")
	s.explain(ctx, "The node would have been killed at turn 3, and the agent has ended before it.")
	return nil
}

// recover starts the node again, and shows that what was answered is neither lost nor asked for again.
func (s *demoStory) recover(ctx context.Context) error {
	if s.killedAt == 0 {
		return nil
	}
	s.chapter(ctx, "3. The node was killed while the model thought about turn 3. It starts again")
	if err := s.writeModel(time.Second); err != nil {
		return err
	}
	if err := s.startNode(ctx); err != nil {
		return err
	}
	started := s.task.rev
	if err := s.follow(ctx, s.task, func() (bool, error) { return s.task.rev > started, nil }); err != nil {
		return err
	}
	if err := s.task.checkKept(s.before); err != nil {
		return err
	}
	for _, rev := range []uint64{s.killedAt, s.task.rev} {
		if err := s.showLines(ctx, demoLines{pattern: "^(used|lost):"}, "orch", "agent", "show", s.task.id, "--rev", strconv.FormatUint(rev, 10)); err != nil {
			return err
		}
	}
	if s.task.lostAt > 0 {
		s.explain(ctx, "The ledger has not moved: what was answered is not asked for again.")
		s.explain(ctx, "One answer was on its way. It may be billed, so it counts with the most that it can cost.")
		return nil
	}
	s.explain(ctx, "What was answered before the crash is not asked for again, and the answer to turn 3 had arrived as well.")
	return nil
}

// end lets the agent go on to its end.
func (s *demoStory) end(ctx context.Context) error {
	return s.work(ctx, func() (bool, error) { return false, nil })
}

// work follows the task until stop returns true after a commit, or the task has ended. A person decides about what waits.
func (s *demoStory) work(ctx context.Context, stop func() (bool, error)) error {
	for s.task.ended == "" {
		stopped := false
		err := s.follow(ctx, s.task, func() (bool, error) {
			ok, err := stop()
			stopped = ok
			return ok || s.task.pending != nil || s.task.doubt != "", err
		})
		if err != nil || stopped {
			return err
		}
		if err := s.help(ctx); err != nil {
			return err
		}
	}
	return nil
}

// help decides about what waits for a person.
func (s *demoStory) help(ctx context.Context) error {
	if a := s.task.pending; a != nil {
		s.task.pending = nil
		return s.decide(ctx, a)
	}
	if step := s.task.doubt; step != "" {
		s.task.doubt = ""
		return s.resolve(ctx, step)
	}
	return nil
}

// resolve repeats a call whose worker was lost, which happens on a machine that stands still. All calls of the demonstration that can
// be in doubt fail if they have happened before, and its models go on then.
func (s *demoStory) resolve(ctx context.Context, step string) error {
	s.explain(ctx, "The worker was lost in the midst of a call with effects. Nobody but you can say whether it happened.")
	if err := s.show(ctx, "orch", "explain", s.task.id); err != nil {
		return err
	}
	if !s.yes {
		if err := s.confirm(ctx, "", "Call it once more?", "read what is in doubt"); err != nil {
			return err
		}
	}
	return s.show(ctx, "orch", "resolve", s.task.id, step, "--as", "retry", "--reason", "the project is only a demonstration")
}

// decide shows what waits, and grants or rejects it.
func (s *demoStory) decide(ctx context.Context, a *events.Approval) error {
	push := a.Tool == "GIT_PUSH"
	if push {
		s.chapter(ctx, "4. The push waits for you")
	}
	args := []string{"approvals"}
	if !push {
		args = append(args, a.ID)
	}
	if err := s.show(ctx, "orch", args...); err != nil {
		return err
	}
	if push {
		s.explain(ctx, "A push to a protected branch needs a person. This is what it would publish:")
		if err := s.show(ctx, "git", "-C", "project", "diff", "origin/main", "HEAD"); err != nil {
			return err
		}
	}
	granted, err := s.agrees(ctx, push)
	switch {
	case err != nil:
		return err
	case granted:
		return s.show(ctx, "orch", "approve", a.ID)
	default:
		return s.show(ctx, "orch", "reject", a.ID, "--reason", "not today")
	}
}

// agrees asks the person. With --yes it agrees to a push only.
func (s *demoStory) agrees(ctx context.Context, push bool) (bool, error) {
	if s.yes {
		return push, nil
	}
	question := "Let it do this?"
	if push {
		question = "Push this commit to origin?"
	}
	err := s.confirm(ctx, "", question, "read what waits")
	if ctx.Err() == nil && fault.Has(err, fault.Cancelled) {
		return false, nil
	}
	return err == nil, err
}

// check shows how the task ended. It returns an error if the test still fails.
func (s *demoStory) check(ctx context.Context) error {
	if s.task.ended != events.TaskFinished {
		_ = s.show(ctx, "orch", "explain", s.task.id) // the error that follows is the one that matters
		return fault.New(fault.ToolFailed, "the agent did not end its work").WithHint("%s", s.advice())
	}
	if err := s.show(ctx, "orch", "result", s.task.id); err != nil {
		return err
	}
	passes, err := s.try(ctx, demoLines{}, "sh", "project/test.sh")
	if err != nil {
		return err
	}
	if !passes {
		return fault.New(fault.ToolFailed, "%s ended its work after %s, and the test still fails", s.model.name, screen.Plural(len(s.task.answers), "turn")).WithHint("%s", s.advice())
	}
	return s.show(ctx, "git", "-C", "origin.git", "log", "--oneline", "main")
}

// advice says what to do when the model has not mended the test.
func (s *demoStory) advice() string {
	if !s.model.real {
		return "orch doctor looks for the cause; --keep keeps the folder"
	}
	return "orch models test " + s.model.name + " shows whether the model calls tools; --keep keeps the folder, for: orch agent show " + s.task.id
}

// next says how to go on.
func (s *demoStory) next() error {
	return writeLines(s.out, []string{
		"",
		"next: orch demo --keep                                  keep the folder, and look around in it",
		"next: orch models test MODEL                            ask your own model; orch demo --model MODEL lets it do this",
		"next: orch submit examples/repo-report.yaml -i repo=.   a plan without a model",
		"next: docs/how-to/run-a-model.md                        an agent of your own",
	})
}
