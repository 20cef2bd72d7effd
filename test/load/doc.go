// Package load tests a node with far more work than it can execute at once, and with misbehaving tools. It contains
// only tests: `make load` runs them at full scale, `go test` at a small scale.
package load
