package messages

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Store keeps records in one order. Its errors are coded: DISK_FULL, UNAVAILABLE.
type Store interface {
	// Append writes a record in the place of the one about the same thing, and returns its position. A Sent that is not
	// the first record of its message is CONFLICT.
	Append(ctx context.Context, r Record) (uint64, error)
	// Read returns the newest record of a message; NOT_FOUND.
	Read(ctx context.Context, id string) (Record, error)
	// Sync returns when all that was appended before survives what the node promises.
	Sync() error
}

// Config configures a Service. Store is required.
type Config struct {
	Store Store
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// FindSecret names the rule by which data holds a secret. Default: never.
	FindSecret func(data []byte) (rule string, found bool)
	// Members returns all known identities, for what a sender is told about recipients. Nil knows nobody and tells nothing.
	Members func(ctx context.Context) []string
	// Queue is how many messages wait for one recipient, in one group, or for all; Most and Bytes bound all of them.
	// Takers is how many acknowledge a message to all before it ends, Taken how many acknowledgements are remembered of
	// messages that others still need. Defaults: MaxQueue, MaxMessages, MaxBytes, MaxTakers, MaxTaken.
	Queue, Most, Bytes, Takers, Taken int
	Logger                            *slog.Logger
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
		&c.Queue: MaxQueue, &c.Most: MaxMessages, &c.Bytes: MaxBytes, &c.Takers: MaxTakers, &c.Taken: MaxTaken,
	} {
		if *limit <= 0 {
			*limit = usual
		}
	}
	return c
}

// Service is the broker of a node. Whoever owns the store tells it of all records (Learn, Reached), its own included.
// It is safe for concurrent use.
type Service struct {
	cfg Config
	// writing orders the decisions: what one counts is there for the next.
	writing sync.Mutex

	mu         sync.Mutex // guards what follows
	projection *Projection
	waiters    waiters
	// upTo is the position up to which all records are known; ahead are those beyond it that are, too.
	upTo  uint64
	ahead map[uint64]struct{}
	// fresh are messages beyond upTo that nobody was told of.
	fresh []*Message
	swept time.Time
	// doneCount is how many messages were dealt with in the hour doneHour.
	doneCount int
	doneHour  time.Time

	// closing is closed when nobody is to wait any more.
	closing chan struct{}
	closed  sync.Once
}

var _ Broker[string] = (*Service)(nil)

// New returns a service that knows no record yet.
func New(cfg Config) *Service {
	return &Service{cfg: cfg.withDefaults(), projection: NewProjection(), waiters: waiters{}, ahead: map[uint64]struct{}{}, closing: make(chan struct{})}
}

// EndWaits ends all waits for messages: who waits gets what there is, and who would begin to gets UNAVAILABLE. It is
// idempotent.
func (s *Service) EndWaits() { s.closed.Do(func() { close(s.closing) }) }

// Learn takes a record of the store. One that is known is passed over.
func (s *Service) Learn(position uint64, r Record) {
	size := r.size() // before the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learn(position, r, size)
	s.tell()
}

func (s *Service) learn(position uint64, r Record, size int) {
	if _, known := s.ahead[position]; known || position <= s.upTo {
		return
	}
	s.ahead[position] = struct{}{}
	if m := s.projection.apply(position, r, size); m != nil {
		s.fresh = append(s.fresh, m)
	}
	s.advance()
}

// Reached says that all records up to a position were told, or are gone.
func (s *Service) Reached(position uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = max(s.upTo, position)
	for known := range s.ahead {
		if known <= s.upTo {
			delete(s.ahead, known)
		}
	}
	s.advance()
	s.tell()
	s.sweep(s.cfg.Now())
}

// Next is the position of the first record that is not known.
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

// tell wakes those who wait for messages that can be seen from now on.
func (s *Service) tell() {
	s.fresh = slices.DeleteFunc(s.fresh, func(m *Message) bool {
		if m.Position > s.upTo {
			return false
		}
		s.waiters.wake(m)
		return true
	})
}

// sweepEvery is how often expired messages are dropped; nobody sees them before that either.
const sweepEvery = 10 * time.Second

func (s *Service) sweep(now time.Time) {
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		s.projection.Expire(now)
	}
}

