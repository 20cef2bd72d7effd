package firebase

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// MaxAttempts is how often Transact tries, as often as the client libraries of Firebase.
const MaxAttempts = 25

// Transact computes a write from the data at a path, and repeats that if somebody else wrote there in between
// (S3-033). An error of change ends it. Errors: CONFLICT after MaxAttempts, and those of Backend.
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
	return Written{}, refusal.New(refusal.Conflict, "others wrote %q at each of %d attempts", path, MaxAttempts).
		WithField("path").WithHint("try again when fewer write there")
}

// backoff waits for a random time, whose maximum grows with the attempts. Otherwise competing writers would retry at
// the same time and conflict again.
func backoff(ctx context.Context, attempt int) error {
	if err := pause.For(ctx, rand.N(time.Duration(attempt+1)*2*time.Millisecond)); err != nil { //nolint:gosec // no secret
		return fault.From(err)
	}
	return nil
}
