package bench

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// steadyPending is the largest number of tasks that run at the same time under a steady load. A system that is too slow gets no more.
const steadyPending = 2_000

// steady is a load of a fixed number of tasks a second.
type steady struct {
	rate float64
	// task runs one task.
	task    func(ctx context.Context) error
	pending chan struct{}
	failed  chan error

	begun int
}

func newSteady(rate float64, task func(context.Context) error) *steady {
	return &steady{rate: rate, task: task, pending: make(chan struct{}, steadyPending), failed: make(chan error, 1)}
}

// run starts tasks for length, and calls watch with the time that has passed every few milliseconds. It returns the first error of watch
// or of a task.
func (s *steady) run(ctx context.Context, length time.Duration, watch func(passed time.Duration) error) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	for passed := time.Duration(0); passed < length; passed = time.Since(began) {
		for float64(s.begun) < passed.Seconds()*s.rate && ctx.Err() == nil {
			s.start(ctx, &group)
		}
		if err := watch(passed); err != nil {
			return err
		}
		if err := pause.For(ctx, 2*time.Millisecond); err != nil {
			return err
		}
		select {
		case err := <-s.failed:
			return err
		default:
		}
	}
	group.Wait()
	return nil
}

// start starts a task when fewer than steadyPending run.
func (s *steady) start(ctx context.Context, group *sync.WaitGroup) {
	s.begun++
	s.pending <- struct{}{}
	group.Go(func() {
		defer func() { <-s.pending }()
		if err := s.task(ctx); err != nil {
			select {
			case s.failed <- fault.Wrap(fault.CodeOf(err), err, "a task of a steady load failed"):
			default: // the first failure is enough
			}
		}
	})
}
