//go:build failpoint

package failpoint

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Enabled reports whether this build has failpoints.
const Enabled = true

// trap is the armed point and the remaining passes until the process ends.
type trap struct {
	point Point
	left  atomic.Int64
}

//nolint:gochecknoglobals // a process has one end, and this is code of tests alone
var (
	armed   atomic.Pointer[trap]
	planted = strings.Split(os.Getenv(EnvPlant), ",")
)

// moment is how long the other goroutines continue while the one at the point blocks, so that an acknowledgement that
// is sent too early gets out.
const moment = 20 * time.Millisecond

// Arm kills the process at the n-th pass of a point from now on, without any cleanup. It replaces the previously armed
// point.
func Arm(point Point, n int64) {
	t := &trap{point: point}
	t.left.Store(n)
	armed.Store(t)
}

// Pass kills the process if the point is armed and this is the n-th pass.
func Pass(point Point) {
	t := armed.Load()
	if t == nil || t.point != point || t.left.Add(-1) != 0 {
		return
	}
	<-time.After(moment)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal is on its way
}

// On reports whether a fault is injected in this process.
func On(fault Fault) bool { return slices.Contains(planted, string(fault)) }

// Early calls done(nil) immediately if the fault is injected, and returns a function that does nothing; else it returns
// done.
func Early(fault Fault, done func(error)) func(error) {
	if !On(fault) {
		return done
	}
	done(nil)
	return func(error) {}
}

// Twice repeats the last element of a list if the fault is injected and condition is true.
func Twice[T any](fault Fault, condition bool, list []T) []T {
	if condition && On(fault) {
		return append(list, list[len(list)-1])
	}
	return list
}

// Skewed returns n, or n+1 if the fault is injected.
func Skewed(fault Fault, n uint64) uint64 {
	if On(fault) {
		return n + 1
	}
	return n
}
