//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// sessionAttr gives a child its own session.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// expendable does nothing: the system has no such setting.
func expendable(int) {}

// Probe reports that nothing can be confined.
func Probe() Support { return Support{} }

// confinement confines a child; it is not available here.
type confinement struct{}

func (r *Runner) confinement(Command) (*confinement, error) {
	if r.mode == Enforce || r.mode == Required {
		return nil, unsupported(nil, "there is none for this operating system")
	}
	return nil, nil //nolint:nilnil // no walls, no error
}

func (*confinement) start(*exec.Cmd) (func(), error) { return func() {}, nil }

func (*confinement) close() {}

func (Limits) apply(int) error { return nil }
