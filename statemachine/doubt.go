package statemachine

import "time"

// MayStillRun reports whether the call of a step in doubt may still be running at now: nobody has reported its end, and
// its time limit has not passed.
func (s *Step) MayStillRun(now time.Time) bool {
	return s.State == StepInDoubt && now.Before(s.Due)
}

// ExpectsOutcome reports whether a report of worker about attempt would be the first to confirm that a call in doubt
// has ended.
func (s *Step) ExpectsOutcome(attempt int, worker string) bool {
	return s.State == StepInDoubt && !s.Due.IsZero() && s.Attempt == attempt && s.Worker == worker
}
