package sender

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/internal/keyring"
	"github.com/orch-dev/orch/internal/netguard"
)

// Config configures a Sender. Log, Secrets, Open and Clock are required.
type Config struct {
	Log     follow.Log
	Secrets keyring.Store
	// Open opens the journal.
	Open journaled.Open
	// Net says which addresses destinations may have.
	Net netguard.Config
	// Page returns the URL of the page of a task, an approval or a question; empty for none. Default: none.
	Page func(kind, id string) string
	// Redact removes secrets from texts. Default: it removes none.
	Redact func(text string) string
	// Clock is the wall clock. Random returns numbers from 0 to 1; default: random ones.
	Clock  func() time.Time
	Random func() float64
	// Interval is the time between two looks at the log. Default 500 ms.
	Interval time.Duration
	// Timeout bounds an attempt. Default 20 s.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Limits of destinations.
const (
	// MaxDestinations is the maximum number of destinations.
	MaxDestinations = 100
	// MaxPending is the number of deliveries that wait from which a destination takes no further ones from the log.
	MaxPending = 1000
	// MaxDead is the number of dead letters with which a destination is paused.
	MaxDead = 1000
)

// Sender delivers events to the destinations of a node. It implements api.Destinations.
type Sender struct {
	cfg    Config
	log    *slog.Logger
	client *netguard.Client

	// turn is held while destinations change, also during the I/O. It guards the fields up to mu.
	turn  sync.Mutex
	state *journaled.State[change]

	mu   sync.RWMutex
	all  map[string]*destination
	keys *keyring.Ring // by the id of the destination
	// busy are the ids of the destinations that a goroutine delivers to.
	busy map[string]bool
	// counted counts the attempts of this process.
	counted map[destinations.Result]int

	running sync.WaitGroup

	// facts are those of tasks that collecting has met. Only the goroutine of Run uses them.
	facts map[events.TaskID]destinations.Facts
}

var _ api.Destinations = (*Sender)(nil)

// New returns a sender that knows no destinations until Start.
func New(cfg Config) *Sender {
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	if cfg.Page == nil {
		cfg.Page = func(string, string) string { return "" }
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	cfg.Interval, cfg.Timeout = cmp.Or(cfg.Interval, 500*time.Millisecond), cmp.Or(cfg.Timeout, 20*time.Second)
	s := &Sender{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), client: netguard.New(cfg.Net),
		all: map[string]*destination{}, keys: keyring.New(cfg.Secrets), busy: map[string]bool{}, counted: map[destinations.Result]int{}, facts: map[events.TaskID]destinations.Facts{},
	}
	s.state = s.newState()
	return s
}

// Start reads the journal and the secrets, if there are any. Errors: DATA_LOSS, UNAVAILABLE.
func (s *Sender) Start(ctx context.Context) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.state.Start(ctx); err != nil {
		return err
	}
	return s.keys.Load(ctx)
}

// Run delivers until ctx ends. It does nothing but look at the time while there are no destinations.
func (s *Sender) Run(ctx context.Context) {
	defer s.running.Wait()
	tick := time.NewTicker(s.cfg.Interval)
	defer tick.Stop()
	for {
		s.step(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// step looks at the log once, and starts what is due.
func (s *Sender) step(ctx context.Context) {
	if err := s.collect(ctx); err != nil && ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "destinations_behind", slog.Any("error", err))
	}
	for name, id := range s.due() {
		s.running.Go(func() { s.deliverAll(ctx, name, id) })
	}
}

// now returns the time in the precision of the log.
func (s *Sender) now() time.Time { return events.Time(s.cfg.Clock()) }

// get returns a destination, or nil. mu must be held.
func (s *Sender) get(name string) *destination { return s.all[name] }

// sorted returns all destinations, by name. mu must be held.
func (s *Sender) sorted() []*destination {
	all := slices.Collect(maps.Values(s.all))
	slices.SortFunc(all, func(a, b *destination) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// due returns the names and ids of the destinations for which a delivery is due and that no goroutine delivers to, and marks them as busy.
func (s *Sender) due() map[string]string {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]string{}
	for _, d := range s.all {
		if id := d.Definition.ID; !s.busy[id] && s.ready(d) && d.next(now) != nil {
			s.busy[id] = true
			found[d.Name] = id
		}
	}
	return found
}

// ready reports whether a destination gets deliveries. mu must be held.
func (s *Sender) ready(d *destination) bool {
	return d.Paused == nil && !d.restsUntil.After(s.now()) && s.keys.Get(d.Definition.ID) != nil
}
