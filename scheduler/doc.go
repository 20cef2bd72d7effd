// Package scheduler runs schedules: it records in a journal what it decides, and submits the tasks.
//
// The journal is event-sourced like the history of a task. A change is recorded before it has an effect: a firing is recorded,
// then its task is submitted with an idempotency key that contains the instant, then the task is recorded. After a crash at any
// moment the next node submits again what was recorded without a task, and the key finds the task if there is one. So no firing is
// lost and none starts two tasks.
//
// One turn at a time changes schedules. Readers see the states between turns and never wait for I/O.
package scheduler
