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

// trap is the point at which the process ends when it is passed for the last time.
type trap struct {
	point Point
	left  atomic.Int64
}

//nolint:gochecknoglobals // a process has one end, and this is code of tests alone
var (
	armed   atomic.Pointer[trap]
	planted = strings.Split(os.Getenv(EnvPlant), ",")
)

// moment is how long the rest of the process goes on while who passes the point stands still: whatever
// was promised too early gets out.
const moment = 20 * time.Millisecond

// Arm lets the process end, without a chance to do anything, at the n-th pass of a point from now on. It
// replaces what was armed before.
func Arm(point Point, n int64) {
	t := &trap{point: point}
	t.left.Store(n)
	armed.Store(t)
}

// Pass ends the process when the point is armed and was passed often enough.
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

// On reports whether a fault is planted in this process.
func On(fault Fault) bool { return slices.Contains(planted, string(fault)) }

// Early calls done without an error at once when the fault is planted, and returns one that does nothing.
func Early(fault Fault, done func(error)) func(error) {
	if !On(fault) {
		return done
	}
	done(nil)
	return func(error) {}
}

// Twice repeats the last element of a list when the fault is planted and the condition holds.
func Twice[T any](fault Fault, condition bool, list []T) []T {
	if condition && On(fault) {
		return append(list, list[len(list)-1])
	}
	return list
}

// Skewed returns n, or n+1 when the fault is planted.
func Skewed(fault Fault, n uint64) uint64 {
	if On(fault) {
		return n + 1
	}
	return n
}
