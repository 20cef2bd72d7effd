// Package statemachine computes the state of a task as the fold of its events.
//
// The states and transitions of a task are table T-1, those of a step are StepTable. The package is pure: it reads no
// clock and does no I/O, and takes times from the events. Folding the same commits always gives the same task, so a
// history can be replayed without side effects.
package statemachine
