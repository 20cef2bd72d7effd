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

// Lease says whether this process is the active one of those that share a cluster, see package election.
type Lease interface {
	// Epoch is the number of the lease; later leases have higher ones.
	Epoch() uint64
	// Held reports whether nobody else can hold a lease now. It may be true again later, until Lost is closed.
	Held() bool
	Lost() <-chan struct{}
	// Release gives the lease up, so that somebody else, or this process again, can take one.
	Release(ctx context.Context) error
}

// Fenced is the reason of an UNAVAILABLE of a node that is not the active one any more: nothing was done.
const Fenced = "FENCED"

// fenced says that the log belongs to another node by now.
func fenced() error {
	return fault.New(fault.Unavailable, "another node of the cluster is active").WithReason(Fenced).
		WithHint("try again; see orch nodes")
}

// leaseLost reports whether a lease is over for good; none never is.
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

// heldEvery is how often a request looks whether a lease is renewed that was not in time.
const heldEvery = 20 * time.Millisecond

// awaitHeld waits until a lease is held; false when it is lost, or ctx ends.
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

// epochHeader is the epoch of a commit.
const epochHeader = "Orch-Epoch"

// inputRoot begins the subjects to which the active node of an epoch appends. The stream takes no others, and stores the commits
// where all of them are: what a node of an earlier epoch sends reaches nobody.
const inputRoot = "orch.in"

// inputRootOf begins the subjects of appends in an epoch, where commits have liveRoot.
func inputRootOf(epoch uint64) string { return inputRoot + "." + strconv.FormatUint(epoch, 10) }

// fence lets the log take commits of one epoch alone.
func fence(cfg *jetstream.StreamConfig, epoch uint64) {
	input := inputRootOf(epoch) + ".*.*"
	cfg.Subjects = []string{input}
	cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: input, Destination: liveRoot + ".{{wildcard(1)}}.{{wildcard(2)}}"}
}

// epochOf is the epoch of the commits that a log takes; 0 when it takes all.
func epochOf(cfg *jetstream.StreamConfig) uint64 {
	if cfg.SubjectTransform == nil {
		return 0
	}
	rest, _ := strings.CutPrefix(cfg.SubjectTransform.Source, inputRoot+".")
	number, _, _ := strings.Cut(rest, ".")
	epoch, _ := strconv.ParseUint(number, 10, 64) // 0 for what is not ours
	return epoch
}

// Epoch is the number of the lease under which the log of the cluster takes commits; 0 when there is no log yet.
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

// resignIfOvertaken gives the lease up when the log takes commits of another epoch. Then a node has opened it that was late: it stood still
// between its look at its own lease and the change of the log, for which the server knows no condition. The next holder opens the log anew.
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

// epochEvery is how often the active node looks whose the log is.
const epochEvery = 2 * time.Second

// watchEpoch looks now and then whether the log is still this node's, until ctx ends: a node that appends nothing would not find out.
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

// AwaitLease waits until the lease of a connection is held; false when it is lost, or ctx ends. A connection without one need not wait.
func (c *Conn) AwaitLease(ctx context.Context) bool { return awaitHeld(ctx, c.lease) }

// nextEpoch is that of a lease, or the next one of the log when that is further: the bucket of the leases was lost and they count from 1
// again, or a node that was late has taken the log. Whether the lease is held is asked before.
func nextEpoch(l Lease, last uint64) uint64 {
	if l.Epoch() > last {
		return l.Epoch()
	}
	return last + 1
}
