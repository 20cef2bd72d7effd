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

// trap is an armed point and the number of passes until the process is killed.
type trap struct {
	point     Point
	remaining atomic.Int64
}

//nolint:gochecknoglobals // failpoints apply to the whole process, and only test builds contain them
var (
	armed    atomic.Pointer[trap]
	injected = strings.Split(os.Getenv(EnvPlant), ",")
)

// killDelay is how long the other goroutines continue while the goroutine at the point blocks. An acknowledgement that
// was sent too early thus still leaves the process.
const killDelay = 20 * time.Millisecond

// Arm kills the process at the n-th pass of a point from now on, without any cleanup. It replaces the previously armed
// point.
func Arm(point Point, n int64) {
	t := &trap{point: point}
	t.remaining.Store(n)
	armed.Store(t)
}

// Pass kills the process if the point is armed and this is the n-th pass.
func Pass(point Point) {
	t := armed.Load()
	if t == nil || t.point != point || t.remaining.Add(-1) != 0 {
		return
	}
	<-time.After(killDelay)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the signal arrives
}

// On reports whether a fault is injected in this process.
func On(fault Fault) bool { return slices.Contains(injected, string(fault)) }

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
