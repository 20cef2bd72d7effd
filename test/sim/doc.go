// Package sim tests the orchestrator in a deterministic simulation: schedules of commands, workers, crashes and log
// faults in simulated time. Every choice is drawn from a seeded random source, so that a run can be repeated exactly.
// The package contains only tests: `make sim` runs 100,000 seeds, ORCH_SIM_SEED=n repeats the seed n and prints the
// events of its run.
package sim