// write appends a record and applies it. The lock of writing is held.
func (s *Service) write(ctx context.Context, r Record) error {
	position, err := s.cfg.Store.Append(ctx, r)
	if err == nil {
		s.Learn(position, r)
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
		r, ok, err := s.taking(who, id)
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

// Forget drops what waits for somebody and takes them out of all groups, before another one gets the name. What was sent to
// all stays. Errors are those of the store.
func (s *Service) Forget(ctx context.Context, who string) error {
	if err := CheckIdentity(who); err != nil {
		return err
	}
	s.writing.Lock()
	err := s.forget(ctx, who)
	s.writing.Unlock()
	if err != nil {
		return err
	}
	return s.cfg.Store.Sync()
}

func (s *Service) forget(ctx context.Context, who string) error {
	s.mu.Lock()
	now := s.cfg.Now()
	var records []Record
	for it := range s.projection.of(who) {
		if s.projection.needs(who, it, now) {
			records = append(records, s.without(it, who, now))
		}
	}
	for _, group := range s.projection.GroupsOf(who) {
		records = append(records, Record{Kind: Left, Group: group, Who: who, TTL: leftFor})
	}
	s.mu.Unlock()
	for _, r := range records {
		if err := s.write(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// taking returns the record by which somebody needs a message no more; false when they do not need it. QUOTA_EXCEEDED when
// no more of them can be remembered.
func (s *Service) taking(who, id string) (r Record, needed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, it := s.cfg.Now(), s.projection.items[id]
	if it == nil || !s.projection.needs(who, it, now) {
		return r, false, nil
	}
	r = s.without(it, who, now)
	if r.Kind == Taken && s.projection.takes >= s.cfg.Taken {
		return r, true, fault.New(fault.QuotaExceeded, "%d acknowledgements of messages that others still need are remembered, and that is the limit", s.projection.takes).
			WithHint("the message stays; acknowledge it when others have expired")
	}
	return r, true, nil
}

// without is the record by which somebody needs a message no more: the end of it, when everybody else has it. The lock
// is held.
func (s *Service) without(it *item, who string, now time.Time) Record {
	if known := it.Position <= s.upTo || it.onlyDirect(); known && s.projection.settled(it, who, s.cfg.Takers) {
		return s.done(it, now)
	}
	return Record{Kind: Taken, ID: it.ID, Who: who, TTL: it.ExpiresAt.Sub(now)}
}

const (
	// doneFor is how long it is known at least that a message is dealt with, unless its life was shorter: as long it can
	// be answered, and a repeated request sends it no second time.
	doneFor = 4 * time.Hour
	// doneBriefly is the same once doneMost messages were dealt with in an hour.
	doneBriefly = 10 * time.Minute
	doneMost    = 20_000
)

// done is the record that takes the place of a message. The lock is held.
func (s *Service) done(it *item, now time.Time) Record {
	if hour := now.Truncate(time.Hour); !hour.Equal(s.doneHour) {
		s.doneHour, s.doneCount = hour, 0
	}
	keep := doneFor
	if s.doneCount++; s.doneCount > doneMost {
		keep = doneBriefly
	}
	m := it.Message
	return Record{Kind: Done, Message: &m, TTL: max(min(it.ExpiresAt.Sub(now), keep), MinTTL)}
}

// leftFor is how long it is kept that somebody has left a group, for nodes that were away.
const leftFor = MaxTTL

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
		if err := s.regroup(ctx, r); err != nil {
			return Groups{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Groups{Groups: append([]string{}, s.projection.GroupsOf(who)...)}, nil
}

// membership is the record of a change; its kind is empty when there is none.
func membership(who string, change GroupChange) (Record, error) {
	r := Record{Who: who}
	name, check := change.Join, CheckGroup
	switch {
	case change.Join != "" && change.Leave != "":
		return r, fault.New(fault.ValidationError, "join one group or leave one").WithField("group")
	case change.Join != "":
		r.Kind = Joined
	case change.Leave != "":
		r.Kind, r.TTL, name, check = Left, leftFor, change.Leave, checkFormerGroup
	default:
		return r, nil
	}
	var err error
	r.Group, err = check(name)
	return r, err
}

// regroup writes a change of a membership, unless it is so already.
func (s *Service) regroup(ctx context.Context, r Record) error {
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
