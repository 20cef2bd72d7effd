// Package plantest runs the tests of plans. A case provides results instead of calls and decisions instead of people,
// and its clock jumps to the next time that anything waits for. The task is run by the orchestrator of a node on a log
// in memory.
package plantest
