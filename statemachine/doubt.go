package statemachine

import "time"

// MayRun reports whether the call of a step in doubt may still run at a time: nobody has heard of its end, and its time limit
// has not passed.
func (s *Step) MayRun(now time.Time) bool {
	return s.State == StepInDoubt && now.Before(s.Due)
}

// Awaited reports whether an outcome of an attempt would be the first to tell that a call in doubt has ended.
func (s *Step) Awaited(attempt int, worker string) bool {
	return s.State == StepInDoubt && !s.Due.IsZero() && s.Attempt == attempt && s.Worker == worker
}
