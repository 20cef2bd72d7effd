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

// Lease makes its holder the active node as long as it is renewed.
type Lease struct {
	m     *Member
	data  []byte
	epoch uint64
	// revision is the revision of the key after the last renewal; only the renewing goroutine uses it.
	revision uint64
	// until is when the lease expires without another renewal, by the clock of the member.
	until atomic.Int64
	lost  chan struct{}
	stop  context.CancelFunc
	done  sync.WaitGroup
	// releasing is locked while the lease is released.
	releasing sync.Mutex
}

// newLease returns a lease that was requested at the time requested, and starts to renew it.
func (m *Member) newLease(data []byte, revision uint64, requested time.Duration) *Lease {
	l := &Lease{m: m, data: data, epoch: revision, revision: revision, lost: make(chan struct{})}
	l.extend(requested)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.done.Go(func() {
		everyOr(ctx, m.cfg.RenewEvery, m.watch(ctx, l.supersededBy), func() bool { return l.renew(ctx) })
	})
	return l
}

// supersededBy reports whether an entry of the lease key is not a renewal of this lease. The holder then tries to renew the
// lease, which shows whether it is lost.
func (l *Lease) supersededBy(entry jetstream.KeyValueEntry) bool {
	return isFree(entry) || string(entry.Value()) != string(l.data)
}

// extend records a renewal that was requested at the time requested. The server has renewed the lease then or later.
func (l *Lease) extend(requested time.Duration) { l.until.Store(int64(requested + TTL - guard)) }

// Epoch returns the revision of the lease key with which this lease was acquired. A later lease has a higher epoch.
func (l *Lease) Epoch() uint64 { return l.epoch }

// Held reports whether this node certainly holds the lease now: no other node can hold one. The result is also correct after
// the process was suspended or the machine slept.
func (l *Lease) Held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return int64(l.m.cfg.Clock()) < l.until.Load()
	}
}

// Lost returns a channel that is closed when the lease is released, or when another node may have acquired a lease.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// renew renews the lease. It returns false if the lease is lost. If the bucket does not answer, the lease is not lost: a
// later successful renewal proves that nobody else has held a lease in the meantime.
func (l *Lease) renew(ctx context.Context) bool {
	requested := l.m.cfg.Clock()
	revision, err := l.m.writeKey(context.WithoutCancel(ctx), leaseKey, l.data, jetstream.WithExpectLastSequencePerSubject(l.revision))
	switch {
	case err == nil:
		l.revision = revision
		l.extend(requested)
	case lostRace(err) && !l.stillOurs(ctx):
		l.m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lease_lost", slog.Uint64("epoch", l.epoch))
		close(l.lost)
		return false
	case ctx.Err() == nil:
		l.m.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lease_not_renewed", slog.Uint64("epoch", l.epoch), slog.Any("error", err))
	}
	return true
}

// stillOurs reports whether the lease key still has the value of this lease. If it does, a renewal succeeded and only its
// acknowledgement was lost; stillOurs then sets l.revision to the revision of the key. It also returns true if the bucket does
// not answer.
func (l *Lease) stillOurs(ctx context.Context) bool {
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

// Release releases the lease, so that another node can acquire it at once. It is idempotent.
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
		return fault.Wrap(fault.Unavailable, err, "the lease cannot be released").WithHint("another node acquires a lease when this one has expired")
	}
	return nil
}

// subjectPrefix is the prefix of the subjects of the bucket's keys in its stream.
const subjectPrefix = "$KV." + Bucket + "."

// message returns the message that writes a key of the bucket.
func message(key string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subjectPrefix + key, Data: data}
}
