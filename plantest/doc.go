// Package plantest runs plans as their tests say: with results in place of calls, decisions in place of people and a clock that
// jumps to the next time that anything waits for. The owner of tasks decides, as in a node, over a log in memory.
package plantest
