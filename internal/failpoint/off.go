//go:build !failpoint

package failpoint

// Enabled reports whether this build has failpoints.
const Enabled = false

// Arm does nothing in this build.
func Arm(Point, int64) {}

// Pass does nothing in this build.
func Pass(Point) {}

// On returns false in this build.
func On(Fault) bool { return false }

// Early returns done in this build.
func Early(_ Fault, done func(error)) func(error) { return done }

// Twice returns list in this build.
func Twice[T any](_ Fault, _ bool, list []T) []T { return list }

// Skewed returns n in this build.
func Skewed(_ Fault, n uint64) uint64 { return n }
