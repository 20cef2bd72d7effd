// Package election elects one of the nodes on a NATS cluster as the active node: the node that holds a lease in a replicated
// bucket. A lease has a number, the epoch. No two leases have the same epoch, and later leases have higher ones.
//
// A lease alone does not fence off other nodes: a process that was suspended may believe that it still holds an expired lease. So
// the log (package bus) refuses appends with the epoch of an earlier lease.
package election

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/uptime"
)

const (
	// Bucket holds a key for each member, and one for the lease.
	Bucket = "ORCH_MEMBERS"
	// TTL is how long a lease, or the key of a member, lives without a renewal.
	TTL = 2 * time.Second
	// RenewEvery is how often leases and the keys of members are renewed.
	RenewEvery = 500 * time.Millisecond
)

const (
	leaseKey     = "active"
	memberPrefix = "member."
	// guard is how much earlier than the server a holder treats its lease as expired.
	guard = 250 * time.Millisecond
	// campaignEvery is how often a candidate tries to acquire the lease. It also tries when the bucket notifies it.
	campaignEvery = 100 * time.Millisecond
	// answerWithin is how long the bucket may take to answer.
	answerWithin = time.Second
	// markersFor is how long the server keeps the marker of an expired key.
	markersFor = time.Minute
)

// Info describes a member.
type Info struct {
	// ID is the unique name of the member; Join chooses it.
	ID      string `json:"id"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	// Store is the newest version of a store that the member can open (bus.StoreVersion); 0 for members of before they said so.
	Store int `json:"store,omitempty"`
	// HTTP is the address at which the member serves HTTP; empty if it does not.
	HTTP string `json:"http,omitempty"`
	// Since is when the member started; in a lease, when the lease was acquired.
	Since time.Time `json:"since"`
}

// Name returns the name of a member for people: host and process id.
func (i Info) Name() string { return i.Host + ":" + strconv.Itoa(i.PID) }

// Config configures a member.
type Config struct {
	Conn *nats.Conn
	// Replicas is the minimum number of replicas of the bucket. Join raises a lower number and keeps a higher one. Default: 1.
	Replicas int
	Self     Info
	// Logger logs failures to renew keys; nil discards them.
	Logger *slog.Logger
	// Clock is a monotonic clock that continues while the machine sleeps. Default: uptime.Now.
	Clock func() time.Duration
	// TryEvery is how often a candidate tries to acquire the lease. It also tries when it is notified that the lease is free.
	// Default: 100 ms.
	TryEvery time.Duration
	// RenewEvery is how often a holder renews its lease. It also tries to renew the lease when it is notified that another node
	// holds it. Default: 500 ms.
	RenewEvery time.Duration
}

// Member is a node in the election. It is in the list of members until it leaves; the entry of a dead process expires.
type Member struct {
	cfg  Config
	js   jetstream.JetStream
	kv   jetstream.KeyValue
	stop context.CancelFunc
	done sync.WaitGroup
}

// checkServer returns VALIDATION_ERROR for a version of the server without keys that expire. It accepts a version that it
// cannot parse.
func checkServer(version string) error {
	var major, minor int
	if n, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); err != nil || n < 2 {
		return nil //nolint:nilerr // an old server then refuses to create the bucket
	}
	if major > 2 || major == 2 && minor >= 11 {
		return nil
	}
	return fault.New(fault.ValidationError, "the NATS server has version %s; nodes that share a log need 2.11 or newer, which supports keys that expire", version).
		WithField("nats").WithHint("update the NATS servers")
}

// Join makes this process a member. Errors: UNAVAILABLE, VALIDATION_ERROR for servers that are too old.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = uptime.Now
	}
	cfg.TryEvery = cmp.Or(cfg.TryEvery, campaignEvery)
	cfg.RenewEvery = cmp.Or(cfg.RenewEvery, RenewEvery)
	if cfg.Self.ID == "" {
		cfg.Self.ID = nuid.Next()
	}
	if err := checkServer(cfg.Conn.ConnectedServerVersion()); err != nil {
		return nil, err
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, unavailable(err)
	}
	kv, err := openBucket(ctx, js, max(cfg.Replicas, 1))
	if err != nil {
		return nil, unavailable(err)
	}
	m := &Member{cfg: cfg, js: js, kv: kv}
	if err := m.writeMember(ctx); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	m.done.Go(func() { m.renewMembership(run) })
	return m, nil
}

// ID returns the unique name of the member.
func (m *Member) ID() string { return m.cfg.Self.ID }

// openBucket opens or creates the bucket. It never reduces the number of replicas, because a command that does not know the
// settings of the cluster may call it with 1.
func openBucket(ctx context.Context, js jetstream.JetStream, replicas int) (jetstream.KeyValue, error) {
	cfg := jetstream.KeyValueConfig{
		Bucket: Bucket, Description: "the nodes, and which of them is active", Replicas: replicas, LimitMarkerTTL: markersFor,
	}
	kv, err := js.CreateKeyValue(ctx, cfg)
	if !errors.Is(err, jetstream.ErrBucketExists) {
		return kv, err
	}
	if kv, err = js.KeyValue(ctx, Bucket); err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil || status.Config().Replicas >= replicas {
		return kv, err
	}
	return js.UpdateKeyValue(ctx, cfg)
}

func unavailable(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the nodes of the cluster cannot agree which one is active").
		WithHint("check that most servers of the NATS cluster run and that the credential may use JetStream")
}

// renewMembership renews the key of the member until ctx ends.
func (m *Member) renewMembership(ctx context.Context) {
	every(ctx, RenewEvery, func() bool {
		if err := m.writeMember(ctx); err != nil && ctx.Err() == nil {
			m.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "member_not_renewed", slog.Any("error", err))
		}
		return true
	})
}

// writeMember writes the key of the member.
func (m *Member) writeMember(ctx context.Context) error {
	data, err := json.Marshal(m.cfg.Self)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the member cannot be encoded")
	}
	_, err = m.writeKey(ctx, memberPrefix+m.cfg.Self.ID, data)
	return err
}

// writeKey writes a key that expires after TTL. The library's Update would write a permanent key.
func (m *Member) writeKey(ctx context.Context, key string, data []byte, opts ...jetstream.PublishOpt) (revision uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	ack, err := m.js.PublishMsg(ctx, message(key, data), append(opts, jetstream.WithMsgTTL(TTL))...)
	if err != nil {
		return 0, unavailable(err)
	}
	return ack.Sequence, nil
}

// TryAcquire acquires the lease if it is free; CONFLICT if another node holds it.
func (m *Member) TryAcquire(ctx context.Context) (*Lease, error) {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	self := m.cfg.Self
	self.Since = time.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(self)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the lease cannot be encoded")
	}
	requested := m.cfg.Clock()
	revision, err := m.kv.Create(ctx, leaseKey, data, jetstream.KeyTTL(TTL))
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), lostRace(err):
		return nil, fault.New(fault.Conflict, "another node of the cluster is active").WithHint("see: orch nodes")
	case err != nil:
		return nil, unavailable(err)
	}
	return m.newLease(data, revision, requested), nil
}

// lostRace reports whether a write failed with err because another writer was first.
func lostRace(err error) bool {
	const wrongLast, concurrent = 10071, 10164 // error codes of the server; only clusters return the second one
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == wrongLast || api.ErrorCode == concurrent)
}

// Campaign waits until it acquires the lease. It returns an error only when ctx ends.
func (m *Member) Campaign(ctx context.Context) (*Lease, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var won *Lease
	everyOr(ctx, m.cfg.TryEvery, m.watch(watching, isFree), func() bool {
		lease, err := m.TryAcquire(ctx)
		if err != nil && !fault.Has(err, fault.Conflict) && ctx.Err() == nil {
			m.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "lease_not_taken", slog.Any("error", err))
		}
		won = lease
		return err != nil
	})
	if won == nil {
		return nil, fault.From(ctx.Err())
	}
	return won, nil
}

// isFree reports whether an entry of the lease key means that nobody holds the lease.
func isFree(entry jetstream.KeyValueEntry) bool { return entry.Operation() != jetstream.KeyValuePut }

// watch returns a channel that receives a value after each change of the lease for which matches returns true, until ctx
// ends. It receives nothing if the bucket cannot be watched.
func (m *Member) watch(ctx context.Context, matches func(jetstream.KeyValueEntry) bool) <-chan struct{} {
	notified := make(chan struct{}, 1)
	go func() {
		changes, err := m.kv.Watch(ctx, leaseKey, jetstream.UpdatesOnly())
		if err != nil {
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case entry, more := <-changes.Updates():
				if !more {
					return
				}
				if entry != nil && matches(entry) {
					notify(notified)
				}
			}
		}
	}()
	return notified
}

// notify sends to a channel, unless one notification is already pending.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// every calls fn at once and then at every interval, until it returns false or ctx ends.
func every(ctx context.Context, d time.Duration, fn func() bool) { everyOr(ctx, d, nil, fn) }

// everyOr is like every, but also calls fn after each notification.
func everyOr(ctx context.Context, d time.Duration, notified <-chan struct{}, fn func() bool) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil && fn() {
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-notified:
		}
	}
}

// Leave removes the member from the list of members. The caller must release its lease first.
func (m *Member) Leave(ctx context.Context) {
	m.stop()
	m.done.Wait()
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	_ = m.kv.Delete(ctx, memberPrefix+m.cfg.Self.ID) // if this fails, the key expires
}
