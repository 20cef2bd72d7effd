//go:build unix && !linux

package proc

import "syscall"

// sessionAttr gives a child its own session.
func sessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// expendable does nothing: there is no such thing.
func expendable(int) {}
