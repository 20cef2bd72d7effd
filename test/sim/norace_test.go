//go:build !race

package sim_test

// usualSeeds is the number of seeds of an ordinary run.
const usualSeeds = 2000
