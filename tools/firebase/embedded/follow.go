package embedded

import (
	"context"
	"errors"
	"log/slog"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// errStale is why a write was not made whose database has to be read anew.
var errStale = errors.New("the database has to be read anew")

// follow lets a persister take over what others have written, as it hears of it, until ctx ends. One that cannot is replaced.
func (d *Database) follow(ctx context.Context, k *persister) {
	err := k.journal.Follow(ctx, func(position uint64) {
		if position != 0 && position <= k.position.Load() {
			return
		}
		err := k.comeUp(ctx)
		if k.stale.Load() {
			_, err = d.ready(ctx)
		}
		if err != nil && ctx.Err() == nil {
			d.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "firebase_not_followed", slog.Any("error", err))
		}
	})
	if err != nil && ctx.Err() == nil {
		d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "firebase_not_followed", slog.Any("error", err))
	}
}

// comeUp takes over what others have written before the call.
func (k *persister) comeUp(ctx context.Context) error {
	last, err := k.journal.Last(ctx)
	if err != nil || last <= k.position.Load() {
		return err
	}
	return k.projection.Exclusive(func() error { return k.takeOver(ctx, nil) })
}

// takeOver is catchUp, and notes when what is missing is in a snapshot alone: then the database has to be read anew.
func (k *persister) takeOver(ctx context.Context, mine []byte) error {
	err := k.catchUp(ctx, mine)
	if fault.Has(err, fault.DataLoss) && k.outdated(ctx) {
		k.stale.Store(true)
	}
	return err
}

// use lets an operation work on the database, once more when it was not done because the database had to be read anew.
func (d *Database) use(ctx context.Context, fresh bool, do func(firebase.Backend) error) error {
	for tries := 3; ; tries-- {
		k, err := d.ready(ctx)
		if err != nil {
			return err
		}
		if fresh && d.cfg.Shared {
			err = unreached(k.comeUp(ctx))
		}
		if err == nil {
			err = do(k.projection)
			if err == nil || !errors.Is(err, errStale) {
				return err
			}
		}
		if !k.stale.Load() || tries == 0 {
			return err
		}
	}
}

// retire ends what a persister does whose database is read anew: its watchers have missed something.
func (k *persister) retire() {
	k.stop()
	k.projection.End(refusal.New(refusal.ConnectionError, "others wrote more than could be followed; the database was read anew").
		WithHint("subscribe again"))
}
