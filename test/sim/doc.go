// Package sim tests the orchestrator in a deterministic simulation: schedules of commands, workers, crashes and log
// faults in simulated time. Every choice is drawn from a seeded random source, so that a run can be repeated exactly.
// The package contains only tests: `make sim` runs 100,000 seeds, ORCH_SIM_SEED=n repeats the seed n and prints the
// events of its run.
//
// One script in four has schedules, which the scheduler of each owner runs on a journal that outlives it. Afterwards the journal and the tasks
// are compared with an enumeration of the instants that the rules name, and with the times in which nothing kept the scheduler from
// deciding: no firing may be missed, doubled, late, or start beside another one against its policy.
package sim
