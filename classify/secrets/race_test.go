//go:build race

package secrets_test

// smaller divides the sizes of texts: a search takes about ten times as long with the race detector.
const smaller = 16
