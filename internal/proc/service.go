package proc

import (
	"errors"
	"log/slog"
	"os/exec"
	"syscall"
	"time"
)

// Services starts child processes that run independently of calls, such as servers. Each leads its own session and
// process group. The groups are killed when this process dies. Services are not confined: the operator who configures a
// service trusts it. Services is safe for concurrent use. Close it when it is no longer needed.
type Services struct{ reaper reaper }

// NewServices returns Services. If the reaper fails, one message is written to log.
func NewServices(log *slog.Logger) *Services { return &Services{reaper{log: log}} }

// Service is a running child process.
type Service struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start sets cmd.SysProcAttr and starts cmd. The caller must call End. cmd.WaitDelay bounds how long to wait for output
// streams that other processes hold open.
func (s *Services) Start(cmd *exec.Cmd) (*Service, error) {
	s.reaper.start()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	preferOOMKill(pid)
	s.reaper.add(pid, time.Time{})
	service := &Service{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(service.done)
		service.err = cmd.Wait()
		_ = syscall.Kill(-pid, syscall.SIGKILL) // the remaining members of the group
		s.reaper.drop(pid)
	}()
	return service, nil
}

// Close stops the reaper. A later Start works without one.
func (s *Services) Close() error { return s.reaper.close() }

// PID returns the process id, which is also the id of its group.
func (s *Service) PID() int { return s.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and its group was killed.
func (s *Service) Done() <-chan struct{} { return s.done }

// Err waits for the end of the process and returns its error; nil for status 0.
func (s *Service) Err() error {
	<-s.done
	if errors.Is(s.err, exec.ErrWaitDelay) {
		return nil
	}
	return s.err
}

// End waits for the process to end. After a grace period it sends SIGTERM to the whole group, after another grace
// period SIGKILL. It reports whether the process ended without a signal.
func (s *Service) End(grace time.Duration) (unforced bool) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	unforced = true
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-s.done:
			return unforced
		case <-timer.C:
			unforced = false
			_ = syscall.Kill(-s.cmd.Process.Pid, signal)
			timer.Reset(grace)
		}
	}
	<-s.done
	return unforced
}
