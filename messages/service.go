package messages

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Store stores records in one total order. Its errors are DISK_FULL and UNAVAILABLE.
type Store interface {
	// Append writes a record and returns its position. The record replaces the previous record with the same key.
	// Append returns CONFLICT for a Sent record that is not the first record of its message.
	Append(ctx context.Context, r Record) (uint64, error)
	// Read returns the newest record of a message, or NOT_FOUND.
	Read(ctx context.Context, id string) (Record, error)
	// Sync returns when all earlier appends are as durable as the node promises.
	Sync() error
}

// Config configures a Service. Store is required.
type Config struct {
	Store Store
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// FindSecret reports whether data contains a secret, and the matching rule. Default: it never does.
	FindSecret func(data []byte) (rule string, found bool)
	// Members returns all known identities, to report unknown recipients to senders. If nil, they are not reported.
	Members func(ctx context.Context) []string
	// Queue bounds the pending messages of an address; Messages and Bytes bound all messages. Ackers is how many
	// acknowledgements remove a message to all. StoredAcks bounds the stored acknowledgements of pending messages.
	// Defaults: MaxQueue, MaxMessages, MaxBytes, MaxAckers, MaxStoredAcks.
	Queue, Messages, Bytes, Ackers, StoredAcks int
	Logger                                     *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FindSecret == nil {
		c.FindSecret = func([]byte) (string, bool) { return "", false }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for limit, usual := range map[*int]int{
		&c.Queue: MaxQueue, &c.Messages: MaxMessages, &c.Bytes: MaxBytes, &c.Ackers: MaxAckers, &c.StoredAcks: MaxStoredAcks,
	} {
		if *limit <= 0 {
			*limit = usual
		}
	}
	return c
}

// Service is the broker of a node. The reader of the store passes it all records (Apply, AdvanceTo), including its own.
// It is safe for concurrent use.
type Service struct {
	cfg Config
	// writing serializes all decisions that write records, so that each decision sees the records of the earlier ones.
	writing sync.Mutex

	mu         sync.Mutex // guards the fields below, up to closing
	projection *Projection
	waiters    waiters
	// upTo is the position up to which all records were applied. ahead are the applied positions beyond it.
	upTo  uint64
	ahead map[uint64]struct{}
	// fresh are messages beyond upTo, for which no waiter was woken yet.
	fresh []*Message
	swept time.Time
	// doneCount counts the Done records written in the hour that begins at doneHour.
	doneCount int
	doneHour  time.Time

	// closing is closed by StopWaits.
	closing chan struct{}
	closed  sync.Once
}

var _ Broker[string] = (*Service)(nil)

// New returns a service without records.
func New(cfg Config) *Service {
	return &Service{cfg: cfg.withDefaults(), projection: NewProjection(), waiters: waiters{}, ahead: map[uint64]struct{}{}, closing: make(chan struct{})}
}

// StopWaits ends all waits for messages. A waiting reader gets the pending messages; a reader that would start to wait
// gets UNAVAILABLE. It is idempotent.
func (s *Service) StopWaits() { s.closed.Do(func() { close(s.closing) }) }

// Apply applies a record of the store. A record that was applied before is ignored.
func (s *Service) Apply(position uint64, r Record) {
	size := r.size() // before the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(position, r, size)
	s.wakeWaiters()
}

func (s *Service) apply(position uint64, r Record, size int) {
	if _, known := s.ahead[position]; known || position <= s.upTo {
		return
	}
	s.ahead[position] = struct{}{}
	if m := s.projection.apply(position, r, size); m != nil {
		s.fresh = append(s.fresh, m)
	}
	s.advance()
}

// AdvanceTo declares that all records up to a position were applied or no longer exist.
func (s *Service) AdvanceTo(position uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = max(s.upTo, position)
	for known := range s.ahead {
		if known <= s.upTo {
			delete(s.ahead, known)
		}
	}
	s.advance()
	s.wakeWaiters()
	s.sweep(s.cfg.Now())
}

// Next returns the position after the last contiguous applied record.
func (s *Service) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upTo + 1
}

