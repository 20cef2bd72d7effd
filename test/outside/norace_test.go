//go:build !race

package outside_test

// raced says whether the race detector is on, which takes memory and time of its own.
const raced = false
