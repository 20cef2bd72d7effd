package bus

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

// Lease is the lease of the active node of a cluster, see package election.
type Lease interface {
	// Epoch returns the number of the lease; later leases have higher ones.
	Epoch() uint64
	// Held reports whether this node certainly holds the lease now: no other node can hold one. After false it may
	// return true again, until Lost is closed.
	Held() bool
	// Lost returns a channel that is closed when the lease is lost permanently.
	Lost() <-chan struct{}
	// Release releases the lease, so that this or another node can acquire a new lease.
	Release(ctx context.Context) error
}

// Fenced is the reason in UNAVAILABLE errors of a node that is no longer active. The request had no effect.
const Fenced = "FENCED"

// fenced returns the error of a node that does not hold the lease.
func fenced() error {
	return fault.New(fault.Unavailable, "another node of the cluster is active").WithReason(Fenced).
		WithHint("try again; see orch nodes")
}

// leaseLost reports whether a lease is permanently lost; false without a lease.
func leaseLost(l Lease) bool {
	if l == nil {
		return false
	}
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// heldEvery is how often a waiting request checks whether the lease was renewed.
const heldEvery = 20 * time.Millisecond

// awaitHeld waits until a lease is held; false if it is lost or ctx ends.
func awaitHeld(ctx context.Context, l Lease) bool {
	if l == nil || l.Held() {
		return true
	}
	tick := time.NewTicker(heldEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.Lost():
			return false
		case <-tick.C:
			if l.Held() {
				return true
			}
		}
	}
}

// epochHeader is the header with the epoch of a commit.
const epochHeader = "Orch-Epoch"

// inputRoot is the root of the subjects to which a node with a lease publishes commits. These subjects contain the epoch of
// the lease. The stream accepts only the subjects of one epoch, and stores the commits under their usual subjects. So
// commits from a node of an earlier epoch reach no stream.
const inputRoot = "orch.in"

// inputRootOf returns the root that replaces liveRoot in the subjects of appends in an epoch.
func inputRootOf(epoch uint64) string { return inputRoot + "." + strconv.FormatUint(epoch, 10) }

// fence restricts the log to commits of one epoch.
func fence(cfg *jetstream.StreamConfig, epoch uint64) {
	input := inputRootOf(epoch) + ".*.*"
	cfg.Subjects = []string{input}
	cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: input, Destination: liveRoot + ".{{wildcard(1)}}.{{wildcard(2)}}"}
}

// epochOf returns the epoch that a log is restricted to; 0 if it is not restricted.
func epochOf(cfg *jetstream.StreamConfig) uint64 {
	if cfg.SubjectTransform == nil {
		return 0
	}
	rest, _ := strings.CutPrefix(cfg.SubjectTransform.Source, inputRoot+".")
	number, _, _ := strings.Cut(rest, ".")
	epoch, _ := strconv.ParseUint(number, 10, 64) // 0 for a foreign subject
	return epoch
}

// Epoch returns the epoch that the log of the cluster is restricted to; 0 if it is not restricted or does not exist yet.
func (c *Conn) Epoch(ctx context.Context) (uint64, error) {
	live, err := c.js.Stream(ctx, liveStream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, nil
	case err != nil:
		return 0, readFault(err)
	default:
		return epochOf(&live.CachedInfo().Config), nil
	}
}

// resignIfOvertaken releases the lease if the log is restricted to another epoch. This happens if a node with an older lease
// was suspended between checking its lease and changing the log, and has changed the log since: the server cannot make
// that change conditional. The next holder then opens the log again.
func (s *Store) resignIfOvertaken(ctx context.Context) {
	l := s.cfg.Lease
	if l == nil || leaseLost(l) {
		return
	}
	epoch, err := s.conn.Epoch(ctx)
	if err != nil || epoch == 0 || epoch == s.epoch {
		return
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "log_taken_over", slog.Uint64("epoch", s.epoch), slog.Uint64("by", epoch))
	if err := l.Release(ctx); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lease_not_released", slog.Any("error", err))
	}
}

// epochEvery is how often the active node checks the epoch of the log.
const epochEvery = 2 * time.Second

// watchEpoch checks the epoch of the log every epochEvery until ctx ends. Otherwise a node that appends nothing would not
// notice a change.
func (s *Store) watchEpoch(ctx context.Context) {
	if s.cfg.Lease == nil {
		return
	}
	tick := time.NewTicker(epochEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.resignIfOvertaken(ctx)
		}
	}
}

// AwaitLease waits until the lease of a connection is held; false if it is lost or ctx ends. Without a lease it returns true at once.
func (c *Conn) AwaitLease(ctx context.Context) bool { return awaitHeld(ctx, c.lease) }

// nextEpoch returns the epoch for the appends of a node: that of its lease if it is higher than last, the epoch of the log,
// otherwise last+1. The epoch of the lease is not higher if the bucket of leases was lost and counts from 1 again, or after
// the case in resignIfOvertaken. The caller must have checked that the lease is held.
func nextEpoch(l Lease, last uint64) uint64 {
	if l.Epoch() > last {
		return l.Epoch()
	}
	return last + 1
}
