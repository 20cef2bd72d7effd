// Package statemachine is the pure heart of orch: the state of a task is the fold of its events.
//
// The states and transitions of a task are table T-1, those of a step are StepTable. Nothing here
// reads a clock or does I/O: the time is that of the events. Folding the same commits always gives
// the same task, so a history can be replayed without side effects.
package statemachine
