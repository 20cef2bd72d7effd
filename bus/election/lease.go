package election

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// Lease makes its holder the active node, as long as it is renewed.
type Lease struct {
	m     *Member
	data  []byte
	epoch uint64
	// revision is that of the last renewal; only the renewals touch it.
	revision uint64
	// until is when the lease runs out unless it is renewed, by the clock of the member.
	until atomic.Int64
	lost  chan struct{}
	stop  context.CancelFunc
	done  sync.WaitGroup
	// releasing is held while the lease is released.
	releasing sync.Mutex
}

// newLease keeps a lease that was asked for at a time.
func (m *Member) newLease(data []byte, revision uint64, asked time.Duration) *Lease {
	l := &Lease{m: m, data: data, epoch: revision, revision: revision, lost: make(chan struct{})}
	l.extend(asked)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.done.Go(func() {
		everyOr(ctx, m.cfg.RenewEvery, m.watch(ctx, l.supersededBy), func() bool { return l.renew(ctx) })
	})
	return l
}

// supersededBy reports whether an entry of the bucket is no renewal of this lease. The renewal that follows finds out what that means.
func (l *Lease) supersededBy(entry jetstream.KeyValueEntry) bool {
	return isFree(entry) || string(entry.Value()) != string(l.data)
}

// extend notes that the server has renewed the lease, at the earliest at a time.
func (l *Lease) extend(asked time.Duration) { l.until.Store(int64(asked + TTL - guard)) }

// Epoch is the number of the lease.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Held reports whether nobody else can hold a lease now. It asks a clock that goes on while the process is
// stopped and while the machine sleeps.
func (l *Lease) Held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return int64(l.m.cfg.Clock()) < l.until.Load()
	}
}

// Lost is closed when another node has taken the lease, or may take it at once.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// renew renews the lease and reports whether it is to go on. A bucket that does not answer decides nothing: the renewal that it
// takes later proves that nobody held the lease meanwhile.
func (l *Lease) renew(ctx context.Context) bool {
	asked := l.m.cfg.Clock()
	revision, err := l.m.writeKey(context.WithoutCancel(ctx), leaseKey, l.data, jetstream.WithExpectLastSequencePerSubject(l.revision))
	switch {
	case err == nil:
		l.revision = revision
		l.extend(asked)
	case lostRace(err) && !l.isNewest(ctx):
		l.m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lease_lost", slog.Uint64("epoch", l.epoch))
		close(l.lost)
		return false
	case ctx.Err() == nil:
		l.m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lease_not_renewed", slog.Uint64("epoch", l.epoch), slog.Any("error", err))
	}
	return true
}

// isNewest reports whether the newest word about the lease is a renewal whose acknowledgement was lost.
func (l *Lease) isNewest(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	entry, err := l.m.kv.Get(ctx, leaseKey)
	if err != nil {
		return !errors.Is(err, jetstream.ErrKeyNotFound)
	}
	if string(entry.Value()) != string(l.data) {
		return false
	}
	l.revision = entry.Revision()
	return true
}

// Release gives the lease up, so that another node can take it at once. It is idempotent.
func (l *Lease) Release(ctx context.Context) error {
	l.releasing.Lock()
	defer l.releasing.Unlock()
	l.stop()
	l.done.Wait()
	select {
	case <-l.lost:
		return nil
	default:
		close(l.lost)
	}
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	if err := l.m.kv.Delete(ctx, leaseKey, jetstream.LastRevision(l.revision)); err != nil && !lostRace(err) {
		return fault.Wrap(fault.Unavailable, err, "the lease cannot be released").WithHint("another node takes it when it has run out")
	}
	return nil
}

// subjectPrefix stands before the keys of the bucket in its stream.
const subjectPrefix = "$KV." + Bucket + "."

// message is a value of the bucket on its way.
func message(key string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subjectPrefix + key, Data: data}
}
