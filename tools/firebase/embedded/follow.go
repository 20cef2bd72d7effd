package embedded

import (
	"context"
	"errors"
	"log/slog"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// errStale is the error of a write that was not made because the database must be reloaded first.
var errStale = errors.New("the database must be read again")

// follow applies the entries of other processes as they are appended, until ctx ends. When p becomes stale, it reloads the
// database.
func (d *Database) follow(ctx context.Context, p *persister) {
	err := p.journal.Follow(ctx, func(position uint64) {
		if position != 0 && position <= p.position.Load() {
			return
		}
		err := p.refresh(ctx)
		if p.stale.Load() {
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

// refresh applies entries that other processes appended before the call.
func (p *persister) refresh(ctx context.Context) error {
	last, err := p.journal.Last(ctx)
	if err != nil || last <= p.position.Load() {
		return err
	}
	return p.projection.Exclusive(func() error { return p.catchUp(ctx, nil) })
}

// catchUp is like replay. If entries are missing because a newer snapshot has replaced them, it also marks the persister
// stale: the database must then be reloaded.
func (p *persister) catchUp(ctx context.Context, own []byte) error {
	err := p.replay(ctx, own)
	if fault.Has(err, fault.DataLoss) && p.outdated(ctx) {
		p.stale.Store(true)
	}
	return err
}

// use calls do with the database. If do fails because the database is stale, use reloads the database and calls do again.
// If fresh and Config.Shared are true, do sees all confirmed writes of other processes.
func (d *Database) use(ctx context.Context, fresh bool, do func(firebase.Backend) error) error {
	for tries := 3; ; tries-- {
		p, err := d.ready(ctx)
		if err != nil {
			return err
		}
		if fresh && d.cfg.Shared {
			err = databaseError(p.refresh(ctx))
		}
		if err == nil {
			err = do(p.projection)
			if err == nil || !errors.Is(err, errStale) {
				return err
			}
		}
		if !p.stale.Load() || tries == 0 {
			return err
		}
	}
}

// retire stops a stale persister. It ends the watches with CONNECTION_ERROR, because they have missed events.
func (p *persister) retire() {
	p.stop()
	p.projection.End(refusal.New(refusal.ConnectionError, "other processes wrote more than could be followed; the database was read again").
		WithHint("subscribe again"))
}
