// Package plantest runs the tests of plans. A case provides the results of calls and the decisions of people. Its clock
// jumps to the next timer. The orchestrator of a node runs the task on a log in memory.
package plantest
