//go:build !race

package outside_test

// raced reports whether the race detector is on, which needs additional memory and time.
const raced = false
