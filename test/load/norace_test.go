//go:build !race

package load_test

// detector is how many times the memory of a process grows with the race detector.
const detector = 1
