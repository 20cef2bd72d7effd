package pause

import (
	"context"
	"time"
)

const (
	// shareSlice is how long a job works between two pauses.
	shareSlice = 5 * time.Millisecond
	// sharePause is how long a job pauses, as a multiple of the time that it has worked. The processor also works for a job in
	// other goroutines, such as the garbage collector's.
	sharePause = 19
)

// Share keeps a background job to a tenth of a core. The job calls Yield after each small piece of work. The zero value is ready
// for use, by one goroutine.
type Share struct{ resumed time.Time }

// Yield pauses if the job has worked long enough since the last pause. It returns the error of ctx if ctx ends first.
func (s *Share) Yield(ctx context.Context) error {
	if s.resumed.IsZero() {
		s.resumed = time.Now()
	}
	worked := time.Since(s.resumed)
	if worked < shareSlice {
		return ctx.Err()
	}
	err := For(ctx, sharePause*worked)
	s.resumed = time.Now()
	return err
}
