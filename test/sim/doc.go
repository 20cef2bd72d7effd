// Package sim tests the orchestrator in a deterministic simulation: schedules of commands, workers, crashes and log
// faults in simulated time. Every choice is drawn from a seed, so that a seed can be repeated exactly. It contains only
// tests: `make sim` runs 100,000 seeds, ORCH_SIM_SEED=n repeats one and prints what happened.
package sim
