//go:build race

package sim_test

// usualSeeds is the number of seeds of a run with the race detector, which is some ten times slower.
const usualSeeds = 100
