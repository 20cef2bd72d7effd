package proc

import (
	"errors"
	"log/slog"
	"os/exec"
	"syscall"
	"time"
)

// Services starts child processes that run beside the calls, such as servers. Each leads a session and process group
// of its own; what is left of the groups is killed when this process dies. There are no walls around them: who
// configures a service trusts it. It is safe for concurrent use. Close it when it is not needed any more.
type Services struct{ reaper reaper }

// NewServices returns Services that tell log once when the reaper cannot do its work.
func NewServices(log *slog.Logger) *Services { return &Services{reaper{log: log}} }

// Service is a running child process.
type Service struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts cmd, whose SysProcAttr it sets. Who starts it ends it. Cmd.WaitDelay bounds how long output is awaited
// that other processes hold open.
func (s *Services) Start(cmd *exec.Cmd) (*Service, error) {
	s.reaper.start()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	expendable(pid)
	s.reaper.add(pid, time.Time{})
	service := &Service{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(service.done)
		service.err = cmd.Wait()
		_ = syscall.Kill(-pid, syscall.SIGKILL) // what is left of the group, or nobody
		s.reaper.drop(pid)
	}()
	return service, nil
}

// Close ends the reaper. A Start afterwards works without one.
func (s *Services) Close() error { return s.reaper.close() }

// PID is the number of the process, which is that of its group.
func (s *Service) PID() int { return s.cmd.Process.Pid }

// Done is closed when the process has ended and its group was killed.
func (s *Service) Done() <-chan struct{} { return s.done }

// Err tells how the process ended; nil for status 0. It waits for the end.
func (s *Service) Err() error {
	<-s.done
	if errors.Is(s.err, exec.ErrWaitDelay) {
		return nil
	}
	return s.err
}

// End waits for the end of the process, and helps after each grace: first SIGTERM, then SIGKILL, to the whole group. It
// reports whether the process ended without help.
func (s *Service) End(grace time.Duration) (alone bool) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	alone = true
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-s.done:
			return alone
		case <-timer.C:
			alone = false
			_ = syscall.Kill(-s.cmd.Process.Pid, signal)
			timer.Reset(grace)
		}
	}
	<-s.done
	return alone
}