func (s *Service) advance() {
	for {
		if _, known := s.ahead[s.upTo+1]; !known {
			return
		}
		s.upTo++
		delete(s.ahead, s.upTo)
	}
}

// wakeWaiters wakes the readers that wait for messages up to upTo. s.mu must be held.
func (s *Service) wakeWaiters() {
	s.fresh = slices.DeleteFunc(s.fresh, func(m *Message) bool {
		if m.Position > s.upTo {
			return false
		}
		s.waiters.wake(m)
		return true
	})
}

// sweepEvery is the interval at which expired messages are removed. They are invisible as soon as they expire.
const sweepEvery = 10 * time.Second

func (s *Service) sweep(now time.Time) {
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		s.projection.Expire(now)
	}
}

// write appends a record and applies it. s.writing must be held.
func (s *Service) write(ctx context.Context, r Record) error {
	position, err := s.cfg.Store.Append(ctx, r)
	if err == nil {
		s.Apply(position, r)
	}
	return err
}

// Ack implements Broker.
func (s *Service) Ack(ctx context.Context, who string, ids []string) (Acked, error) {
	result := Acked{Acknowledged: []string{}}
	if err := CheckIdentity(who); err != nil {
		return result, err
	}
	if len(ids) == 0 || len(ids) > MaxAcks {
		return result, fault.New(fault.ValidationError, "there are %d messages; 1 to %d may be acknowledged at once", len(ids), MaxAcks).WithField("message_ids")
	}
	if err := CheckIDs(ids); err != nil {
		return result, err
	}
	s.writing.Lock()
	err := s.ackAll(ctx, who, distinct(ids), &result)
	s.writing.Unlock()
	if err != nil {
		return result, err
	}
	return result, s.cfg.Store.Sync()
}

func (s *Service) ackAll(ctx context.Context, who string, ids []string, result *Acked) error {
	for _, id := range ids {
		r, ok, err := s.ackRecord(who, id)
		if err != nil {
			return err
		}
		if !ok {
			result.Unknown = append(result.Unknown, id)
			continue
		}
		if err := s.write(ctx, r); err != nil {
			return err
		}
		result.Acknowledged = append(result.Acknowledged, id)
	}
	return nil
}

// RemoveIdentity removes the pending messages and memberships of an identity, before another agent gets its name.
// Messages to all stay. Errors are those of the store.
func (s *Service) RemoveIdentity(ctx context.Context, who string) error {
	if err := CheckIdentity(who); err != nil {
		return err
	}
	s.writing.Lock()
	err := s.removeIdentity(ctx, who)
	s.writing.Unlock()
	if err != nil {
		return err
	}
	return s.cfg.Store.Sync()
}

