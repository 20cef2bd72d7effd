package firebase

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// MaxAttempts is how often Transact tries; the client libraries of Firebase try as often.
const MaxAttempts = 25

// Transact makes a write from what is at a path, and again when somebody else wrote there in between
// (S3-033). An error of change ends it. Errors: CONFLICT after MaxAttempts, and those of Backend.
func Transact(ctx context.Context, b Backend, path string, change func(Snapshot) (Write, error)) (Written, error) {
	for range MaxAttempts {
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
	}
	return Written{}, refusal.New(refusal.Conflict, "others wrote %q at each of %d attempts", path, MaxAttempts).
		WithField("path").WithHint("try again when fewer write there")
}
