// Package sim proves the owner of tasks in simulation: seeded schedules of commands, workers, crashes and
// faults of the log, in simulated time, with every choice drawn from the seed, so that a seed repeats byte
// for byte. It has tests only: `make sim` runs 100,000 seeds, ORCH_SIM_SEED=n repeats one and prints what
// happened.
package sim
