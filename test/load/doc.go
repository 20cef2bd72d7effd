// Package load holds a node under far more work than it can do at once, and under tools that misbehave.
// It consists of tests: `make load` runs them in full, `go test` at a small scale.
package load
