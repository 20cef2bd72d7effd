// Package proc starts child processes that cannot outlive their call.
package proc

// Runner starts child processes.
type Runner struct{}
