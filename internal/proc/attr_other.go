//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// sessionAttr gives a child its own session.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// preferOOMKill does nothing: the system has no such setting.
func preferOOMKill(int) {}

// Probe returns the zero Support: this system cannot confine children.
func Probe() Support { return Support{} }

// confinement confines a child; it is not available here.
type confinement struct{}

func (r *Runner) confinement(Command) (*confinement, error) {
	if r.mode == Enforce || r.mode == Required {
		return nil, unsupported(nil, "there is none for this operating system")
	}
	return nil, nil //nolint:nilnil // nil means no sandbox
}

func (*confinement) start(*exec.Cmd) (func(), error) { return func() {}, nil }

func (*confinement) close() {}

func (Limits) apply(int) error { return nil }
