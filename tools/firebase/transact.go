package firebase

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// MaxAttempts is the maximum number of attempts of Transact. The client libraries of Firebase use the same number.
const MaxAttempts = 25

// Transact reads the data at a path, calls change to compute a write from it, and writes. It starts again if another
// writer has changed the data in between (S3-033). Errors: CONFLICT after MaxAttempts, those of change, and those of
// Backend.
func Transact(ctx context.Context, b Backend, path string, change func(Snapshot) (Write, error)) (Written, error) {
	for attempt := range MaxAttempts {
		snapshot, err := b.Read(ctx, path, Query{})
		if err != nil {
			return Written{}, err
		}
		write, err := change(snapshot)
		if err != nil {
			return Written{}, err
		}
		write.If = snapshot.Version
		written, err := b.Write(ctx, path, write)
		if !fault.Has(err, fault.Conflict) {
			return written, err
		}
		if err := backoff(ctx, attempt); err != nil {
			return Written{}, err
		}
	}
	return Written{}, refusal.New(refusal.Conflict, "other writers changed %q at each of %d attempts", path, MaxAttempts).
		WithField("path").WithHint("try again when fewer write there")
}

// backoff waits for a random time, whose maximum grows with the attempts. Otherwise competing writers would retry at
// the same time and conflict again.
func backoff(ctx context.Context, attempt int) error {
	if err := pause.For(ctx, rand.N(time.Duration(attempt+1)*2*time.Millisecond)); err != nil { //nolint:gosec // the random number is not a secret
		return fault.From(err)
	}
	return nil
}