func (s *Service) removeIdentity(ctx context.Context, who string) error {
	s.mu.Lock()
	now := s.cfg.Now()
	var records []Record
	for it := range s.projection.messagesOf(who) {
		if s.projection.pendingFor(who, it, now) {
			records = append(records, s.recipientDoneRecord(it, who, now))
		}
	}
	for _, group := range s.projection.GroupsOf(who) {
		records = append(records, Record{Kind: Left, Group: group, Who: who, TTL: leftTTL})
	}
	s.mu.Unlock()
	for _, r := range records {
		if err := s.write(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// ackRecord returns the record of an acknowledgement; needed is false when the message is not pending for who.
// ackRecord returns QUOTA_EXCEEDED when too many acknowledgements are stored.
func (s *Service) ackRecord(who, id string) (r Record, needed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, it := s.cfg.Now(), s.projection.items[id]
	if it == nil || !s.projection.pendingFor(who, it, now) {
		return r, false, nil
	}
	r = s.recipientDoneRecord(it, who, now)
	if r.Kind == RecipientDone && s.projection.acks >= s.cfg.StoredAcks {
		return r, true, fault.New(fault.QuotaExceeded, "%d acknowledgements of messages that others still need are remembered, and that is the limit", s.projection.acks).
			WithHint("the message stays; acknowledge it when others have expired")
	}
	return r, true, nil
}

// recipientDoneRecord returns the record of an acknowledgement: Done if the message is then pending for nobody, else
// RecipientDone. s.mu must be held.
func (s *Service) recipientDoneRecord(it *item, who string, now time.Time) Record {
	if known := it.Position <= s.upTo || it.onlyDirect(); known && s.projection.everybodyDone(it, who, s.cfg.Ackers) {
		return s.doneRecord(it, now)
	}
	return Record{Kind: RecipientDone, ID: it.ID, Who: who, TTL: it.ExpiresAt.Sub(now)}
}

const (
	// doneTTL is how long a Done record is kept, unless the message would have expired before. While the record exists,
	// replies to the message are possible, and a repeated request does not send the message again.
	doneTTL = 4 * time.Hour
	// doneTTLBusy is doneTTL after doneMaxPerHour messages in an hour.
	doneTTLBusy    = 10 * time.Minute
	doneMaxPerHour = 20_000
)

// doneRecord returns the Done record of a message. s.mu must be held.
func (s *Service) doneRecord(it *item, now time.Time) Record {
	if hour := now.Truncate(time.Hour); !hour.Equal(s.doneHour) {
		s.doneHour, s.doneCount = hour, 0
	}
	keep := doneTTL
	if s.doneCount++; s.doneCount > doneMaxPerHour {
		keep = doneTTLBusy
	}
	m := it.Message
	return Record{Kind: Done, Message: &m, TTL: max(min(it.ExpiresAt.Sub(now), keep), MinTTL)}
}

// leftTTL is how long a Left record is kept, for nodes that were offline.
const leftTTL = MaxTTL

// Group implements Broker.
func (s *Service) Group(ctx context.Context, who string, change GroupChange) (Groups, error) {
	if err := CheckIdentity(who); err != nil {
		return Groups{}, err
	}
	r, err := membership(who, change)
	if err != nil {
		return Groups{}, err
	}
	if r.Kind != "" {
		if err := s.changeGroup(ctx, r); err != nil {
			return Groups{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Groups{Groups: append([]string{}, s.projection.GroupsOf(who)...)}, nil
}

// membership returns the record of a change; its kind is empty for no change.
func membership(who string, change GroupChange) (Record, error) {
	r := Record{Who: who}
	name, check := change.Join, CheckGroup
	switch {
	case change.Join != "" && change.Leave != "":
		return r, fault.New(fault.ValidationError, "join one group or leave one").WithField("group")
	case change.Join != "":
		r.Kind = Joined
	case change.Leave != "":
		r.Kind, r.TTL, name, check = Left, leftTTL, change.Leave, checkFormerGroup
	default:
		return r, nil
	}
	var err error
	r.Group, err = check(name)
	return r, err
}

// changeGroup writes a change of a membership, unless it is already in effect.
func (s *Service) changeGroup(ctx context.Context, r Record) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	_, in := s.projection.members[r.Group][r.Who]
	mine, all := len(s.projection.groups[r.Who]), s.projection.memberships
	s.mu.Unlock()
	if in == (r.Kind == Joined) {
		return nil
	}
	if r.Kind == Joined && mine >= MaxGroups {
		return fault.New(fault.QuotaExceeded, "%s is in %d groups, and that is the limit", r.Who, MaxGroups).WithField("group").WithHint("leave one first")
	}
	if r.Kind == Joined && all >= MaxMemberships {
		return fault.New(fault.QuotaExceeded, "the groups have %d members together, and that is the limit", MaxMemberships).WithField("group")
	}
	if err := s.write(ctx, r); err != nil {
		return err
	}
	return s.cfg.Store.Sync()
}
